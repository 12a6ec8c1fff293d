"""The backend in vLLM's engine process. Imports vLLM and torch."""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import torch
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)

from schemac_runtime.device.serving import StepMasks
from schemac_runtime.serving.constraint import Constraint, constraint
from schemac_runtime.serving.programs import Programs, Resolved
from schemac_runtime.vllm.grammar import Finish, GrammarState, stop_ids_of, token_limit
from schemac_runtime.vllm.requests import compile_options, wants_finish
from schemac_runtime.vllm.rows import refusal, step_masks
from schemac_runtime.vllm.server import programs_for, settings_of
from schemac_runtime.vllm.versions import installed

_log = logging.getLogger("vllm.schemac")


class SchemacGrammar(GrammarState, StructuredOutputGrammar):  # type: ignore[misc,unused-ignore]
    """One request's grammar; all of it is in `GrammarState`."""


@dataclass
class SchemacBackend(StructuredOutputBackend):  # type: ignore[misc,unused-ignore]
    """Looks programs up, has them compiled where none is at hand, and hands out grammars."""

    def __post_init__(self) -> None:
        config = self.vllm_config
        self._settings = settings_of(config)
        self._programs: Programs = programs_for(config, self.tokenizer, keep=True)
        self._metrics = self._programs.metrics
        self._metrics.write_to(self._programs.folder / f"metrics-{os.getpid()}.json")
        self._drafts = int(getattr(config, "num_speculative_tokens", 0) or 0)

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: set[int] | None = None,
    ) -> StructuredOutputGrammar:
        """The grammar of a specification; waits for a compile, without holding the interpreter.

        Raises:
            SchemacError: it is refused.
        """
        options = compile_options(self._settings, self.vllm_config.structured_outputs_config)
        wanted = constraint(request_type.name, grammar_spec, options)
        return self._grammar(self._programs.get(wanted).result(), stop_token_ids)

    def grammar_of(self, request: Any) -> Future[StructuredOutputGrammar]:
        """The grammar of a request, bound to its token limit, as soon as there is one."""
        answer: Future[StructuredOutputGrammar] = Future()
        try:
            wanted = self._constraint_of(request)
        except Exception as error:  # noqa: BLE001 - fails this request alone
            answer.set_exception(error)
            return answer

        def settle(done: Future[Resolved]) -> None:
            try:
                params = request.sampling_params
                grammar = self._grammar(done.result(), params.all_stop_token_ids)
                if wants_finish(params, self._settings):
                    limit = token_limit(
                        request.max_tokens, self.vllm_config.model_config.max_model_len, request.num_prompt_tokens
                    )
                    grammar.finish_within(Finish(request, limit, self._drafts))
                answer.set_result(grammar)
            except Exception as error:  # noqa: BLE001 - fails this request alone
                answer.set_exception(error)

        self._programs.get(wanted).add_done_callback(settle)
        return answer

    def _constraint_of(self, request: Any) -> Constraint:
        asked, text = request.structured_output_request.structured_output_key
        params = request.sampling_params.structured_outputs
        options = compile_options(self._settings, self.vllm_config.structured_outputs_config, params)
        return constraint(asked.name, text, options)

    def _grammar(self, resolved: Resolved, stop_token_ids: set[int] | None) -> SchemacGrammar:
        assert resolved.program is not None
        if resolved.program.vocab_size != self.vocab_size:
            raise ValueError(f"a program for {resolved.program.vocab_size} tokens, the model has {self.vocab_size}")
        return SchemacGrammar(resolved.program, stop_ids_of(stop_token_ids), self._metrics)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor | StepMasks:
        """int32 [max_num_seqs, ceil(V / 32)], everything allowed; with `device_rows`, what takes matchers instead."""
        rows = self._settings.device_rows
        if rows:
            refused = refusal(self.vllm_config, installed())
            if refused is None:
                _log.info("schemac: row ids are sent in the place of masks, arenas have %d rows", rows)
                return step_masks(rows, self.vocab_size, max_num_seqs)
            _log.warning("schemac: packed masks are sent instead of row ids: %s", refused)
        return torch.full((max_num_seqs, (self.vocab_size + 31) // 32), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """End the compile workers."""
        self._metrics.tick(now=True)
        # A worker may be at work; the engine does not wait for it.
        threading.Thread(target=self._programs.close, daemon=True).start()
