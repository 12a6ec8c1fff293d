"""Random walks through masks: is every text that a program allows valid?

    python -m benchmarks.walks --data FILE.jsonl.gz --tokenizer tekken --schemas 200 --texts 20 --seed 1

Each schema of the sample is compiled and linked, texts are drawn token by token from its masks alone, and each is
checked by `jsonschema` with the draft's own format checker. A text that cannot be finished would be a failure too.
"""

from __future__ import annotations

import collections
import functools
import gzip
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import click
import jsonschema

import schemac
from schemac.errors import SchemacError

#: Where ECMA-262 (21.2.2.8, 21.2.2.12, 21.2.2.6) and Python's `re` read the same characters differently.
_ECMA = {
    ".": "[^\\n\\r\\u2028\\u2029]",
    "$": "(?!\\n)\\Z",
    "\\d": "[0-9]",
    "\\D": "[^0-9]",
    "\\w": "[0-9A-Za-z_]",
    "\\W": "[^0-9A-Za-z_]",
}
_IN_CLASS = {"\\d": "0-9", "\\w": "0-9A-Za-z_"}


@functools.cache
def ecma_pattern(pattern: str) -> str:
    """An ECMA-262 pattern as Python's `re` has to be told it; jsonschema hands patterns to `re` as they are."""
    parts = []
    inside = False
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        parts.append(_IN_CLASS.get(part, part) if inside else _ECMA.get(part, part))
        inside = part == "[" or (inside and part != "]")
    return "".join(parts)


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, str) and not re.search(ecma_pattern(pattern), instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(check: Any, patterns: Any, instance: Any, _: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, dict):
        for pattern, subschema in patterns.items():
            for key, value in instance.items():
                if re.search(ecma_pattern(pattern), key):
                    yield from check.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(check: Any, extra: Any, instance: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, dict):
        patterns = [ecma_pattern(pattern) for pattern in schema.get("patternProperties", {})]
        for key, value in instance.items():
            if key in schema.get("properties", {}) or any(re.search(pattern, key) for pattern in patterns):
                continue
            yield from check.descend(value, extra, path=key)


def validator(schema: Any) -> jsonschema.protocols.Validator:
    """A validator of the schema's own draft that asserts formats, reads patterns as ECMA-262 and fetches nothing."""
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    keywords = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    exact = jsonschema.validators.extend(kind, keywords)
    return exact(schema, format_checker=kind.FORMAT_CHECKER)


def sampled_cases(path: str, count: int, seed: int) -> list[dict[str, Any]]:
    """A seeded sample of the cases of a MaskBench file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    random.Random(seed).shuffle(cases)
    return cases[:count]


@click.command()
@click.option("--data", required=True, help="MaskBench cases, .jsonl.gz.")
@click.option("--tokenizer", default="tekken", show_default=True)
@click.option("--schemas", default=200, show_default=True)
@click.option("--texts", default=20, show_default=True, help="Texts per schema.")
@click.option("--seed", default=1, show_default=True)
@click.option("--timeout", default=60.0, show_default=True, help="Seconds for one compile.")
def main(data: str, tokenizer: str, schemas: int, texts: int, seed: int, timeout: float) -> None:
    """Draw random texts of real schemas and validate them."""
    vocabulary = schemac.load_vocabulary(tokenizer)
    refused: collections.Counter[str] = collections.Counter()
    failures = drawn = 0
    for case in sampled_cases(data, schemas, seed):
        try:
            compiled = schemac.compile(json.dumps(case["schema"]), timeout=timeout)
            compiled = schemac.link(compiled, vocabulary, timeout=timeout)
        except SchemacError as error:
            refused[f"{type(error).__name__} {error.construct or ''}".strip()] += 1
            continue
        check = validator(case["schema"])
        for text in schemac.sample(compiled, texts, seed, vocabulary):
            drawn += 1
            reason = objection(check, text)
            if reason is not None:
                failures += 1
                click.echo(f"{case['id']}: {text[:300]!r}: {reason}")
    click.echo(f"{drawn} texts of {schemas - sum(refused.values())} schemas, {failures} failures")
    for name, count in refused.most_common():
        click.echo(f"  refused: {count} {name}")
    raise SystemExit(1 if failures else 0)


def objection(check: jsonschema.protocols.Validator, text: bytes) -> str | None:
    """Why a text is not valid, or None."""
    try:
        error = next(iter(check.iter_errors(json.loads(text))), None)
    except ValueError as not_json:
        return f"not JSON: {not_json}"
    return None if error is None else f"{error.message[:200]} at {error.json_path}"


if __name__ == "__main__":
    main()
