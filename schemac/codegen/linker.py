"""Linking: an automaton over bytes bound to one vocabulary.

    1. classify   the relation of every token (`schemac.codegen.relations`), one walk over the vocabulary's trie
    2. number     the relations of tokens and of the rests of tokens that end a frame become classes
    3. edges      per state, the outcomes by class
    4. prove      from every configuration some text of tokens reaches an end (`schemac.codegen.liveness`)
    5. measure    the tokens still needed from every state (`schemac.codegen.distance`)
    6. rows       the mask of every state, and of every state with a known return below
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.codegen.defaults import default_states, no_defaults
from schemac.codegen.distance import distances
from schemac.codegen.edges import Edges
from schemac.codegen.frames import Frames
from schemac.codegen.guards import guard_tables
from schemac.codegen.liveness import live_outcomes, spells_all
from schemac.codegen.relations import DEAD, EMPTY, Relations, among, ranges
from schemac.codegen.rows import RowTable
from schemac.errors import LinkError
from schemac.ir.automaton import Automaton
from schemac.vocabulary import Vocabulary
from schemac_runtime.program import EXIT, Program, Tables
from schemac_runtime.suspects import Suspects

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

#: Masks for (state, return below) pairs are made ahead up to this many members; beyond it, on first use.
BELOW_LIMIT = 4_000_000


def link(automaton: Automaton, vocabulary: Vocabulary, budget: Budget) -> Program:
    """Bind `automaton` to `vocabulary`.

    Raises:
        LinkError: a special token is missing, or some text could not be finished with this vocabulary.
        BudgetExceeded: `rows`, `outcomes`, `branches` or the deadline.
    """
    if not vocabulary.stop_ids:
        raise LinkError(
            "the vocabulary has no token that ends a text", hint="name one with --stop-id, or Vocabulary.with_stop_ids"
        )
    complete = spells_all(automaton, vocabulary)
    frames = Frames(automaton, budget)
    defaults = default_states(automaton, frames) if complete else no_defaults(automaton)
    relations = Relations(automaton, frames, defaults, budget)
    token_relation = _token_relations(automaton, vocabulary, relations)
    number = _number(relations, token_relation)
    edges = Edges.of(relations, number)
    token_class = number[token_relation].astype(np.int32)
    if not complete:
        edges = edges.chosen(live_outcomes(automaton, vocabulary, relations, edges, token_class))
    guards = guard_tables(automaton, vocabulary, budget) if automaton.guards else None
    # Of tokens that could break a guard at once, the way to an end makes no use.
    hasty = None if guards is None else Suspects.of(guards).entering
    counted = token_class if hasty is None else token_class[~hasty]
    distance, reach, costs = distances(automaton, frames, defaults, edges, counted, guards)
    start_context, start = relations.frames.settle(np.zeros(1, np.int64), np.zeros(1, np.int64))
    table = RowTable(token_class, int(number.max()) + 1, budget)
    state_row, clear_row = _state_rows(edges, defaults.state, table, int(number.max()) + 1)
    below = _below(automaton, relations, edges, number, table)
    dense, sparse_start, sparse_word, sparse_bits = table.arrays()
    enters = relations.frames.enters
    tables = Tables(
        token_class=token_class,
        default_state=defaults.state,
        default_return=defaults.ret,
        **edges.arrays(automaton.states),
        context_parent=np.array(relations.frames.parent, dtype=np.int32),
        context_top=np.array(relations.frames.top, dtype=np.int32),
        accepting=automaton.accepting.astype(np.uint8),
        enter_state=enters.astype(np.int32),
        enter_return=relations.frames.enter_return.astype(np.int32),
        returns_only=relations.frames.returns_only.astype(np.uint8),
        state_row=state_row,
        clear_row=clear_row,
        dense=dense,
        sparse_start=sparse_start,
        sparse_word=sparse_word,
        sparse_bits=sparse_bits,
        **below,
        distance=distance,
        reach=reach,
        start=start.astype(np.int32),
        start_context=start_context.astype(np.int32),
        stop_ids=np.array(vocabulary.stop_ids, dtype=np.int32),
    )
    if guards is not None and costs is not None:
        guards = replace(guards, **{field.name: getattr(costs, field.name).astype(np.int32) for field in fields(costs)})
    return Program(tables, vocabulary.fingerprint, vocabulary.name, guards)


def _token_relations(automaton: Automaton, vocabulary: Vocabulary, relations: Relations) -> Int32:
    """int32 [V]: the relation of each token, `EMPTY` for those that are never allowed."""
    frames = relations.frames
    # No text rests at a state that only calls, but one that rests above it, where its frame may end, goes on there.
    returned = np.isin(np.arange(automaton.states), automaton.call_return)
    resting = ~frames.returns_only & ((frames.enters < 0) | returned)
    everywhere = relations.identity(np.flatnonzero(resting).astype(np.int32))
    trie = vocabulary.trie
    of_node = relations.classify(trie, everywhere)
    result = np.where(trie.node_of_token >= 0, of_node[trie.node_of_token], EMPTY).astype(np.int32)
    result[trie.node_of_token == 0] = EMPTY
    named: dict[int, str] = {}
    for index, label in enumerate(automaton.labels):
        token = _named_token(vocabulary, label)
        if label in automaton.optional_labels and (token is None or token in vocabulary.stop_ids):
            continue  # a token that ends the text is no part of it
        if token is None:
            raise LinkError(f"the vocabulary has no special token {label!r}", construct=label)
        if named.setdefault(token, label) != label:
            raise LinkError(f"{label!r} and {named[token]!r} are one token here, {token}", construct=label)
        symbol = np.array([automaton.byte_classes + index], dtype=np.int64)
        relation = relations.read(np.array([everywhere], dtype=np.int64), symbol)
        result[token] = relation[0]
    return result


def _named_token(vocabulary: Vocabulary, label: str) -> int | None:
    """The id of a special token by its text, or by a label that holds its id: ``<[128010]>``."""
    token = vocabulary.special.get(label)
    if token is not None or not (label.startswith("<[") and label.endswith("]>") and label[2:-2].isdecimal()):
        return token
    token = int(label[2:-2])
    if token >= vocabulary.size:
        raise LinkError(f"the vocabulary has no token {token}, only {vocabulary.size:,}", construct=label)
    if vocabulary.tokens[token] is not None:
        raise LinkError(f"token {token} is no special token", construct=label, hint="write its text")
    return token


def _number(relations: Relations, token_relation: Int32) -> Int32:
    """int32 [relations]: the class of each relation that is needed, 0 for the others."""
    needed = np.zeros(relations.count, dtype=np.bool_)
    needed[token_relation] = True
    needed[EMPTY] = False
    pending = np.flatnonzero(needed)
    while len(pending):
        value = relations.value[ranges(relations.start[pending], relations.length[pending])]
        rests = np.unique(-1 - value[(value < 0) & (value != DEAD)])
        pending = rests[~needed[rests]]
        needed[pending] = True
    number = np.zeros(relations.count, dtype=np.int32)
    number[needed] = np.arange(1, int(needed.sum()) + 1, dtype=np.int32)
    return number


def _state_rows(edges: Edges, default: Int32, table: RowTable, classes: int) -> tuple[Int32, Int32]:
    """(state_row, clear_row) int32 [N]: the coded rows of each state, see `Tables`.

    A state with a default has the mask of its default without the tokens for which it has an entry of its own that
    is no outcome within its frame, and with those that it allows and its default does not.
    """
    local = edges.local
    group, member = _distinct(edges.origin[local], edges.symbol_class[local])
    live = group * classes + member  # ascending
    inherited = default[group] * np.int64(classes) + member
    added = (default[group] < 0) | ~among(inherited, live)
    state_row = table.rows_of(group[added], member[added], len(default))
    heir = default[edges.origin] >= 0
    own_group, own_member = _distinct(edges.origin[heir], edges.symbol_class[heir])
    gone = ~among(own_group * classes + own_member, live)
    return state_row, table.rows_of(own_group[gone], own_member[gone], len(default))


def _distinct(group: Int64, member: Int64) -> tuple[Int64, Int64]:
    """Drop repeated neighbours of (group, member) pairs that are sorted."""
    fresh = np.ones(len(group), dtype=np.bool_)
    fresh[1:] = (group[1:] != group[:-1]) | (member[1:] != member[:-1])
    return group[fresh], member[fresh]


def _below(
    automaton: Automaton, relations: Relations, edges: Edges, number: Int32, table: RowTable
) -> dict[str, Int32]:
    """The masks of states that depend on the return state on top of the stack."""
    n, classes = automaton.states, int(number.max()) + 1
    exits = edges.context == EXIT
    origin, symbol_class, rest = edges.origin[exits], edges.symbol_class[exits], edges.target[exits]
    # By class of the rest: the return states at which it can be read, and how.
    by_class = np.argsort(edges.symbol_class, kind="stable")
    class_start = np.searchsorted(edges.symbol_class[by_class], np.arange(classes + 1))
    length = class_start[rest + 1] - class_start[rest]
    if int(length.sum()) > BELOW_LIMIT:
        return _below_on_use(n)
    entry = by_class[ranges(class_start[rest], length)]
    source = np.repeat(np.arange(len(rest)), length)
    ret = edges.origin[entry]
    local = edges.context[entry] >= 0
    # Rests that also end the frame below, and rests that may skip a frame because it may end there.
    deep = [(origin[source[~local]], ret[~local], symbol_class[source[~local]], edges.target[entry[~local]])]
    skippable = _skippable_returns(automaton, relations, origin, symbol_class, rest)
    deep_origin, deep_ret, deep_class, deep_rest = (
        np.concatenate(parts) for parts in zip(*deep, skippable, strict=True)
    )
    key = np.sort(np.concatenate([origin[source] * n + ret, deep_origin * n + deep_ret]), kind="stable")
    key = key[np.concatenate([np.ones(min(1, len(key)), np.bool_), key[1:] != key[:-1]])]
    near = np.searchsorted(key, (origin[source] * n + ret)[local])
    near_class = symbol_class[source[local]]
    order = np.lexsort((near_class, near))
    rows = table.rows_of(*_distinct(near[order], near_class[order]), len(key))
    far = np.searchsorted(key, deep_origin * n + deep_ret)
    order = np.lexsort((deep_rest, deep_class, far))
    deep_classes, deep_index = np.unique(deep_class, return_inverse=True)
    deep_rows = table.rows_of(np.arange(len(deep_classes)), deep_classes, len(deep_classes))[deep_index.reshape(-1)]
    return {
        "below_start": np.searchsorted(key // n, np.arange(n + 1)).astype(np.int32),
        "below_return": (key % n).astype(np.int32),
        "below_row": rows,
        "deep_start": np.searchsorted(far[order], np.arange(len(key) + 1)).astype(np.int32),
        "deep_row": deep_rows[order],
        "deep_rest": deep_rest[order].astype(np.int32),
        "below_on_use": np.zeros(1, dtype=np.int32),
    }


def _skippable_returns(
    automaton: Automaton, relations: Relations, origin: Int64, symbol_class: Int64, rest: Int64
) -> tuple[Int64, Int64, Int64, Int64]:
    """(origin, return, class, rest) for return states that may end their own frame: the rest is then read below it."""
    rows: list[tuple[Int64, Int64, Int64, Int64]] = [(origin[:0], origin[:0], origin[:0], origin[:0])]
    for procedure in np.unique(automaton.owner[origin]).tolist():
        returns = relations.frames.continuations(procedure).astype(np.int64)
        returns = returns[automaton.accepting[returns]]
        if len(returns):
            mine = np.flatnonzero(automaton.owner[origin] == procedure)
            pick = np.repeat(mine, len(returns))
            rows.append((origin[pick], np.tile(returns, len(mine)), symbol_class[pick], rest[pick]))
    first, second, third, fourth = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return first, second, third, fourth


def _below_on_use(states: int) -> dict[str, Int32]:
    """As `_below`, with nothing worked out ahead: the matcher follows every exit when a mask is first needed."""
    nothing = np.zeros(0, dtype=np.int32)
    return {
        "below_start": np.zeros(states + 1, dtype=np.int32),
        "below_return": nothing,
        "below_row": nothing,
        "deep_start": np.zeros(1, dtype=np.int32),
        "deep_row": nothing,
        "deep_rest": nothing,
        "below_on_use": np.ones(1, dtype=np.int32),
    }
