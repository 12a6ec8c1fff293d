"""Reasoning before the answer: free text up to and including the first end marker, then the constraint.

The marker is recognized however it is cut into tokens, or as one special token. Behind it, the same text is nothing
special: it may stand in a JSON string.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from schemac.budget import Budget
from schemac.errors import SourceError
from schemac.frontend.compose import Composer, compose, embedded, literal, sequence, write_literal
from schemac.frontend.free_text import FreeText, Marker, Shortcut
from schemac.frontend.markers import special_spans
from schemac.ir.graph import Graph, Module


@dataclass(frozen=True, slots=True)
class ReasoningPrefix:
    """What precedes the answer.

    Attributes:
        end: the text of the marker that ends the reasoning.
        start: the text of the marker that begins it, if the model has to write that; None if the prompt ends with it.
        as_token: True: the markers are the special tokens of these texts, which the vocabulary must have. False: they
            are text. None: either, a special token where the vocabulary has it.
        after: a text between the end marker and the answer.
    """

    end: str = "</think>"
    start: str | None = None
    as_token: bool | None = None
    after: str = ""

    def __post_init__(self) -> None:
        if not self.end or self.start == "":
            raise SourceError("a marker of the reasoning is empty", construct="reasoning")

    def following(self, prompt: str, *, start: str = "<think>") -> ReasoningPrefix | None:
        """The prefix of an answer to a prompt that may have begun the reasoning, or ended it.

        Args:
            prompt: the text of the prompt, or the end of it.
            start: the text of the marker that begins the reasoning, if `self.start` does not say.

        Returns:
            None if the prompt has ended the reasoning: the answer begins at once. No `start` if the prompt has begun
            it; else the prefix as it is.
        """
        begun, ended = prompt.rfind(self.start or start), prompt.rfind(self.end)
        if ended > begun:
            return None
        return replace(self, start=None) if begun >= 0 else self


def with_reasoning(module: Module, prefix: ReasoningPrefix, budget: Budget) -> Module:
    """The module of reasoning followed by a text of `module`."""
    optional = prefix.as_token is None

    def marker(composer: Composer, graph: Graph, source: int, target: int) -> None:
        assert prefix.start is not None
        if prefix.as_token is not True:
            literal(prefix.start, special=optional)(composer, graph, source, target)
        if prefix.as_token is not False:
            graph.token(source, [prefix.start], target, optional=optional)

    def thoughts(composer: Composer, graph: Graph, source: int, target: int) -> None:
        data = prefix.end.encode()
        markers, shortcuts = [], []
        if prefix.as_token is not True:
            markers.append(Marker(data, target))
        if prefix.as_token is not False:
            shortcuts.append(Shortcut(b"", prefix.end, target, optional))
        if optional:  # parts of the marker that may be special tokens
            nodes = write_literal(graph, graph.node(), prefix.end, target)
            shortcuts += [
                Shortcut(data[:first], name, nodes[last])
                for first, last, name in special_spans(prefix.end)
                if name != prefix.end
            ]
        FreeText(markers, shortcuts).write(graph, source, None, composer.budget)

    parts = [] if prefix.start is None else [marker]
    return compose(sequence(*parts, thoughts, literal(prefix.after), embedded(module)), "reasoning", "", budget)
