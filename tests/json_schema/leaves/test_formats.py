"""Formats: the official suite, the format checkers of `jsonschema`, and random members."""

import calendar
import json
import os
import random
import re
import unicodedata
from collections import defaultdict
from pathlib import Path

import jsonschema
import pytest

from schemac.budget import Budget
from schemac.errors import BudgetExceeded
from schemac.frontend.json_schema.formats import FORMATS, format_complement, format_language, is_known
from schemac.ir.dfa import Dfa

DRAFTS = {
    "draft4": jsonschema.Draft4Validator,
    "draft6": jsonschema.Draft6Validator,
    "draft7": jsonschema.Draft7Validator,
    "draft2019-09": jsonschema.Draft201909Validator,
    "draft2020-12": jsonschema.Draft202012Validator,
}
LATEST = "draft2020-12"
SUITE = Path(
    os.environ.get("SCHEMAC_SUITE")
    or Path(__file__).resolve().parents[4] / "shared" / "data" / "json-schema-test-suite"
)

#: Valid texts of the suite that are not written, with the reason. Nothing invalid may be accepted, ever.
A_LABELS = "xn--"  # Punycode
LEFT_OUT = {
    "ecmascript-regex": ["(?<name>x)", "(?<n>a)\\k<n>", "(?<=a+)b", "[]", "[^]", "\\cA"],  # not common to engines
    "idn-email": ["user@cafe\u0301.com"],  # not in Normalization Form C
    "idn-hostname": [
        f"παράδειγμαπαράδειγμαπαράδειγμαπαράδειγμαπαράδειγμαπα{dot}com" for dot in ".\u3002\uff0e\uff61"
    ],  # a label of 52 code points
    "date-time": [],
}


def language(name: str, draft: str = LATEST) -> Dfa:
    found = format_language(name, draft)
    assert found is not None
    return found


