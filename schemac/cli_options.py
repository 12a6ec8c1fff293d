"""Options that several commands take, and how they complain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from schemac.budget import DEFAULT_LIMITS, DEFAULT_SECONDS

DRAFTS = ("4", "6", "7", "2019-09", "2020-12")


def complain(text: str, kind: str = "error") -> None:
    """One line on standard error, whatever control characters the text quotes."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    click.echo(f"schemac: {kind}: {shown}", err=True)


def _parse_budget(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    limits = {}
    for value in values:
        name, equals, number = value.partition("=")
        if not equals:
            raise click.BadParameter(f"{value!r} is not NAME=N")
        if name not in DEFAULT_LIMITS:
            raise click.BadParameter(f"there is no budget {name!r}: one of {', '.join(sorted(DEFAULT_LIMITS))}")
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise click.BadParameter(f"{number!r} is not a whole number")
        limits[name] = int(number)
    return limits


def _parse_targets(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    from schemac.codegen.targets import split_target
    from schemac.errors import TargetError

    for value in values:
        try:
            split_target(value)
        except TargetError as error:
            raise click.BadParameter(f"{error.reason} ({error.hint})") from None
    return tuple(dict.fromkeys(values))


tokenizers_option = click.option(
    "--tokenizer",
    "tokenizers",
    metavar="T",
    multiple=True,
    help="Vocabulary to link: tekken, deepseek, qwen or mistral-spm by name, a tokenizer file, or a directory holding "
    "one. May be given several times.",
)
stop_ids_option = click.option(
    "--stop-id",
    "stop_ids",
    metavar="ID",
    multiple=True,
    type=click.IntRange(min=0),
    help="A token that ends a text, in place of those that the tokenizer names. May be given several times.",
)
vocab_size_option = click.option(
    "--vocab-size",
    metavar="N",
    type=click.IntRange(min=1),
    help="Number of the model's logits, where it is larger than the tokenizer.",
)
targets_option = click.option(
    "--target",
    "targets",
    metavar="T",
    multiple=True,
    callback=_parse_targets,
    help="A machine to compile kernels for, such as triton:sm_90, for every linked vocabulary. May be given several "
    "times.",
)
timeout_option = click.option(
    "--timeout",
    metavar="S",
    type=click.FloatRange(min=0),
    default=DEFAULT_SECONDS,
    show_default=True,
    help="Seconds that the compile may take; 0 for no limit.",
)
budget_option = click.option(
    "--budget",
    "limits",
    metavar="NAME=N",
    multiple=True,
    callback=_parse_budget,
    help="Raise or lower one limit: " + ", ".join(f"{name} ({n:,})" for name, n in DEFAULT_LIMITS.items()) + ".",
)


def limits_of_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that bound what a model could repeat for ever in JSON."""
    command = click.option(
        "--digit-limit", metavar="N", type=click.IntRange(min=1), help="The most digits of a number in JSON."
    )(command)
    return click.option(
        "--whitespace-limit",
        metavar="N",
        type=click.IntRange(min=0),
        help="The most whitespace characters in a row in JSON, under --whitespace flexible.",
    )(command)
