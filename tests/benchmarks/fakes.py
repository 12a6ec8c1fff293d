"""An engine that does what the schema's ``title`` says: for tests of the harness."""

from __future__ import annotations

import json
import os
import time

import numpy as np

from benchmarks.engines import Refused, Started, empty_bitmask
from benchmarks.vocabulary import TokenTable


class FakeEngine:
    """Accepts any text of at most ``maxLength`` bytes, or misbehaves."""

    def __init__(self, table: TokenTable, _seconds: float) -> None:
        self.table = table
        self.bitmask = empty_bitmask(table)

    def compile(self, schema: str) -> FakeGrammar:
        parsed = json.loads(schema)
        match parsed.get("title"):
            case "refuse":
                raise Refused("as told")
            case "raise":
                raise ZeroDivisionError("as told")
            case "die":
                os.abort()
            case "hang":
                time.sleep(60)
        return FakeGrammar(self, parsed.get("title"), parsed.get("maxLength", 1000))


class FakeGrammar:
    def __init__(self, engine: FakeEngine, title: str | None, limit: int) -> None:
        self.engine, self.title, self.limit = engine, title, limit

    def start(self) -> Started:
        left = self.limit

        def fill() -> None:
            allowed = [len(data) <= left if data else False for data in self.engine.table.tokens]
            for token in self.engine.table.eos:
                allowed[token] = self.title != "endless"
            packed = np.packbits(np.array(allowed), bitorder="little")
            row = self.engine.bitmask.view(np.uint8)[0]
            row[:] = 0
            row[: len(packed)] = packed

        def accept(token: int) -> bool:
            nonlocal left
            if self.title == "die later":
                os.abort()
            left -= len(self.engine.table.tokens[token])
            return left >= 0 and self.title != "disagree"

        return Started(fill, accept)


class NeverSetUp:
    """Cannot be set up at all, as an engine that is not installed."""

    def __init__(self, _table: TokenTable, _seconds: float) -> None:
        raise ImportError("no such engine")
