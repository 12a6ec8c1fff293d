"""What a matcher needs of a guarded automaton beside the tables: its bytes, and those of the tokens.

The tables of a program know nothing of registers: they let through every text that the automaton without its guards
would. A matcher follows guarded texts on the automaton's bytes as well, and takes away what a guard forbids.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from schemac.budget import Budget
from schemac.ir.automaton import Automaton, call_sources
from schemac.ir.passes.components import strong_components
from schemac.vocabulary import Vocabulary
from schemac_runtime.guards import MANY, GuardTables
from schemac_runtime.registers import ACTIONS, KEY, NEXT, SPACES, Guard, Register, character

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
_QUOTE = 0x22
#: Bytes that mean something of their own in a string, by number: mark, backslash, and the letters of escapes.
_LEXICAL = {0x22: 3, 0x5C: 4, 0x75: 5, **dict.fromkeys(b"dD", 6), **dict.fromkeys(b"89abAB", 7)}


def guard_tables(automaton: Automaton, vocabulary: Vocabulary, budget: Budget) -> GuardTables:
    """The tables; costs are one token each, see `schemac.codegen.costs`."""
    rest, whole = rest_counts(automaton, budget)
    token_start, token_bytes = _token_texts(vocabulary)
    labels = [vocabulary.special.get(label, -1) for label in automaton.labels]
    return GuardTables(
        byte_class=automaton.byte_class,
        next_state=automaton.next_state,
        accepting=automaton.accepting.astype(np.uint8),
        owner=automaton.owner,
        entry=automaton.entry,
        call_start=automaton.call_start,
        call_procedure=automaton.call_procedure,
        call_return=automaton.call_return,
        actions=automaton.actions,
        rest=rest,
        whole=whole,
        needed=characters_needed(automaton),
        in_string=states_in_strings(automaton),
        guards=automaton.guards,
        unit=np.ones(len(automaton.guards), dtype=np.int32),
        again=np.ones(len(automaton.guards), dtype=np.int32),
        key_cost=np.ones(sum(len(guard.required) for _, guard in automaton.guards), dtype=np.int32),
        token_start=token_start,
        token_bytes=token_bytes,
        label_token=np.array(labels, dtype=np.int32),
    )


@lru_cache(maxsize=4)
def _token_texts(vocabulary: Vocabulary) -> tuple[Int32, npt.NDArray[np.uint8]]:
    lengths = np.array([len(token or b"") for token in vocabulary.tokens], dtype=np.int64)
    text = b"".join(token or b"" for token in vocabulary.tokens)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), np.frombuffer(text, dtype=np.uint8)


def rest_counts(automaton: Automaton, budget: Budget) -> tuple[Int32, Int32]:
    """(rest, whole), int32 [N]: how many texts lead from each state to the end of the item or key that is being read,
    and how many to the end of the frame; `MANY` for more than that and for infinitely many.

    An item ends at a "next" action or at the end of its array's frame, a key at a "key" action. Whitespace makes no
    other item: ways that differ in it count once. Where distinct items or members can run out, those after the next one
    do not count: fewer may be left than the automaton knows. Nor do texts count that a guard forbids, or that may be
    one value: see `_at_least`.
    """
    a = automaton
    source, symbol = np.nonzero(a.next_state >= 0)
    target = a.next_state[source, symbol].astype(np.int64)
    spaces = _space_symbols(a)
    loops = (source == target) & spaces[symbol]
    source, symbol, target = source[~loops], symbol[~loops], target[~loops]
    weight = np.where(spaces, 0, _byte_weights(a))[symbol]
    action = np.full(a.next_state.shape, -1, dtype=np.int32)
    action[a.actions[:, 0], a.actions[:, 1]] = a.actions[:, 2]
    action = action[source, symbol]
    last = action == ACTIONS.index(NEXT)
    accepting = a.accepting.astype(np.int64)
    first = accepting.copy()
    np.add.at(first, source[last], weight[last])
    first = _counts(a, source[~last], target[~last], weight[~last], first, {}, budget)
    least = _at_least(a, first)
    dropped = np.zeros(len(source), dtype=np.bool_)
    while True:
        kept = ~dropped
        whole = _counts(a, source[kept], target[kept], weight[kept], accepting, least, budget)
        for procedure, number in least.items():
            mine = a.owner == procedure
            whole[mine] = number if number < MANY else whole[mine]
        more = last & kept & np.isin(a.owner[source], _exhaustible(a, source, target, weight, last, whole, budget))
        if not more.any():
            break
        dropped |= more
    ends = last | (action == ACTIONS.index(KEY))
    members = np.array([procedure for procedure, guard in a.guards if guard.kind == "members"], dtype=np.int64)
    start = np.where(np.isin(a.owner, members), 0, a.accepting).astype(np.int64)
    np.add.at(start, source[ends], weight[ends])
    rest = _counts(a, source[~ends], target[~ends], weight[~ends], start, whole, budget)
    return rest.astype(np.int32), whole.astype(np.int32)


def _at_least(a: Automaton, first: Int64) -> dict[int, int]:
    """By guarded procedure, a number of values that its texts have at least, where the automaton's number of texts says
    nothing about that: its loops are bounded, or members may be had in several orders. `MANY` if that is no matter.

    Args:
        first: int64 [N], the numbers of texts up to the first comma of guarded frames.
    """
    found: dict[int, int] = {}
    caller = a.owner[call_sources(a)]
    for procedure, guard in a.guards:
        begun = int(first[a.entry[procedure]])
        bounded = guard.high is not None
        lengths = (guard.high or 0) - guard.low + 1
        if guard.kind == "items":
            if (bounded or guard.distinct) and (begun < MANY or guard.high == 0):
                found[procedure] = max(begun if guard.low <= 1 else 1, 1)
        elif guard.kind == "members":
            if guard.distinct and (begun < MANY or (bounded and len(guard.required) >= (guard.high or 0))):
                found[procedure] = 1
        elif bounded and guard.kind == "repeats":
            bodies = first[a.entry[a.call_procedure[caller == procedure]]]
            if bodies.max(initial=0) < MANY:
                found[procedure] = max(lengths, 1)
        elif bounded and guard.kind == "characters":
            weight = _byte_weights(a).copy()
            weight[a.byte_class[_QUOTE]] = 0
            choices = ((a.next_state[a.owner == procedure] >= 0) * weight).sum(axis=1)
            if choices.max(initial=0) <= 1:
                found[procedure] = max(lengths, 1)
    return found


def _exhaustible(
    a: Automaton, source: Int64, target: Int64, weight: Int64, last: Bool, whole: Int64, budget: Budget
) -> list[int]:
    """The guarded procedures whose items or members are distinct and finitely many: there, texts with more of them must
    not be counted on. Nothing is asked of it unless the items of some array are distinct.
    """
    distinct = [procedure for procedure, guard in a.guards if guard.distinct]
    if not any(guard.distinct and guard.kind == "items" for _, guard in a.guards):
        return []
    start = a.accepting.astype(np.int64)
    np.add.at(start, source[last], weight[last])
    each = _counts(a, source[~last], target[~last], weight[~last], start, whole, budget)
    most = np.zeros(len(a.entry), dtype=np.int64)
    np.maximum.at(most, a.owner[source[last]], each[target[last]])
    np.maximum.at(most, a.owner[a.entry], each[a.entry])
    return [procedure for procedure in distinct if most[procedure] < MANY]


def _counts(
    a: Automaton,
    source: Int64,
    target: Int64,
    weight: Int64,
    start: Int64,
    whole: Int64 | dict[int, int],
    budget: Budget,
) -> Int64:
    """int64 [N]: ``start[s]`` plus, over all edges and calls of s, the number of texts from there on.

    Args:
        weight: int64, by edge, how many bytes it stands for; 0 for whitespace, which adds nothing to the other ways.
        whole: the numbers of texts of the callees, by their entries; or those of some procedures, the others' being
            found in the result.
    """
    edges: list[list[tuple[int, int]]] = [[] for _ in range(a.states)]
    for s, t, w in zip(source.tolist(), target.tolist(), weight.tolist(), strict=True):
        edges[s].append((t, w))
    calls: list[list[tuple[int, int]]] = [[] for _ in range(a.states)]
    for s, p, r in zip(call_sources(a).tolist(), a.call_procedure.tolist(), a.call_return.tolist(), strict=True):
        calls[s].append((int(a.entry[p]), r))
    successors: list[list[int]] = []
    for s, of in enumerate(edges):
        leads = dict.fromkeys([*(t for t, _ in of), *(r for _, r in calls[s])])
        if isinstance(whole, dict):
            leads.update(dict.fromkeys(entry for entry, _ in calls[s]))
        successors.append(list(leads))
    budget.check_time()
    _, groups = strong_components(successors)
    count = start.tolist()
    inner = count if isinstance(whole, dict) else whole.tolist()
    known = {int(a.entry[p]): n for p, n in whole.items()} if isinstance(whole, dict) else {}
    for group in groups:  # each after those that it leads to
        if len(group) > 1 or group[0] in successors[group[0]]:
            for s in group:
                count[s] = MANY
            continue
        s = group[0]
        total = count[s] + sum(w * count[t] for t, w in edges[s])
        total += sum(known.get(e, inner[e]) * count[r] for e, r in calls[s])
        total = max(total, *(count[t] for t, w in edges[s] if not w)) if any(not w for _, w in edges[s]) else total
        count[s] = min(total, MANY)
    return np.array(count, dtype=np.int64)


def characters_needed(automaton: Automaton) -> Int32:
    """int32 [N]: how many characters are still to be counted at least before a counted string can end; 0 elsewhere."""
    a = automaton
    needed = np.zeros(a.states, dtype=np.int32)
    groups = np.array([_LEXICAL.get(byte, 1 + (byte & 0xC0 == 0x80)) for byte in range(256)], dtype=np.int64)
    _, samples = np.unique(a.byte_class.astype(np.int64) * 16 + groups, return_index=True)
    ends = np.append(a.entry[1:], a.states)
    free = Guard("characters", 0, a.states)  # counts, and forbids nothing on a shortest way
    for procedure, guard in a.guards:
        if guard.kind != "characters" or guard.high is None:
            continue
        before: dict[tuple[int, int], list[tuple[tuple[int, int], int]]] = {}
        start = (int(a.entry[procedure]), 0)
        found = {start: None}
        pending = [start]
        for state, mode in pending:  # grows while we walk it
            for byte in samples.tolist():
                target = int(a.next_state[state, a.byte_class[byte]])
                register = character(free, Register(0, mode), byte) if target >= 0 else None
                if register is not None:
                    place = (target, register.mode)
                    before.setdefault(place, []).append(((state, mode), register.number))
                    if place not in found:
                        found[place] = None
                        pending.append(place)
        last = range(int(a.entry[procedure]), int(ends[procedure]))
        distance = {place: 0 for place in found if a.accepting[place[0]]}
        queue = deque(distance)
        while queue:  # characters cost 1, other bytes nothing: those come first
            place = queue.popleft()
            for source, cost in before.get(place, ()):
                length = distance[place] + cost
                if length < distance.get(source, a.states + 1):
                    distance[source] = length
                    (queue.append if cost else queue.appendleft)(source)
        for state in last:
            needed[state] = min((length for (here, _), length in distance.items() if here == state), default=0)
    return needed


def states_in_strings(automaton: Automaton) -> npt.NDArray[np.uint8]:
    """uint8 [N]: 1 where no action, no guarded call and no end of the frame comes before a quotation mark has been
    read; nor an end of the frames that are called before that.
    """
    a = automaton
    plain = np.zeros(a.symbols, dtype=np.bool_)  # symbols that need not be a quotation mark
    plain[np.delete(a.byte_class, _QUOTE)] = True
    plain[a.byte_classes :] = True
    acting = np.zeros(a.next_state.shape, dtype=np.bool_)
    acting[a.actions[:, 0], a.actions[:, 1]] = True
    reached = a.accepting | (acting & plain).any(axis=1)
    caller = call_sources(a)
    reached[caller[np.isin(a.call_procedure, [procedure for procedure, _ in a.guards])]] = True
    source, symbol = np.nonzero((a.next_state >= 0) & plain)
    before: list[list[int]] = [[] for _ in range(a.states)]
    leads = (*zip(source.tolist(), a.next_state[source, symbol].tolist(), strict=True),)
    for s, t in (*leads, *zip(caller.tolist(), a.entry[a.call_procedure].tolist(), strict=True)):
        before[t].append(s)
    pending = np.flatnonzero(reached).tolist()
    while pending:
        for state in before[pending.pop()]:
            if not reached[state]:
                reached[state] = True
                pending.append(state)
    return (~reached).astype(np.uint8)


def _byte_weights(a: Automaton) -> Int64:
    """int64 [symbols]: how many bytes a symbol stands for; a special token is one."""
    weight = np.ones(a.symbols, dtype=np.int64)
    weight[: a.byte_classes] = np.bincount(a.byte_class, minlength=a.byte_classes)
    return weight


def _space_symbols(a: Automaton) -> npt.NDArray[np.bool_]:
    """bool [symbols]: symbols that stand for whitespace only (RFC 8259, section 2)."""
    other = np.ones(256, dtype=np.bool_)
    other[list(SPACES)] = False
    spaces = np.zeros(a.symbols, dtype=np.bool_)
    spaces[: a.byte_classes] = ~np.isin(np.arange(a.byte_classes), a.byte_class[other])
    return spaces
