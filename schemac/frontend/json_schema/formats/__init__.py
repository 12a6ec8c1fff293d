"""Formats as languages over code points (2020-12 validation, section 7.3).

A format is known as two languages: the texts that certainly conform, which is what is written, and the texts that
possibly conform, whose complement is what ``not`` may write. They differ only where no small automaton knows exactly.
Every language comes from the grammar of its RFC, is built on first use, and kept for the life of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from schemac.budget import Budget
from schemac.frontend.json_schema.formats import dates, expressions, identifiers, international, internet, uri
from schemac.frontend.json_schema.formats.build import full_match
from schemac.ir.dfa import CODE_POINTS, Dfa

__all__ = ["FORMATS", "Format", "format_complement", "format_language", "is_known"]

Source = str | Callable[[], Dfa]


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes:
        texts: the conforming texts, as a pattern or a function that builds them.
        at_most: the texts that may conform, for a format that is not exact; None if anything may.
        exact: whether `texts` is all there is.
    """

    texts: Source
    at_most: Source | None = None
    exact: bool = True


FORMATS: dict[str, Format] = {
    "date": Format(dates.DATE, dates.DATE_AT_MOST, exact=False),
    "date-time": Format(dates.DATE_TIME, dates.DATE_TIME_AT_MOST, exact=False),
    "duration": Format(dates.DURATION),
    "email": Format(international.emails, internet.EMAIL_AT_MOST, exact=False),
    "hostname": Format(lambda: internet.host_names(a_labels=False), internet.HOSTNAME_AT_MOST, exact=False),
    "idn-email": Format(international.idn_emails, internet.EMAIL_AT_MOST, exact=False),
    "idn-hostname": Format(international.idn_host_names, international.IDN_HOSTNAME_AT_MOST, exact=False),
    "ipv4": Format(internet.IPV4),
    "ipv6": Format(internet.IPV6),
    "iri": Format(uri.IRI),
    "iri-reference": Format(uri.IRI_REFERENCE),
    "json-pointer": Format(identifiers.JSON_POINTER),
    "regex": Format(expressions.regexes, exact=False),
    "relative-json-pointer": Format(
        identifiers.RELATIVE_JSON_POINTER, identifiers.RELATIVE_JSON_POINTER_AT_MOST, exact=False
    ),
    "time": Format(dates.TIME, dates.TIME_AT_MOST, exact=False),
    "uri": Format(uri.URI),
    "uri-reference": Format(uri.URI_REFERENCE),
    "uri-template": Format(uri.URI_TEMPLATE, uri.URI_TEMPLATE_AT_MOST, exact=False),
    "uuid": Format(internet.UUID),
}


def is_known(name: str, draft: str) -> bool:
    """Whether a draft asserts a format of this name; all drafts here know all of them."""
    del draft
    return name in FORMATS


def format_language(name: str, draft: str, budget: Budget | None = None) -> Dfa | None:
    """Texts that conform to a format.

    Args:
        name: value of the keyword ``format``.
        draft: a draft name, as in `keywords.DRAFTS`.
        budget: pays one ``regex_states`` per state of the result.

    Returns:
        A language over code points, or None if the format is not known (such formats assert nothing).
    """
    if not is_known(name, draft):
        return None
    return _paid(_texts(name, draft in _PLAIN_HOST_NAMES), name, budget)


def format_complement(name: str, draft: str, budget: Budget | None = None) -> Dfa | None:
    """Texts that certainly do not conform to a format; arguments and result as for `format_language`."""
    if not is_known(name, draft):
        return None
    return _paid(_other_texts(name), name, budget)


#: Drafts whose host names are those of RFC 1034, without a word on internationalized ones.
_PLAIN_HOST_NAMES = ("draft4", "draft6")


@cache
def _texts(name: str, plain_host_names: bool) -> Dfa:
    if name == "hostname" and plain_host_names:
        return internet.host_names(a_labels=True)
    return _build(FORMATS[name].texts)


@cache
def _other_texts(name: str) -> Dfa:
    known = FORMATS[name]
    if known.exact:
        return _texts(name, plain_host_names=False).complement()
    return Dfa.empty(CODE_POINTS) if known.at_most is None else _build(known.at_most).complement()


def _build(source: Source) -> Dfa:
    return full_match(source) if isinstance(source, str) else source()


def _paid(language: Dfa, name: str, budget: Budget | None) -> Dfa:
    if budget is not None:
        budget.spend("regex_states", language.size, construct=f"format: {name}")
    return language