def suite_cases() -> list[tuple[str, str, str, str, bool]]:
    """(draft, file, format, text, valid) for each string of the suite's format tests."""
    cases = []
    for path in sorted(SUITE.glob("tests/*/optional/format/*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            for test in group["tests"]:
                if isinstance(test["data"], str):
                    name = group["schema"]["format"]
                    cases.append((path.parts[-4], path.stem, name, test["data"], test["valid"]))
    return cases


@pytest.mark.data
def test_official_suite() -> None:
    cases = suite_cases()
    if not cases:
        pytest.skip(f"the official suite is not at {SUITE}; set SCHEMAC_SUITE to where it is")
    over, under, denied = [], [], []
    for draft, file, name, text, valid in cases:
        found = format_language(name, draft)
        if found is None:
            assert file == "unknown"
            continue
        if found.accepts(text) and not valid:
            over.append((draft, file, text))
        if not found.accepts(text) and valid and A_LABELS not in text and text not in LEFT_OUT.get(file, ()):
            under.append((draft, file, text))
        others = format_complement(name, draft)
        assert others is not None
        if others.accepts(text) and valid:
            denied.append((draft, file, text))
    assert over == []
    assert under == []
    assert denied == []


class Sampler:
    """Draws members of a language: a random walk that heads for an end after some length."""

    def __init__(self, found: Dfa) -> None:
        self.found = found
        self.edges: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        before: dict[int, list[int]] = defaultdict(list)
        for state, low, high, target in found.edges():
            self.edges[state].append((low, high, target))
            before[target].append(state)
        queue = found.accepting_states()
        self.distance = dict.fromkeys(queue, 0)
        for state in queue:
            for source in before[state]:
                if source not in self.distance:
                    self.distance[source] = self.distance[state] + 1
                    queue.append(source)

    def draw(self, rng: random.Random, length: int) -> str:
        state, chars = 0, ""
        while True:
            edges = self.edges[state]
            if self.found.accepting[state] and (not edges or len(chars) >= length or rng.random() < 0.05):
                return chars
            if len(chars) >= length:
                least = min(self.distance[edge[2]] for edge in edges)
                edges = [edge for edge in edges if self.distance[edge[2]] == least]
            low, high, target = rng.choice(edges)
            code = rng.choice([low, high, rng.randint(low, high), rng.randint(low, high)])
            if 0xD800 <= code <= 0xDFFF:
                continue
            chars += chr(code)
            state = target


def trusted(name: str, text: str) -> bool:
    """Whether the checker of `jsonschema` is known to be right about this text."""
    if name in ("date-time", "time"):
        return ":60" not in text  # leap seconds are not implemented
    if name == "relative-json-pointer":
        return re.match("[0-9]*0[0-9]", text) is None  # "100" is taken for a leading zero
    if name == "uri-template":
        return "{" not in text  # prefixes and percent-encoded names are refused
    return "[V" not in text  # ABNF ignores case, RFC 5234 section 2.3


#: What `jsonschema` checks here; more with its extra packages.
CHECKED = [(name, draft) for name in FORMATS for draft, kind in DRAFTS.items() if name in kind.FORMAT_CHECKER.checkers]


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
@pytest.mark.parametrize(("name", "draft"), CHECKED)
def test_members_conform_by_jsonschema(name: str, draft: str) -> None:
    checker = DRAFTS[draft].FORMAT_CHECKER
    rng = random.Random(name + draft)
    sampler = Sampler(language(name, draft))
    texts = [sampler.draw(rng, rng.choice([5, 20, 60, 200])) for _ in range(60)]
    assert [text for text in texts if trusted(name, text) and not checker.conforms(text, name)] == []


@pytest.mark.parametrize("name", FORMATS)
def test_a_text_cannot_conform_and_certainly_not_conform(name: str) -> None:
    for draft in DRAFTS:
        others = format_complement(name, draft)
        assert others is not None
        assert language(name, draft).intersect(others).is_empty
        if FORMATS[name].exact:
            assert others == language(name, draft).complement()


def test_every_day_of_the_calendar() -> None:
    found = language("date")
    for year in (1, 4, 99, 100, 400, 999, 1000, 1583, 1900, 1999, 2000, 2023, 2024, 2100, 2400, 9996, 9999):
        for month in range(14):
            days = calendar.monthrange(year, month)[1] if 1 <= month <= 12 else 0
            for day in (0, 1, 9, 10, 28, 29, 30, 31, 32):
                assert found.accepts(f"{year:04d}-{month:02d}-{day:02d}") == (1 <= day <= days)
    assert not found.accepts("0000-01-01")


def test_leap_seconds_are_at_the_end_of_a_utc_day() -> None:
    times = language("time")
    for offset in range(-47 * 30, 47 * 30 + 1, 30):
        text = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
        local = (1439 + offset) % 1440
        for minute, expected in ((local, True), ((local + 1) % 1440, False), ((local + 60) % 1440, False)):
            assert times.accepts(f"{minute // 60:02d}:{minute % 60:02d}:60{text}") == expected
    moments = language("date-time")
    for text, expected in {
        "2016-12-31T23:59:60Z": True,
        "2016-06-30T23:59:60.5z": True,
        "2016-07-01T09:59:60+10:00": True,
        "2017-01-01T00:59:60+01:00": True,
        "2016-12-31T18:59:60-05:00": True,
        "2016-12-31T23:59:60+01:00": False,
        "2016-12-30T23:59:60Z": False,
        "2016-03-31T23:59:60Z": False,
        "2016-12-31T00:59:60+01:00": False,
    }.items():
        assert moments.accepts(text) == expected, text


def test_host_names_are_counted() -> None:
    for draft in DRAFTS:
        found = language("hostname", draft)
        for text, expected in {
            "a" * 63: True,
            "a" * 64: False,
            ".".join(["a" * 63] * 3): True,
            ".".join(["a"] * 34): True,
            ".".join(["a"] * 35): False,  # valid, but more than 63 characters after the second dot
            ".".join(["a" * 63] * 4): False,
            "a-b.c--d.0": True,
            "ab--cd.example": True,
            "a-.b": False,
            "xn--abc.de": draft in ("draft4", "draft6"),
            "de.XN--abc": draft in ("draft4", "draft6"),
            "xn-abc.axn--b": True,
        }.items():
            assert found.accepts(text) == expected, (draft, text)
        assert found.max_length == 191


def test_mail_addresses_are_counted() -> None:
    found = language("email")
    assert found.accepts("a" * 64 + "@example.com")
    assert not found.accepts("a" * 65 + "@example.com")
    assert found.accepts('"a b\\"@"@[IPv6:::1]')
    assert not found.accepts("é@example.com")
    international = language("idn-email")
    assert international.accepts("é" * 32 + "@例.jp")
    assert not international.accepts("é" * 33 + "@例.jp")


def test_international_host_names_are_normal_and_short_enough() -> None:
    sampler = Sampler(language("idn-hostname"))
    rng = random.Random(5)
    for _ in range(300):
        text = sampler.draw(rng, rng.choice([3, 10, 40]))
        labels = re.split("[.\u3002\uff0e\uff61]", text)
        assert unicodedata.normalize("NFC", text) == text
        encoded = [label if label.isascii() else "xn--" + label.encode("punycode").decode() for label in labels]
        assert all(0 < len(label) <= 63 for label in encoded)
        assert len(".".join(encoded)) <= 253


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
def test_regexes_are_regexes() -> None:
    found = language("regex")
    sampler = Sampler(found)
    rng = random.Random(6)
    for _ in range(300):
        re.compile(sampler.draw(rng, rng.choice([3, 10, 40])))
    for good in (r"^[a-z0-9_-]+$", r"^(abc|def)?\d{3}-\d{4}$", "(?!x)[^/]*", "((a|b)+c){2,3}?", r"[\w.-]+@[\w-]{2,}"):
        assert found.accepts(good)
    for bad in ("(", "a)", "[", "[z-a]", "[9-0]", "a{2,1}", "a**", "*", "a{1", r"\a", r"\1", "(?i)a", "(?P<n>a)"):
        assert not found.accepts(bad)


def test_unknown_formats_assert_nothing() -> None:
    for name in ("int32", "float", "url", "", "DATE"):
        assert format_language(name, LATEST) is None
        assert format_complement(name, LATEST) is None
        assert not is_known(name, LATEST)


def test_the_budget_is_charged_whether_cached_or_not() -> None:
    for _ in range(2):
        with pytest.raises(BudgetExceeded, match="regex states"):
            format_language("hostname", LATEST, Budget({"regex_states": 100}))
