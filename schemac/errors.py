"""What can go wrong between a source and a package.

Three kinds are kept apart: the source is at fault (`SourceError`, `UnsupportedError`, `EmptyLanguageError`), a
limit was reached (`BudgetExceeded`), or something beside the source is at fault (`VocabularyError`, `LinkError`,
`TargetError`).
"""

from __future__ import annotations

from schemac_runtime.errors import DeviceError, MatcherError, PackageError, SchemacError

__all__ = [
    "BudgetExceeded",
    "DeviceError",
    "EmptyLanguageError",
    "LinkError",
    "MatcherError",
    "PackageError",
    "SchemacError",
    "SourceError",
    "TargetError",
    "UnsupportedError",
    "VocabularyError",
]


class SourceError(SchemacError):
    """The source is not what it claims to be: bad JSON, a malformed pattern, an undefined rule."""


class UnsupportedError(SchemacError):
    """The source is legal and cannot be lowered exactly; nothing is approximated instead."""


class EmptyLanguageError(SchemacError):
    """No text satisfies the source, so that no mask could ever allow a token."""


class VocabularyError(SchemacError):
    """A tokenizer file is missing, unreadable or inconsistent."""


class LinkError(SchemacError):
    """The automaton cannot be bound to this vocabulary without dead ends."""


class TargetError(SchemacError):
    """A target is unknown, cannot serve this program, or its compiler is missing or fails."""


class BudgetExceeded(SchemacError):
    """A compile needed more than its budget allows.

    Attributes:
        budget: the name of the budget, as in ``--budget NAME=N``.
        needed: how much had been asked for in all.
        allowed: the limit.
    """

    def __init__(
        self, budget: str, needed: float, allowed: float, *, place: str | None = None, construct: str | None = None
    ) -> None:
        flag = "--timeout S" if budget == "seconds" else f"--budget {budget}=N"
        super().__init__(
            f"the budget of {_amount(allowed)} {budget.replace('_', ' ')} is used up ({_amount(needed)} needed so far)",
            place=place,
            construct=construct,
            hint=f"raise it with {flag}, or simplify this part of the source",
        )
        self.budget = budget
        self.needed = needed
        self.allowed = allowed


def _amount(number: float) -> str:
    """A count with thousands marked, or seconds."""
    return f"{number:,}" if isinstance(number, int) else f"{number:.4g}"
