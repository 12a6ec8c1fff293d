"""Admission: a request whose constraint cannot be served is refused before it reaches the engine.

This runs in the process that serves HTTP. What takes time runs in worker processes and threads; the event loop only
waits for it with `await`. Imports nothing of vLLM.
"""

from __future__ import annotations

import asyncio
from typing import Any

from schemac_runtime.errors import SchemacError
from schemac_runtime.serving.constraint import Constraint
from schemac_runtime.serving.programs import Programs, Resolved
from schemac_runtime.serving.settings import Settings
from schemac_runtime.serving.worker import CompileError
from schemac_runtime.vllm.requests import RequestError, compile_options, constraint_of, wants_finish


class Admission:
    """Admits the requests of one engine.

    Args:
        programs: verdicts of this process.
        settings: of the server.
        config: vLLM's structured outputs configuration.
    """

    def __init__(self, programs: Programs, settings: Settings, config: Any) -> None:
        self.programs = programs
        self._settings, self._config = settings, config

    def start(self) -> None:
        """Load the vocabulary ahead, in a worker."""
        self.programs.fingerprint()

    async def admit(self, params: Any) -> None:
        """Wait for the verdict on the sampling parameters of a request.

        Raises:
            SchemacError: it is refused; the text says where and why.
        """
        wanted = self._wanted(params)
        known = self.programs.known(wanted)
        if known is None:
            known = await asyncio.wrap_future(self.programs.get(wanted))
        self._check(params, known)

    def check(self, params: Any) -> None:
        """As `admit`, without an event loop: waits.

        Raises:
            SchemacError: it is refused.
        """
        wanted = self._wanted(params)
        known = self.programs.known(wanted)
        self._check(params, self.programs.get(wanted).result() if known is None else known)

    def _wanted(self, params: Any) -> Constraint:
        try:
            asked = params.structured_outputs
            return constraint_of(asked, compile_options(self._settings, self._config, asked))
        except SchemacError as error:
            self.programs.metrics.count("schemac_refusals_total", type(error).__name__)
            raise

    def _check(self, params: Any, known: Resolved | CompileError) -> None:
        if isinstance(known, CompileError):
            raise known
        limit = getattr(params, "max_tokens", None)
        if limit is not None and limit < known.min_tokens and wants_finish(params, self._settings):
            self.programs.metrics.count("schemac_refusals_total", "MaxTokens")
            raise RequestError(
                f"{limit} tokens are not enough: the shortest answer takes {known.min_tokens}",
                construct="max_tokens", hint=f"allow at least {known.min_tokens}",
            )  # fmt: skip
