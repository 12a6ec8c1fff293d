"""The proof that no mask leads into a dead end.

The automaton is trimmed, so from every configuration some text of bytes reaches an end. If every byte that the
automaton reads has a token of its own, that text is also a text of tokens, and nothing is left to prove. Otherwise a
least fixpoint finds the states that can reach an end of their frame with tokens, and outcomes that lead to any other
state are dropped, so that every reachable configuration is a stack of such states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from schemac.errors import LinkError
from schemac.ir.automaton import Automaton

if TYPE_CHECKING:
    from schemac.codegen.edges import Edges
    from schemac.codegen.relations import Relations
    from schemac.vocabulary import Vocabulary

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


def spells_all(automaton: Automaton, vocabulary: Vocabulary) -> bool:
    """Whether every byte that the automaton reads is a token."""
    return not _lacking(automaton, vocabulary)


def _lacking(automaton: Automaton, vocabulary: Vocabulary) -> list[int]:
    reads: Bool = automaton.next_state[:, : automaton.byte_classes] >= 0
    read = np.any(reads, axis=0)[automaton.byte_class]
    return [byte for byte in vocabulary.missing_bytes() if read[byte]]


def live_outcomes(
    automaton: Automaton, vocabulary: Vocabulary, relations: Relations, edges: Edges, token_class: Int32
) -> Bool:
    """bool [edges]: the outcomes to keep.

    Raises:
        LinkError: with this vocabulary no text can be finished.
    """
    live = _live_states(automaton, relations, edges, token_class)
    start_context, start = relations.frames.settle(np.zeros(1, np.int64), np.zeros(1, np.int64))
    if not (live[start[0]] and _live_contexts(relations, live)[start_context[0]]):
        shown = bytes(_lacking(automaton, vocabulary)[:8])
        raise LinkError(
            f"with this vocabulary no text can be finished; among others it cannot spell the bytes {shown!r}",
            hint="use a vocabulary with byte tokens, or a source that does not need these bytes",
        )
    context_live = _live_contexts(relations, live)
    local = edges.context >= 0
    keep = np.ones(len(local), dtype=np.bool_)
    keep[local] = live[edges.target[local]] & context_live[edges.context[local]]
    return keep


def _live_contexts(relations: Relations, live: Bool) -> Bool:
    """bool [contexts]: every pushed return state is live."""
    frames = relations.frames
    result = np.ones(len(frames.parent), dtype=np.bool_)
    for context in range(1, len(frames.parent)):  # parents come first
        result[context] = result[frames.parent[context]] and live[frames.top[context]]
    return result


def _live_states(automaton: Automaton, relations: Relations, edges: Edges, token_class: Int32) -> Bool:
    """bool [N]: states from which tokens that stay in the frame reach an end of it."""
    frames = relations.frames
    has_tokens = np.zeros(int(edges.symbol_class.max(initial=0)) + 1, dtype=np.bool_)
    has_tokens[np.unique(token_class)] = True
    usable = (edges.context >= 0) & has_tokens[edges.symbol_class]
    origin, context, target = edges.origin[usable], edges.context[usable], edges.target[usable]
    live: Bool = automaton.accepting.copy()
    entering = np.flatnonzero(frames.enters >= 0)
    while True:
        reached = live[target] & _live_contexts(relations, live)[context]
        after = live.copy()
        after[origin[reached]] = True
        after[entering] |= after[frames.enters[entering]] & after[frames.enter_return[entering]]
        if np.array_equal(after, live):
            return live
        live = after
