"""The state of one request, as vLLM's scheduler drives it. Imports nothing of vLLM."""

from __future__ import annotations

import time
import weakref
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from schemac_runtime.device.serving import StepMasks, fill_row
from schemac_runtime.masks import mask_rows
from schemac_runtime.program import Program
from schemac_runtime.serving.metrics import Metrics


class GrammarState:
    """What vLLM calls a `StructuredOutputGrammar`.

    After a stop token nothing but stop tokens is accepted, and the mask allows nothing else. `is_terminated` is true
    only after a token at which vLLM stops too: it leaves rows of a terminated grammar unmasked, and a request that
    goes on, by `ignore_eos` or since vLLM stops at other ids than the vocabulary, must not go on unconstrained.

    Args:
        program: what to match.
        stop_ids: at which vLLM ends the request, None where that is not known.
        metrics: to count in.
    """

    def __init__(self, program: Program, stop_ids: Collection[int] | None = None, metrics: Metrics | None = None,
                 ) -> None:  # fmt: skip
        usable = sorted(token for token in stop_ids or () if 0 <= token < program.vocab_size)
        self._matcher = program.matcher(tuple(usable))
        self._ends = frozenset(self._matcher.stop_ids if stop_ids is None else usable)
        self._after_end: list[int] = []
        self._last = -1
        self._metrics = metrics or Metrics()
        self._finish: Finish | None = None

    @property
    def program(self) -> Program:
        """The program, which the request keeps whatever a cache does."""
        return self._matcher.program

    def finish_within(self, finish: Finish | None) -> None:
        """Keep the answer within a limit of tokens from now on."""
        self._finish = finish

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Read all tokens, or none of them: False leaves the state as it was."""
        del request_id
        matcher = self._matcher
        for count, token in enumerate(tokens):
            if matcher.is_terminated():
                accepted = token in matcher.stop_ids
                if accepted:
                    self._after_end.append(token)
            else:
                accepted = matcher.accept(token)
                if accepted and matcher.is_terminated():
                    self._last = int(token)
            if not accepted:
                self.rollback(count)
                return False
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The longest prefix that could be accepted. Changes nothing. Negative ids end it: they pad drafts.

        Within a token limit, a draft after which the answer could not be finished is no part of it: the masks say so
        too, but not every sampler of vLLM heeds the mask of a draft (that of the CPU, 0.32, with a temperature).
        """
        end = next((index for index, token in enumerate(tokens) if token < 0), len(tokens))
        matcher = self._matcher
        if matcher.is_terminated():
            return tokens[: next((i for i, token in enumerate(tokens[:end]) if token not in matcher.stop_ids), end)]
        budget = None if self._finish is None else self._finish.left(matcher.accepted)
        if budget is None:
            return tokens[: matcher.validate(tokens[:end])]
        read = 0
        while read < end and matcher.accept(tokens[read]):
            if matcher.tokens_needed() >= budget - read:
                matcher.rollback(1)
                break
            read += 1
        matcher.rollback(read)
        return tokens[:read]

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens."""
        beyond = min(num_tokens, len(self._after_end))
        if beyond:
            del self._after_end[-beyond:]
        self._matcher.rollback(num_tokens - beyond)

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Write the allowed tokens into a row; int32 [rows, ceil(V / 32)], CPU tensor or array, or a `StepMasks`."""
        start = time.perf_counter()
        matcher, metrics = self._matcher, self._metrics
        if matcher.is_terminated():
            self._fill_ends(bitmask, batch_index)
        else:
            budget = None if self._finish is None else self._finish.left(matcher.accepted)
            if budget is not None:
                needed = matcher.tokens_needed()
                if budget < needed:  # too late to finish; a mask that allows nothing would be worse
                    budget = needed if budget > 0 else None
                    metrics.count("schemac_finish_failures_total")
            fill_row(bitmask, batch_index, matcher, budget)
        metrics.fills += 1
        metrics.configurations += matcher.configurations
        metrics.fill_seconds += time.perf_counter() - start
        metrics.tick()

    def _fill_ends(self, bitmask: Any, row: int) -> None:
        """Only ids at which vLLM stops; if it stops at none, those that end a text."""
        allowed = self._ends or self._matcher.stop_ids
        steps = isinstance(bitmask, StepMasks)
        out = np.zeros(self.program.words, np.int32) if steps else mask_rows(bitmask, self.program.words)[row]
        words: Any = out.view(np.uint32)
        words.fill(0)
        for token in allowed:
            words[token >> 5] |= np.uint32(1 << (token & 31))
        if steps:
            bitmask.fill_mask(row, out)

    def is_terminated(self) -> bool:
        """Whether the answer has ended, and vLLM ends the request for it."""
        last = self._after_end[-1] if self._after_end else self._last
        return self._matcher.is_terminated() and last in self._ends

    def is_complete(self) -> bool:
        """Whether the text so far is whole."""
        return self._matcher.is_complete()

    def reset(self) -> None:
        """Back to the start."""
        self._after_end.clear()
        self._matcher.reset()


class Finish:
    """How many tokens a request has left, counted in vLLM's own output tokens.

    A grammar starts counting where the answer begins. Thinking before it costs tokens too; how many is known once a
    step has been committed: from then on the number of output tokens and that of accepted ones grow together, but for
    drafts, which are accepted and rolled back within a step.

    Args:
        request: has `num_output_tokens`; only referred to weakly, since it holds the grammar.
        limit: tokens that the request may put out.
        slack: drafts that may stand between thinking and answer in the first step of the answer.
    """

    def __init__(self, request: Any, limit: int, slack: int = 0) -> None:
        self._request = weakref.ref(request)
        self._limit, self._slack = limit, slack
        self._seen = -1
        self._before = 0

    def left(self, accepted: int) -> int | None:
        """Tokens that may still be put out when `accepted` tokens of the answer have been read; None: not known."""
        request = self._request()
        if request is None:
            return None
        out = request.num_output_tokens
        if out != self._seen:  # committed tokens only: no draft has been read in this step yet
            self._seen, self._before = out, max(0, out - accepted)
        slack = self._slack if self._before and not accepted else 0
        return self._limit - self._before - accepted - slack


def token_limit(max_tokens: int | None, max_model_len: int, prompt_tokens: int) -> int:
    """How many tokens a request may put out."""
    room = max_model_len - prompt_tokens
    return room if max_tokens is None else min(max_tokens, room)


def stop_ids_of(listed: Sequence[int] | set[int] | frozenset[int] | None) -> frozenset[int] | None:
    """Stop ids as vLLM hands them over; an empty set says that it stops at none."""
    return None if listed is None else frozenset(map(int, listed))
