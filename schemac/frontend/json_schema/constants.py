"""The formula of given values: what `enum` and `const` assert, compared by value (2020-12 core, section 4.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from schemac.frontend.json_schema.formula import (
    ARRAY,
    FALSE,
    FALSE_VALUE,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE_VALUE,
    Formulas,
)


def values_formula(formulas: Formulas, values: Sequence[object]) -> int:
    """The value equals one of `values` (`enum`, and `const` with one). Numbers compare by value, so 1.0 is 1."""
    mask = 0
    numbers: dict[Fraction, None] = {}
    words: dict[str, None] = {}
    compound: list[int] = []
    for value in values:
        if value is None:
            mask |= NULL
        elif isinstance(value, bool):
            mask |= TRUE_VALUE if value else FALSE_VALUE
        elif isinstance(value, str):
            words[value] = None
        elif isinstance(value, (int, Decimal)):
            numbers[Fraction(value)] = None
        else:
            compound.append(_compound(formulas, value))
    parts = []
    if numbers:
        mask |= NUMBER
        parts.append(formulas.literal(NUMBER, ("numbers", tuple(numbers))))
    if words:
        mask |= STRING
        parts.append(formulas.literal(STRING, ("words", tuple(words))))
    scalars = formulas.conjunction((formulas.types(mask), *parts))
    return formulas.disjunction((scalars, *compound)) if compound else scalars


def _compound(formulas: Formulas, value: object) -> int:
    """The value equals one array or object; inner ones first, with an explicit stack."""
    done: dict[int, int] = {}
    stack: list[tuple[object, bool]] = [(value, False)]
    while stack:
        current, ready = stack.pop()
        children = list(current.values() if isinstance(current, dict) else current)  # type: ignore[call-overload]
        if not ready:
            stack.append((current, True))
            stack.extend((child, False) for child in children if isinstance(child, (dict, list)))
            continue
        inner = [done[id(c)] if isinstance(c, (dict, list)) else values_formula(formulas, [c]) for c in children]
        done[id(current)] = (
            _equal_object(formulas, tuple(current), inner)
            if isinstance(current, dict)
            else _equal_array(formulas, inner)
        )
    return done[id(value)]


def _equal_object(formulas: Formulas, names: tuple[str, ...], inner: list[int]) -> int:
    parts = [formulas.types(OBJECT)]
    parts += [formulas.literal(OBJECT, ("property", name, formula)) for name, formula in zip(names, inner, strict=True)]
    parts += [formulas.negation(formulas.literal(OBJECT, ("property", name, FALSE))) for name in names]
    parts.append(formulas.literal(OBJECT, ("keys", ("other", names, ()), FALSE)))
    return formulas.conjunction(parts)


def _equal_array(formulas: Formulas, inner: list[int]) -> int:
    parts = [formulas.types(ARRAY)]
    parts += [formulas.literal(ARRAY, ("item", index, formula)) for index, formula in enumerate(inner)]
    if inner:
        parts.append(formulas.literal(ARRAY, ("min_items", len(inner))))
    parts.append(formulas.literal(ARRAY, ("max_items", len(inner))))
    return formulas.conjunction(parts)
