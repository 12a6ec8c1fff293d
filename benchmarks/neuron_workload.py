"""Requests, drafts and logits for `benchmarks.neuron_steps`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

#: Drafts per request and step, and output tokens of a request, at most.
SPECULATIVE = 3
LONGEST = 60
#: Different rows of logits; a request's row at a position is one of them.
POOL = 97

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
        "count": {"type": "integer", "minimum": 0, "maximum": 999},
        "state": {"enum": ["new", "paid", "shipped"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 3},
    },
    "required": ["id", "count", "state"],
    "additionalProperties": False,
}
CONSTRAINTS: tuple[dict[str, Any] | None, ...] = (
    {"json": ORDER},
    {"regex": r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]"},
    {"choice": ["accept", "reject", "ask a person"]},  # a regex for others, which vLLM makes of it at admission
    {"json": {"type": "array", "items": {"type": ["integer", "null", "boolean"]}, "minItems": 2, "maxItems": 6}},
    {"grammar": 'root ::= term (" + " term)*\nterm ::= [a-z] [0-9]? | "(" root ")"\n'},
    None,
    None,
)


def engine_config(folder: Path, backend: str, device_rows: int) -> Any:
    """vLLM's configuration of an engine for the model in `folder`; with `device_rows` the backend sends row ids."""
    from vllm.config import StructuredOutputsConfig
    from vllm.engine.arg_utils import EngineArgs

    return EngineArgs(
        model=str(folder),
        load_format="dummy",
        max_model_len=512,
        max_num_seqs=16,
        additional_config={"schemac": {"device_rows": device_rows}} if device_rows else {},
        structured_outputs_config=StructuredOutputsConfig(backend=backend),
        speculative_config={"method": "ngram", "num_speculative_tokens": SPECULATIVE, "prompt_lookup_max": 2},
    ).create_engine_config()


class Workload:
    """Mixed requests, by a seed.

    Args:
        vocab_size: the number of logits V.
        stop_ids: ids that end a request.
        backend: the structured-output backend to name in each request.
        seed: of all choices.
    """

    def __init__(self, vocab_size: int, stop_ids: frozenset[int], backend: str, seed: int) -> None:
        self.vocab_size, self.stop_ids, self.backend = vocab_size, stop_ids, backend
        self._rng = np.random.default_rng(seed)
        self._pool = torch.from_numpy(self._rng.normal(size=(POOL, vocab_size)).astype(np.float32))
        self._made = 0
        self._scratch = torch.full((1, (vocab_size + 31) // 32), -1, dtype=torch.int32)

    def next_request(self) -> Any:
        """One of vLLM's requests, constrained or free."""
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams
        from vllm.v1.request import Request

        constraint = CONSTRAINTS[int(self._rng.integers(len(CONSTRAINTS)))]
        if constraint is not None and "choice" in constraint and self.backend != "schemac":
            constraint = {"regex": "|".join(constraint["choice"])}
        asked = None if constraint is None else StructuredOutputsParams(**constraint)
        if asked is not None:
            asked._backend = self.backend
        params = SamplingParams(max_tokens=LONGEST, structured_outputs=asked)
        params.update_from_generation_config({"eos_token_id": min(self.stop_ids)}, min(self.stop_ids))
        self._made += 1
        request = Request(f"r{self._made}", [1, 2, 3], params, None)
        request.num_computed_tokens = 3
        return request

    def wait_for(self, request: Any) -> None:
        """Until the request's grammar is compiled."""
        end = time.monotonic() + 120
        while not request.structured_output_request.is_grammar_ready:
            if time.monotonic() > end:
                raise TimeoutError(f"{request.request_id}: no grammar after 120 s")
            time.sleep(0.001)
        grammar = request.structured_output_request.grammar
        if isinstance(grammar, Exception):
            raise grammar

    def shuffled(self, names: list[str]) -> list[str]:
        """The order of the batch."""
        return [names[index] for index in self._rng.permutation(len(names))]

    def logits(self, request: Any, ahead: int) -> torch.Tensor:
        """float32 [V]: what the model says at the position `ahead` of those that are decided."""
        number = int(request.request_id[1:]) * 7919 + request.num_output_tokens + ahead
        row = self._pool[number * 31 % POOL]
        # A text that goes on for long is brought to its end.
        if request.num_output_tokens + ahead > LONGEST - 20:
            row = row.clone()
            row[list(self.stop_ids)] = 100.0
        return row

    def drafts_for(self, request: Any) -> list[int]:
        """What a draft model proposes: often what the model will choose, sometimes nonsense, sometimes nothing."""
        if self._rng.random() < 0.5:
            return []
        grammar = request.structured_output_request and request.structured_output_request.grammar
        drafts: list[int] = []
        for ahead in range(int(self._rng.integers(1, SPECULATIVE + 1))):
            logits = self.logits(request, ahead)
            if self._rng.random() < 0.2:
                drafts.append(int(self._rng.integers(self.vocab_size)))
            elif grammar is None:
                drafts.append(int(logits.argmax()))
            elif grammar.is_terminated():
                break
            else:
                grammar.fill_bitmask(self._scratch, 0)
                words = self._scratch[0].numpy().view(np.uint32)
                allowed = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")[: self.vocab_size])
                drafts.append(int(allowed[int(logits.numpy()[allowed].argmax())]))
            if grammar is not None and not grammar.accept_tokens(request.request_id, drafts[-1:]):
                grammar.rollback(len(drafts) - 1)
                return drafts
        if grammar is not None and drafts:
            grammar.rollback(len(drafts))
        return drafts
