"""Arrays: the automaton of one array frame, from the opening bracket to the closing one.

A residual says what is still demanded of the items to come. It is an integer for a tuple of parts, all of which hold:

    ("item", offset, value)      the item after `offset` more, if it comes, satisfies the formula
    ("items", offset, value)     so does every item from there on
    ("from", offset, value)      one item from there on satisfies the formula
    ("contains", n, value)       so do at least `n` of the items to come
    ("at most", n, value)        at most `n` of the items to come do
    ("min", n) ("max", n)        so many items are still needed, or allowed
    ("unique", used)             all items to come differ from one another and from the values in `used`
    ("or", residuals)            one of them holds

Reading an item takes the derivative, as for objects (`residuals`): lazily, with alternatives kept together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import comb
from typing import Any

from schemac.budget import Budget
from schemac.errors import UnsupportedError
from schemac.frontend.json_schema.formula import FALSE, TRUE, Formulas
from schemac.frontend.json_schema.layout import Layout
from schemac.frontend.json_schema.members import Values
from schemac.frontend.json_schema.partition import Alternative, Partition
from schemac.frontend.json_schema.residuals import MAX_NESTING
from schemac.frontend.json_schema.typed import Types
from schemac.ir.graph import Graph
from schemac_runtime.registers import NEXT, Guard

Part = tuple[Any, ...]
ALWAYS, NEVER = 0, -1
_COMPARED = 24
#: Larger bounds on the number of items are counted in a register.
_COUNTED = 64


class _ItemResiduals:
    """The residuals of one frame.

    Args:
        formulas: the store that value formulas live in.
        canonical: value formula -> an equal one, `FALSE` if no value is left.
        listed: value formula -> one formula for each of its values, None if they are not finitely many.
        partition: makes alternatives exclude each other.
        budget: every residual and every alternative spends one of "branches".
        place: of the frame, for messages.
    """

    def __init__(
        self,
        formulas: Formulas,
        canonical: Callable[[int], int],
        listed: Callable[[int], list[int] | None],
        partition: Partition,
        budget: Budget,
        place: str | None,
    ) -> None:
        self._formulas = formulas
        self._canonical = canonical
        self._partition = partition
        self._budget = budget
        self._place = place
        self.nodes: list[tuple[Part, ...]] = [()]
        self._ids: dict[tuple[Part, ...], int] = {(): 0}
        self._listed = listed
        self._next: dict[int, tuple[Alternative, ...]] = {}

    def conjunction(self, parts: Iterable[Part]) -> int:
        """All of the parts."""
        kept: dict[Part, None] = {}
        least, most = 0, None
        for part in parts:
            if part[0] == "min":
                least = max(least, part[1])
            elif part[0] == "max":
                most = part[1] if most is None else min(most, part[1])
            elif part[0] == "contains":
                if part[2] == FALSE:
                    return NEVER
                least = max(least, part[1])
                kept[part] = None
            elif part[0] == "from":
                if part[2] == FALSE:
                    return NEVER
                least = max(least, part[1] + 1)
                kept[part] = None
            elif part[0] == "at most":
                if part[2] != FALSE:
                    kept[part] = None
            elif part[0] in ("or", "unique") or part[2] != TRUE:
                kept[part] = None
        for part in list(kept):  # an item that cannot be bounds the length
            if part[0] in ("item", "items") and part[2] == FALSE:
                del kept[part]
                most = part[1] if most is None else min(most, part[1])
        if most is not None and most < least:
            return NEVER
        if most is not None:
            for part in list(kept):
                if part[0] in ("item", "items") and part[1] >= most:
                    del kept[part]
            kept["max", most] = None
        if least:
            kept["min", least] = None
        node = tuple(sorted(kept))
        number = self._ids.get(node)
        if number is None:
            self._budget.spend("branches", place=self._place)
            number = len(self.nodes)
            self._ids[node] = number
            self.nodes.append(node)
        return number

    def both(self, one: int, other: int) -> int:
        """Two residuals at once."""
        if NEVER in (one, other):
            return NEVER
        return self.conjunction((*self.nodes[one], *self.nodes[other]))

    def disjunction(self, residuals: Iterable[int]) -> int:
        """Any of the residuals; those that others cover are dropped."""
        items: dict[int, None] = {}
        for item in residuals:
            if item == NEVER:
                continue
            parts = self.nodes[item]
            if len(parts) == 1 and parts[0][0] == "or":
                items.update(dict.fromkeys(parts[0][1]))
            else:
                items[item] = None
        if ALWAYS in items:
            return ALWAYS
        kept = sorted(items)
        if 1 < len(kept) <= _COMPARED:
            kept = [item for item in kept if not any(o != item and self.covers(o, item) for o in kept)]
        if len(kept) < 2:
            return kept[0] if kept else NEVER
        return self.conjunction((("or", tuple(kept)),))

    def covers(self, weak: int, strong: int) -> bool:
        """Whether it is plain to see that `weak` holds wherever `strong` does; never both ways for distinct ones."""
        strong_parts = self.nodes[strong]
        for part in self.nodes[weak]:
            if part in strong_parts:
                continue
            # Fewer needed, or more allowed, of the same thing.
            if part[0] in ("min", "contains") and any(
                other[0] == part[0] and other[2:] == part[2:] and other[1] > part[1] for other in strong_parts
            ):
                continue
            if part[0] in ("max", "at most") and any(
                other[0] == part[0] and other[2:] == part[2:] and other[1] < part[1] for other in strong_parts
            ):
                continue
            return False
        return True

    def value(self, values: Sequence[int]) -> int:
        """The conjunction of value formulas."""
        if not values:
            return TRUE
        return self._canonical(values[0] if len(values) == 1 else self._formulas.conjunction(values))

    def item(self, residual: int) -> tuple[Alternative, ...]:
        """The ways in which an item can come: what it satisfies, and what is left then."""
        found = self._next.get(residual)
        if found is None:
            found = self._next[residual] = () if residual == NEVER else self._derive(self.nodes[residual])
        return found

    def _derive(self, parts: tuple[Part, ...]) -> tuple[Alternative, ...]:
        values: list[int] = []
        kept: list[Part] = []
        choices: list[tuple[Alternative, ...]] = []
        used: tuple[int, ...] | None = None
        for part in parts:
            kind, number = part[0], part[1]
            if kind == "min":
                kept.append(("min", number - 1))
            elif kind == "max":
                if number == 0:
                    return ()
                kept.append(("max", number - 1))
            elif kind == "or":
                choices.append(self._grouped([option for item in number for option in self.item(item)]))
            elif kind == "contains":
                choices.append(self._counted(part))
            elif kind == "unique":
                used = number
            elif kind == "from":
                kept.append(("from", number - 1, part[2]) if number > 1 else ("contains", 1, part[2]))
            elif kind == "at most":
                choices.append(self._limited(part))
            else:
                if number == 0:
                    values.append(part[2])
                if kind == "items" or number:
                    kept.append((kind, max(number - 1, 0), part[2]))
        result: tuple[Alternative, ...] = ((self.value(values), self.conjunction(kept)),)
        for options in choices:
            self._budget.spend("branches", len(result) * len(options), place=self._place)
            result = self._grouped(
                [(self.value((v, w)) if v != w else v, self.both(a, b)) for v, a in result for w, b in options]
            )
        result = tuple((value, left) for value, left in result if value != FALSE and left != NEVER)
        return result if used is None else self._without_repeats(result, used)

    def _without_repeats(self, alternatives: Sequence[Alternative], used: tuple[int, ...]) -> tuple[Alternative, ...]:
        """Each value that an item can still have as an alternative of its own, so that it is known from then on."""
        by_value: dict[int, list[int]] = {}
        result: list[Alternative] = []
        for value, left in alternatives:
            if not self.item(left):  # the last item needs no alternative of its own
                fresh = self.value((value, *map(self._formulas.negation, used)))
                if fresh != FALSE:
                    result.append((fresh, left))
                continue
            values = self._listed(value)
            if values is None:
                raise UnsupportedError(
                    "the items could run out before minItems, or are to differ in one alternative of several only",
                    place=self._place,
                    construct="uniqueItems",
                    hint="give the items an enum or more freedom, lower minItems, or check uniqueness afterwards",
                )
            if not used:
                self._reserve_subsets(len(values), left)
            for one in values:
                if one not in used:
                    rest = self.conjunction((("unique", tuple(sorted((*used, one)))),))
                    by_value.setdefault(one, []).append(self.both(left, rest))
        result += [(value, self.disjunction(lefts)) for value, lefts in by_value.items()]
        return tuple(result)

    def _reserve_subsets(self, values: int, left: int) -> None:
        """Reserve for one residual per set of values that may have been used, before any is made."""
        most = min([values, *(part[1] + 1 for part in self.nodes[left] if part[0] == "max")])
        steps = sum(comb(values, count) * (values - count) for count in range(min(most, 64)))
        self._budget.spend("branches", steps, place=self._place, construct="uniqueItems")

    def _counted(self, part: Part) -> tuple[Alternative, ...]:
        """A "contains" may count this item if it fits, or wait for later ones."""
        _, number, value = part
        left = ALWAYS if number == 1 else self.conjunction((("contains", number - 1, value),))
        return ((TRUE, self.conjunction((part,))), (value, left))

    def _limited(self, part: Part) -> tuple[Alternative, ...]:
        """An "at most" may spend one of its number on any item; for free go only those that do not fit."""
        _, number, value = part
        free = (self.value((self._formulas.negation(value),)), self.conjunction((part,)))
        if number == 0:
            return (free,)
        return (free, (value, self.conjunction((("at most", number - 1, value),))))

    def _grouped(self, options: Sequence[Alternative]) -> tuple[Alternative, ...]:
        by_value: dict[int, list[int]] = {}
        for value, left in options:
            if value != FALSE and left != NEVER:
                by_value.setdefault(value, []).append(left)
        grouped = [(value, self.disjunction(lefts)) for value, lefts in by_value.items()]
        if len(grouped) < 2:
            return tuple(grouped)
        return self._partition.disjoint(grouped, self.disjunction)

    def may_end(self, residual: int) -> bool:
        """Whether the array may end here."""
        if residual == NEVER:
            return False
        for part in self.nodes[residual]:
            if part[0] in ("min", "contains", "from"):
                return False
            if part[0] == "or" and not any(map(self.may_end, part[1])):
                return False
        return True


class ArrayFrame:
    """Builds the graph of one array formula.

    Args:
        types: splits formulas.
        formula: about arrays only.
        values: reads items.
        partition: makes alternatives exclude each other.
        layout: whitespace.
        budget: states and branches.
        place: of the schema that the formula comes from, for messages.
    """

    def __init__(
        self,
        types: Types,
        formula: int,
        values: Values,
        partition: Partition,
        layout: Layout,
        budget: Budget,
        place: str,
    ) -> None:
        self._types = types
        self._formulas = types.formulas
        self._values = values
        self._layout = layout
        self._budget = budget
        self._place = place
        self._residuals = _ItemResiduals(self._formulas, types.canonical, types.listed, partition, budget, self._place)
        self._built: dict[int, int] = {}
        self._start = self._build(formula, 0)
        #: What is counted and remembered in a register instead of in residuals.
        self.guard: Guard | None = None
        if self._start != NEVER:
            self._take_out()

    def _take_out(self) -> None:
        """Leave large bounds and distinctness to a guard, where no text can run into a dead end by that."""
        parts = self._residuals.nodes[self._start]
        low = max((part[1] for part in parts if part[0] == "min"), default=0)
        high = min((part[1] for part in parts if part[0] == "max"), default=None)
        plain = [part for part in parts if part[0] in ("item", "items")]
        unique = any(part[0] == "unique" for part in parts)
        large = max(low, high or 0) > _COUNTED
        if not (unique or large) or len(plain) + sum(p[0] in ("min", "max", "unique") for p in parts) < len(parts):
            return
        start = self._residuals.conjunction(plain)
        most = min((part[1] for part in self._residuals.nodes[start] if part[0] == "max"), default=None)
        if most is not None and (high is None or most <= high):
            high = None  # an item that cannot be ends the array earlier
        if unique and not self._never_out_of_values(start, low):
            return
        if not large:  # counted as ever: only distinctness is taken out
            start = self._residuals.conjunction([*plain, *(part for part in parts if part[0] in ("min", "max"))])
            low, high = 0, None
        self._start = start
        self.guard = Guard("items", low, high, unique)

    def _never_out_of_values(self, start: int, low: int) -> bool:
        """Whether an array of distinct items can always grow to `low` items: each may have so many values at least, or
        all the same ones, and enough of them.
        """
        seen: dict[int, None] = {}
        residual = start
        for _ in range(low):
            if residual in seen:
                break
            seen[residual] = None
            alternatives = self._residuals.item(residual)
            endless = [left for value, left in alternatives if self._is_enough(value, low)]
            if endless:
                residual = endless[0]
                continue
            uniform = len(alternatives) == 1 and alternatives[0][1] == residual
            return uniform and len(seen) == 1 and len(self._types.listed(alternatives[0][0]) or ()) >= low
        return True

    def _is_enough(self, value: int, low: int) -> bool:
        """Whether there are so many values, or maybe arrays and objects where one is enough."""
        return self._types.listed(value) is None and (low < 2 or self._types.at_least(value, low) >= low)

    def _build(self, formula: int, depth: int) -> int:
        """The residual of a split formula. Recursion is bounded by `MAX_NESTING`."""
        if formula in (TRUE, FALSE):
            return ALWAYS if formula == TRUE else NEVER
        found = self._built.get(formula)
        if found is not None:
            return found
        if depth > MAX_NESTING:
            raise UnsupportedError(
                f"alternatives are nested in one another more than {MAX_NESTING} deep", place=self._place
            )
        node = self._formulas.nodes[formula]
        if node[0] == "or":
            result = self._residuals.disjunction([self._build(part, depth + 1) for part in node[1]])
        else:
            each = [self._parts(part, depth) for part in (node[1] if node[0] == "and" else (formula,))]
            parts = [part for more in each if more is not None for part in more]
            result = NEVER if None in each else self._residuals.conjunction(parts)
        self._built[formula] = result
        return result

    def _parts(self, formula: int, depth: int) -> Sequence[Part] | None:
        kind, *rest = self._formulas.nodes[formula]
        if kind in ("or", "and"):
            residual = self._build(formula, depth + 1)
            return None if residual == NEVER else self._residuals.nodes[residual]
        name, *arguments = rest[1]
        positive = kind == "lit"
        canonical, negation = self._types.canonical, self._formulas.negation
        if name == "item":
            index, value = arguments
            if positive:
                return [("item", index, canonical(value))]
            return [("item", index, canonical(negation(value))), ("min", index + 1)]
        if name == "items":
            start, value = arguments
            if positive:
                return [("items", start, canonical(value))]
            return self._some_from(start, canonical(negation(value)))
        if name == "contains":
            number, value = arguments
            value = canonical(value)
            return [("contains", number, value)] if positive else [("at most", number - 1, value)]
        if name == "min_items":
            if positive:
                return [("min", arguments[0])]
            return [("max", arguments[0] - 1)] if arguments[0] else None
        if name == "max_items":
            return [("max", arguments[0])] if positive else [("min", arguments[0] + 1)]
        if positive:
            return [("unique", ())]
        raise UnsupportedError(
            "that two items are equal cannot be tracked",
            place=self._formulas.place(formula),
            construct="uniqueItems",
            hint="do not negate `uniqueItems`; a `oneOf` negates its branches",
        )

    def _some_from(self, start: int, value: int) -> Sequence[Part] | None:
        """One item from `start` on has a value: the next one is it, or a later one."""
        if start == 0:
            return [("contains", 1, value)]
        return [("from", start, value)]

    def _reserve(self) -> None:
        """Reserve for the largest count before anything is counted."""
        if self._start != NEVER:
            counts = [part[1] for part in self._residuals.nodes[self._start] if part[0] in ("min", "max", "contains")]
            self._budget.spend("states", max(counts, default=0), place=self._place)
            self._budget.afford("branches", max(counts, default=0), place=self._place)  # a residual for each count

    def graph(self) -> Graph:
        """What follows the opening bracket, up to and including the closing one."""
        graph, layout = Graph(), self._layout
        self._reserve()
        end = graph.node()
        graph.final(end)
        after: dict[int, int] = {}  # residual -> node behind an item
        pending: list[int] = []

        def behind(residual: int) -> int:
            node = after.get(residual)
            if node is None:
                node = after[residual] = graph.node()
                pending.append(residual)
            return node

        def items(node: int, residual: int) -> None:
            for value, left in self._residuals.item(residual):
                self._values.value(graph, node, value, behind(left))

        start = layout.gap(graph, graph.start)
        if self._residuals.may_end(self._start):
            graph.byte(start, 0x5D, 0x5D, end)
        items(start, self._start)
        while pending:
            residual = pending.pop()
            self._budget.spend("states", place=self._place)
            node = layout.gap(graph, after[residual])
            if self._residuals.may_end(residual):
                graph.byte(node, 0x5D, 0x5D, end)
            if self._residuals.item(residual):
                items(layout.comma(graph, node, None if self.guard is None else NEXT), residual)
        return graph
