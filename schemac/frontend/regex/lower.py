r"""From syntax tree to `Dfa` over code points.

- Without assertions, or with ``^`` and ``$`` at the ends only: Thompson, subset construction, minimization.
- With anchors or word boundaries anywhere: the same, with nodes split by the neighbours of a position (`anchors`).
- Leading lookaheads and trailing lookbehinds are intersections.
- All else goes to `assertions`, which is exact too.
"""

from __future__ import annotations

from schemac.budget import Budget
from schemac.frontend.regex import ast
from schemac.frontend.regex.anchors import without_anchors
from schemac.frontend.regex.assertions import assertion_language
from schemac.frontend.regex.ast import Alternation, Anchor, Chars, Concat, Look, Node
from schemac.frontend.regex.thompson import Facts, Thompson, survey, without_idle_counts
from schemac.ir.charset import CODE_POINTS, SCALARS, CharSet
from schemac.ir.dfa import Dfa, union_all

_ANY = Chars(SCALARS)
_ANY_TEXT = ast.repeat(_ANY, 0, None)
_MAX_SPLITS = 30  # how deep leading lookarounds and alternatives are split off before the general method takes over


def lower(
    node: Node, *, search: bool, budget: Budget | None = None, place: str = "", longest: int | None = None
) -> Dfa:
    """The texts (of Unicode scalar values) that match.

    Args:
        node: a syntax tree.
        search: whether a match anywhere in the text is enough; else the whole text must match.
        budget: what may be used; a default one if None.
        place: where the pattern stands, for errors.
        longest: if given, longer texts do not matter, as the caller intersects with a length limit; the result may
            have any of them, and may be much smaller.

    Raises:
        BudgetExceeded: too many states, or too late.
    """
    budget = budget or Budget()
    with budget.at(place or None):
        facts = Facts()
        survey(node, facts)
        if longest is not None:
            node = without_idle_counts(node, longest, facts)
            survey(node, facts)
        budget.spend("regex_states", facts.size[id(node)])
        return _language(node, not search, not search, facts, budget, 0)


def _language(node: Node, left: bool, right: bool, facts: Facts, budget: Budget, depth: int) -> Dfa:
    """The whole texts in which `node` matches; `left` and `right` tell whether the match must reach that end."""
    branches = _branches(node, left, right)
    for branch, _, _ in branches:
        survey(branch, facts)
    worst = max(facts.asserts[id(branch)] for branch, _, _ in branches)
    if worst < 2:
        return _plain(branches, facts, budget)
    if len(branches) > 1 and depth < _MAX_SPLITS:
        return union_all([_language(*branch, facts, budget, depth + 1) for branch in branches], budget=budget)
    if len(branches) == 1 and depth < _MAX_SPLITS:
        node, left, right = branches[0]
        parts = node.parts if isinstance(node, Concat) else (node,)
        begin, end = 0, len(parts)
        while left and begin < end and isinstance(part := parts[begin], Look) and part.ahead:
            begin += 1
        while right and begin < end and isinstance(part := parts[end - 1], Look) and not part.ahead:
            end -= 1
        if (begin, end) != (0, len(parts)):
            found: list[tuple[Dfa, bool]] = []
            for part in parts[:begin] + parts[end:]:
                assert isinstance(part, Look)
                inner = (part.body, True, False) if part.ahead else (part.body, False, True)
                found.append((_language(*inner, facts, budget, depth + 1), part.negative))
            rest = _known(parts[begin:end], facts)
            limits = [length for some, negative in found if not negative and (length := some.max_length) is not None]
            if limits:
                rest = without_idle_counts(rest, min(limits), facts)
                survey(rest, facts)
            result = _language(rest, left, right, facts, budget, depth + 1)
            # Small automata first keep the products small.
            for some, negative in sorted(found, key=lambda pair: pair[0].size):
                result = (result.difference if negative else result.intersect)(some, budget=budget)
            return result
    whole: Node = ast.alternate(
        ast.concat([*([] if at_left else [_ANY_TEXT]), branch, *([] if at_right else [_ANY_TEXT])])
        for branch, at_left, at_right in branches
    )
    survey(whole, facts)
    return assertion_language(whole, facts, budget)


def _known(parts: tuple[Node, ...], facts: Facts) -> Node:
    """The concatenation of parts, surveyed."""
    node = ast.concat(parts)
    survey(node, facts)
    return node


def _known_alternation(parts: list[Node], facts: Facts) -> Node:
    """The alternation of parts, surveyed."""
    node = ast.alternate(parts)
    survey(node, facts)
    return node


def _branches(node: Node, left: bool, right: bool) -> list[tuple[Node, bool, bool]]:
    """Split off alternatives and the text anchors at their ends: (rest, at the start, at the end) each."""
    found: list[tuple[Node, bool, bool]] = []
    stack = [(node, left, right)]
    while stack:
        node, left, right = stack.pop()
        if isinstance(node, Alternation):
            stack += [(part, left, right) for part in reversed(node.parts)]
            continue
        parts = node.parts if isinstance(node, Concat) else (node,)
        begin, end = 0, len(parts)
        while begin < end and isinstance(part := parts[begin], Anchor) and part.kind == "start":
            begin, left = begin + 1, True
        while begin < end and isinstance(part := parts[end - 1], Anchor) and part.kind == "end":
            end, right = end - 1, True
        if begin == 0 and end == len(parts):
            found.append((node, left, right))
        else:
            stack.append((ast.concat(parts[begin:end]), left, right))
    return found


def anchored_branches(node: Node) -> list[Node]:
    """The alternatives of a pattern that must match a whole text, without the text anchors at their ends."""
    return [branch for branch, _, _ in _branches(node, True, True)]


def _plain(branches: list[tuple[Node, bool, bool]], facts: Facts, budget: Budget) -> Dfa:
    """The texts that match a branch; no branch has assertions other than anchors."""
    thompson = Thompson(CODE_POINTS, _same, facts, budget)
    nfa = thompson.nfa
    any_char = nfa.label(SCALARS)
    ends = {True: nfa.node(), False: nfa.node()}
    nfa.final(ends[True])
    nfa.final(ends[False])
    nfa.labelled(ends[False], any_char, ends[False])
    nfa.universal.add(ends[False])
    if any(not left for _, left, _ in branches):
        search = nfa.node()
        nfa.epsilon(nfa.start, search)
        nfa.labelled(search, any_char, search)
    # Alternatives with the same ends belong together: word lists among them are cheap.
    together: dict[tuple[bool, bool], list[Node]] = {}
    for branch, left, right in branches:
        together.setdefault((left, right), []).append(branch)
    for (left, right), parts in together.items():
        branch = parts[0] if len(parts) == 1 else _known_alternation(parts, facts)
        source = nfa.node()
        nfa.epsilon(nfa.start if left else search, source)
        thompson.add(branch, source, ends[right])
    if thompson.guards:
        nfa = without_anchors(thompson, budget)
    return Dfa.from_nfa(nfa, budget=budget)


def _same(symbols: CharSet) -> CharSet:
    return symbols
