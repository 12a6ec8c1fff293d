"""What is still demanded of an object after some of its members: the states of an object's automaton.

A frame fixes the order of its declared keys 0..n-1; all other keys come after them. A residual is an integer for

    (chain, parts)      all of it holds

where `chain` is a hash-consed list, sorted by key, of demands on single declared keys,

    (key, value, needed, rest)   the key's value satisfies the formula `value`; if `needed`, the key is there

and `parts` are the demands that no single declared key settles:

    ("keys", keyset, value)      the value of every undeclared key in the key set satisfies the formula
    ("some", keyset, value)      so does that of one undeclared key in the key set
    ("min", n) ("max", n)        so many members are still needed, or allowed
    ("or", residuals)            one of them holds

Reading a member takes the derivative: `absent` and `present` for declared keys in order, `other` for the rest. This
is the product of one small monitor per assertion, explored lazily, with alternatives kept together for as long as
they agree about what comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from schemac.budget import Budget
from schemac.errors import UnsupportedError
from schemac.frontend.json_schema.formula import FALSE, TRUE, Formulas
from schemac.frontend.json_schema.partition import Alternative, Partition

Part = tuple[Any, ...]

#: How deep alternatives and conjunctions may be nested in one another.
MAX_NESTING = 60
#: Up to so many alternatives are compared pair by pair to drop those that others cover.
_COMPARED = 24


class Residuals:
    """The residuals of one frame.

    Args:
        formulas: the store that value formulas live in.
        canonical: value formula -> an equal one, `FALSE` if no value is left.
        partition: makes alternatives exclude each other.
        budget: every residual and every alternative spends one of "branches".
        place: of the frame, for messages.
        distinct: no undeclared key comes twice.
    """

    ALWAYS = 0
    NEVER = -1

    def __init__(
        self,
        formulas: Formulas,
        canonical: Callable[[int], int],
        partition: Partition,
        budget: Budget,
        place: str | None,
        *,
        distinct: bool = False,
    ) -> None:
        self._formulas = formulas
        self._distinct = distinct
        self._canonical = canonical
        self._partition = partition
        self._cut = True
        self._budget = budget
        self._place = place
        self._chains: list[tuple[int, int, bool, int]] = []
        self._covering: dict[tuple[int, int], bool] = {}
        self._chain_ids: dict[tuple[int, int, bool, int], int] = {}
        self.nodes: list[tuple[int, tuple[Part, ...]]] = [(-1, ())]
        self._ids: dict[tuple[int, tuple[Part, ...]], int] = {(-1, ()): 0}
        self._absent: dict[tuple[int, int], int] = {}
        self._present: dict[tuple[int, int], tuple[Alternative, ...]] = {}

    def cut(self, cut: bool) -> None:
        """Say whether alternatives are to exclude each other; forgets what has been read so far."""
        if cut != self._cut:
            self._cut = cut
            self._present.clear()

    # -- building -----------------------------------------------------------------------------------------------

    def _intern(self, chain: int, parts: tuple[Part, ...]) -> int:
        node = (chain, parts)
        number = self._ids.get(node)
        if number is None:
            self._budget.spend("branches", place=self._place)
            number = len(self.nodes)
            self._ids[node] = number
            self.nodes.append(node)
        return number

    def _chain(self, key: int, value: int, needed: bool, rest: int) -> int:
        entry = (key, value, needed, rest)
        number = self._chain_ids.get(entry)
        if number is None:
            self._budget.spend("branches", place=self._place)
            number = len(self._chains)
            self._chain_ids[entry] = number
            self._chains.append(entry)
        return number

    def entries(self, residual: int) -> dict[int, tuple[int, bool]]:
        """The demands on single keys: key -> (formula of its value, whether it must be there)."""
        found: dict[int, tuple[int, bool]] = {}
        chain = self.nodes[residual][0]
        while chain >= 0:
            key, value, needed, chain = self._chains[chain]
            found[key] = (value, needed)
        return found

    def demand(self, entries: dict[int, tuple[list[int], bool]], parts: Sequence[Part]) -> int:
        """The residual with demands on single keys and further parts.

        Args:
            entries: key -> (formulas that its value must satisfy, whether it must be there).
            parts: see the module's head; counts may be repeated.
        """
        chain = -1
        for key in sorted(entries, reverse=True):
            values, needed = entries[key]
            value = self.value(values)
            if value == FALSE and needed:
                return self.NEVER
            if value != TRUE or needed:
                chain = self._chain(key, value, needed, chain)
        return self.with_parts(chain, parts)

    def value(self, values: Sequence[int]) -> int:
        """The canonical formula of values that satisfy all of the formulas."""
        if not values:
            return TRUE
        return self._canonical(values[0] if len(values) == 1 else self._formulas.conjunction(values))

    def with_parts(self, chain: int, parts: Iterable[Part]) -> int:
        """The residual with a chain and parts; counts may be repeated."""
        kept: dict[Part, None] = {}
        least, most = 0, None
        for part in parts:
            if part[0] == "min":
                least = max(least, part[1])
            elif part[0] == "max":
                most = part[1] if most is None else min(most, part[1])
            elif part[0] == "some" and part[2] == FALSE:
                return self.NEVER
            elif part[0] != "keys" or part[2] != TRUE:
                kept[part] = None
        if most is not None and most < least:
            return self.NEVER
        if least:
            kept["min", least] = None
        if most is not None:
            kept["max", most] = None
        return self._intern(chain, tuple(sorted(kept)))

    def conjunction(self, residuals: Iterable[int]) -> int:
        """All of the residuals."""
        items = list(dict.fromkeys(item for item in residuals if item != self.ALWAYS))
        if self.NEVER in items:
            return self.NEVER
        if len(items) < 2:
            return items[0] if items else self.ALWAYS
        parts: dict[Part, None] = {}
        chain = -1
        for item in items:
            other, more = self.nodes[item]
            parts.update(dict.fromkeys(more))
            merged = self._merge(chain, other)
            if merged is None:
                return self.NEVER
            chain = merged
        whole = self.with_parts(chain, parts)
        if whole == self.NEVER or len(parts) > _COMPARED:
            return whole
        # An "or" that one of its branches makes sure of by what else is demanded says nothing more.
        chain, kept = self.nodes[whole]
        needless = [
            part for part in kept if part[0] == "or" and any(self.covers(item, whole) for item in part[1][:_COMPARED])
        ]
        return self.with_parts(chain, (part for part in kept if part not in needless)) if needless else whole

    def _merge(self, one: int, other: int) -> int | None:
        """Both chains as one; None if a needed key has no value left."""
        done: list[tuple[int, int, bool]] = []
        while one >= 0 and other >= 0 and one != other:
            key, value, needed, rest = self._chains[one]
            other_key, other_value, other_needed, other_rest = self._chains[other]
            if key < other_key:
                done.append((key, value, needed))
                one = rest
            elif key > other_key:
                done.append((other_key, other_value, other_needed))
                other = other_rest
            else:
                both = self.value((value, other_value))
                if both == FALSE and (needed or other_needed):
                    return None
                done.append((key, both, needed or other_needed))
                one, other = rest, other_rest
        chain = one if one >= 0 else other
        for key, value, needed in reversed(done):
            chain = self._chain(key, value, needed, chain)
        return chain

    def disjunction(self, residuals: Iterable[int]) -> int:
        """Any of the residuals; those that another one covers are dropped."""
        items: dict[int, None] = {}
        for item in residuals:
            if item == self.NEVER:
                continue
            chain, parts = self.nodes[item]
            if chain < 0 and len(parts) == 1 and parts[0][0] == "or":
                items.update(dict.fromkeys(parts[0][1]))
            else:
                items[item] = None
        if self.ALWAYS in items:
            return self.ALWAYS
        kept = sorted(items)
        if 1 < len(kept) <= _COMPARED:
            kept = [item for item in kept if not any(other != item and self.covers(other, item) for other in kept)]
        if len(kept) < 2:
            return kept[0] if kept else self.NEVER
        return self._intern(-1, (("or", tuple(kept)),))

    def covers(self, weak: int, strong: int) -> bool:
        """Whether it is plain to see that `weak` holds wherever `strong` does; never both ways for distinct ones."""
        if weak == self.ALWAYS or strong == self.NEVER:
            return True
        if weak == self.NEVER:
            return False
        found = self._covering.get((weak, strong))
        if found is None:
            found = self._covering[weak, strong] = self._covers(weak, strong)
        return found

    def _covers(self, weak: int, strong: int) -> bool:
        chain, parts = self.nodes[weak]
        strong_chain, strong_parts = self.nodes[strong]
        if not set(parts) <= set(strong_parts):
            return False
        while chain >= 0:
            if chain == strong_chain:
                return True
            if strong_chain < 0:
                return False
            key, value, needed, rest = self._chains[chain]
            strong_key, strong_value, strong_needed, strong_rest = self._chains[strong_chain]
            if strong_key > key:
                return False
            if strong_key == key:
                if value not in (TRUE, strong_value) or (needed and not strong_needed):
                    return False
                chain = rest
            strong_chain = strong_rest
        return True

    # -- what is in a residual ----------------------------------------------------------------------------------

    def _inside(self, residual: int) -> Iterator[Part]:
        """All parts, those of alternatives included."""
        seen = {residual}
        stack = [residual]
        while stack:
            for part in self.nodes[stack.pop()][1]:
                yield part
                if part[0] == "or":
                    stack.extend(item for item in part[1] if item not in seen)
                    seen.update(part[1])

    def keysets(self, residual: int) -> list[int]:
        """The key sets that the residual speaks of, ascending."""
        return sorted({part[1] for part in self._inside(residual) if part[0] in ("keys", "some")})

    def keys(self, residual: int) -> set[int]:
        """The declared keys that the residual demands something of, in whatever alternative."""
        found: set[int] = set()
        seen = {residual}
        stack = [residual]
        while stack:
            current = stack.pop()
            found.update(self.entries(current))
            for part in self.nodes[current][1]:
                if part[0] == "or":
                    stack.extend(item for item in part[1] if item not in seen)
                    seen.update(part[1])
        return found

    def counts(self, residual: int) -> bool:
        """Whether it matters how many members come, or whether some undeclared one does."""
        return any(part[0] in ("min", "max", "some") for part in self._inside(residual))

    def counts_from_below(self, residual: int) -> bool:
        """Whether more members may be needed."""
        return any(part[0] == "min" for part in self._inside(residual))

    # -- reading members ----------------------------------------------------------------------------------------

    def absent(self, residual: int, key: int) -> int:
        """What is left if declared key `key` does not come; keys come in order."""
        if residual <= self.ALWAYS:
            return residual
        found = self._absent.get((residual, key))
        if found is None:
            chain, parts = self.nodes[residual]
            if chain >= 0 and self._chains[chain][0] == key:
                if self._chains[chain][2]:
                    self._absent[residual, key] = self.NEVER
                    return self.NEVER
                chain = self._chains[chain][3]
            found = self._resolve_ors(
                chain, parts, lambda items: self.disjunction(self.absent(item, key) for item in items)
            )
            self._absent[residual, key] = found
        return found

    def _resolve_ors(self, chain: int, parts: Sequence[Part], solve: Callable[[tuple[int, ...]], int]) -> int:
        """The residual with every "or" part replaced by what `solve` makes of it."""
        plain = [part for part in parts if part[0] != "or"]
        solved = [solve(part[1]) for part in parts if part[0] == "or"]
        return self.conjunction((self.with_parts(chain, plain), *solved))

    def counted(self, residual: int) -> int:
        """What is left of a residual without "or" parts when a member has come of which only the counts know."""
        chain, parts = self.nodes[residual]
        if ("max", 0) in parts:
            return self.NEVER
        less = [(part[0], part[1] - 1) if part[0] in ("min", "max") else part for part in parts]
        return residual if tuple(less) == parts else self.with_parts(chain, less)

    def present(self, residual: int, key: int) -> tuple[Alternative, ...]:
        """The ways in which declared key `key` can come: what its value satisfies, and what is left then."""
        found = self._present.get((residual, key))
        if found is None:
            found = self._read(residual, key, None)
            self._present[residual, key] = found
        return found

    def other(self, residual: int, members: frozenset[int]) -> tuple[Alternative, ...]:
        """The ways in which an undeclared key can come that is in the key sets `members` and in no other."""
        return self._read(residual, None, members)

    def _read(self, residual: int, key: int | None, members: frozenset[int] | None) -> tuple[Alternative, ...]:
        if residual == self.NEVER:
            return ()
        chain, parts = self.nodes[residual]
        values: list[int] = []
        if key is not None and chain >= 0 and self._chains[chain][0] == key:
            _, value, _, chain = self._chains[chain]
            values.append(value)
        kept: list[Part] = []
        choices: list[tuple[Alternative, ...]] = []
        for part in parts:
            kind = part[0]
            if kind == "min":
                kept.append(("min", part[1] - 1))
            elif kind == "max":
                if part[1] == 0:
                    return ()
                kept.append(("max", part[1] - 1))
            elif kind == "or":
                options = [option for item in part[1] for option in self._again(item, key, members)]
                choices.append(self._grouped(options))
            elif kind == "keys":
                kept.append(part)
                if members is not None and part[1] in members:
                    values.append(part[2])
            elif members is None or part[1] not in members:
                kept.append(part)
            else:
                choices.append(self._witness(part))
        value = self.value(values)
        if value == FALSE:
            return ()
        result: tuple[Alternative, ...] = ((value, self.with_parts(chain, kept)),)
        for choice in choices:
            self._budget.spend("branches", len(result) * len(choice), place=self._place)
            result = self._grouped(
                [
                    (self.value((value, other_value)) if value != other_value else value, self.conjunction((a, b)))
                    for value, a in result
                    for other_value, b in choice
                ]
            )
        return tuple((value, left) for value, left in result if value != FALSE and left != self.NEVER)

    def _again(self, residual: int, key: int | None, members: frozenset[int] | None) -> tuple[Alternative, ...]:
        return self._read(residual, None, members) if key is None else self.present(residual, key)

    def _witness(self, part: Part) -> tuple[Alternative, ...]:
        """A "some" either waits for a later key or takes this one.

        Where undeclared keys may come twice, the last one counts. So that a later twin does not undo the witness, all
        later keys of the set must satisfy the formula too: the keys that do not come first in the canonical order.
        """
        _, keyset, value = part
        later = self.ALWAYS if self._distinct else self.with_parts(-1, [("keys", keyset, value)])
        return ((TRUE, self.with_parts(-1, [part])), (value, later))

    def _grouped(self, options: Sequence[Alternative]) -> tuple[Alternative, ...]:
        """One alternative per value formula, cut where they overlap."""
        by_value: dict[int, list[int]] = {}
        for value, left in options:
            if value != FALSE and left != self.NEVER:
                by_value.setdefault(value, []).append(left)
        grouped = [(value, self.disjunction(lefts)) for value, lefts in by_value.items()]
        if len(grouped) < 2 or not self._cut:
            return tuple(grouped)
        return self._partition.disjoint(grouped, self.disjunction)

    # -- ends ---------------------------------------------------------------------------------------------------

    def may_end(self, residual: int) -> bool:
        """Whether the object may end here, all declared keys being past, or none of them needed."""
        if residual == self.NEVER:
            return False
        _, parts = self.nodes[residual]
        for part in parts:
            if part[0] in ("min", "some") and part[1:] != (0,):
                return False
            if part[0] == "or" and not any(map(self.may_end, part[1])):
                return False
        return True

    def too_deep(self) -> UnsupportedError:
        """The error for formulas nested beyond `MAX_NESTING`."""
        return UnsupportedError(
            f"alternatives are nested in one another more than {MAX_NESTING} deep",
            place=self._place,
            hint="flatten the anyOf, oneOf and not keywords here",
        )
