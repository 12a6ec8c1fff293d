"""The table of JSON Schema keywords by draft in `docs/json-schema.md`, made from the frontend's own list.

    python -m benchmarks.keyword_table            # print it
    python -m benchmarks.keyword_table --write    # put it into the document
    python -m benchmarks.keyword_table --check    # exit code 1 if the document has another one
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from schemac.frontend.json_schema.keywords import DRAFTS, KEYWORDS, known

DOCUMENT = Path(__file__).parent.parent / "docs" / "json-schema.md"
BEGIN = "<!-- keyword table: begin (python -m benchmarks.keyword_table --write) -->"
END = "<!-- keyword table: end -->"
#: What the table says of each role; a keyword that a draft does not know gets a dash.
MARKS = {"assert": "yes", "note": "note", "name": "name", "refuse": "refused"}


def rows() -> Iterator[tuple[str, ...]]:
    """One row per keyword: its name, and a mark for each draft."""
    for name in KEYWORDS:
        marks = []
        for draft in range(len(DRAFTS)):
            keyword = known(name, draft)
            marks.append("-" if keyword is None else MARKS[keyword.role])
        yield (f"`{name}`", *marks)


def table() -> str:
    """The table in Markdown."""
    heading = ("keyword", *(draft.removeprefix("draft") for draft in DRAFTS))
    lines = [heading, ("---",) * len(heading), *rows()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def replaced(text: str) -> str:
    """The document with a fresh table.

    Raises:
        ValueError: the document lacks the marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{DOCUMENT.name} lacks the marks of the keyword table")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


@click.command()
@click.option("--write", is_flag=True, help="Put it into the document.")
@click.option("--check", is_flag=True, help="Fail if the document has another one.")
def main(write: bool, check: bool) -> None:
    """The table of JSON Schema keywords by draft."""
    if not (write or check):
        click.echo(table())
        return
    text = DOCUMENT.read_text("utf-8")
    fresh = replaced(text)
    if write:
        DOCUMENT.write_text(fresh, "utf-8")
    elif fresh != text:
        click.echo(f"{DOCUMENT.name} is out of date: python -m benchmarks.keyword_table --write", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
