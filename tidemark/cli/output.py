"""Output of commands: JSON for programs, tables for people."""

import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from itertools import accumulate
from typing import Any

import typer

from tidemark.host.processes import here, pasteable
from tidemark.lake.bounds import bound_of, marked
from tidemark.settings.yaml_documents import printable

WIDEST = 10_000
"""Characters in a line where no terminal limits them."""

NARROW = 16
"""Characters that a text keeps on a narrow terminal."""

UNKNOWN = "-"

PADDING = 3
"""Characters around a cell and between it and the next."""

HEADINGS = {
    "consumer_group": "group",
    "delay_ms": "delay",
    "queues_unknown": "unknown",
    "queues_never_committed": "uncommitted",
    "message_model": "model",
}
"""Headings where a column's name is longer than a terminal can spare."""


class Format(StrEnum):
    """Forms of output."""

    table = "table"
    json = "json"


_NOT_ASCII = re.compile(r"[^\x20-\x7e\n]")


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Return JSON with instants as ISO 8601 UTC; a number that JSON does not allow is null.

    Control characters and marks of text direction are escaped, because strangers choose names and a
    terminal obeys such characters.
    """
    text = json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False)
    return _NOT_ASCII.sub(_in_json, text)


def _in_json(match: re.Match[str]) -> str:
    return match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1]


def echo(text: str, *, err: bool = False) -> None:
    """Print lines of text for a person, whose shell finds the commands in them.

    Characters that a terminal would obey are escaped.
    """
    lines = pasteable(text, here()).split("\n")
    typer.echo("\n".join(printable(line) for line in lines), err=err)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def print_rows(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    nothing: str,
    width: int | None = None,
) -> None:
    """Print rows as a table with these columns, unknown as a dash; without rows a sentence.

    Args:
        rows: the rows.
        columns: see `table`.
        nothing: the sentence that states that there is none.
        width: characters in a line; those of the terminal unless given.
    """
    rows = list(rows)
    if rows:
        typer.echo(table_text(rows, columns, width=width))
    else:
        echo(nothing)


def table_text(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    title: str = "",
    *,
    width: int | None = None,
) -> str:
    """Return the rows as a table, as wide as the terminal; without one, as wide as needed."""
    from rich.console import Console

    # Into a pipe or a file nothing has to fit a screen.
    console = Console(width=width or (None if sys.stdout.isatty() else WIDEST))
    with console.capture() as captured:
        console.print(table(rows, columns, title, console.width))
    lines = captured.get().rstrip("\n").splitlines()
    return "\n".join(line.rstrip() for line in lines)


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], title: str, width: int) -> Any:
    """Return the rows as a rich table.

    Without room for all columns, texts continue on the next line. If that is not enough, the last
    columns are left out. No number is ever cut.

    Args:
        rows: the rows.
        columns: the columns to show, the most important first.
        title: the line above the table.
        width: characters in a line.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    cells = {name: [_shown(name, row) for row in rows] for name in columns}
    headings = {name: HEADINGS.get(name, name.replace("_", " ")) for name in columns}
    texts = {name for name in columns if any(isinstance(row.get(name), str) for row in rows)}
    widths = {name: max(map(len, (headings[name], *cells[name]))) for name in columns}
    needs = {name: min(size, NARROW) if name in texts else size for name, size in widths.items()}
    fits = list(accumulate(needs[name] + PADDING for name in columns))
    shown = [name for name, end in zip(columns, fits, strict=True) if end <= width]
    left_out = [headings[name] for name in columns[len(shown) :]]
    drawn = Table(
        box=box.SIMPLE_HEAD,
        title=Text(printable(title)) if title else None,
        title_justify="left",
        caption=f"no room for {', '.join(left_out)}" if left_out else None,
        caption_justify="left",
    )
    for name in shown:
        number = any(isinstance(row.get(name), int | float) for row in rows)
        drawn.add_column(
            headings[name],
            justify="right" if number else "left",
            no_wrap=name not in texts,
            overflow="fold",
            min_width=needs[name],
        )
    for number in range(len(rows)):
        drawn.add_row(*(Text(cells[name][number]) for name in shown))
    return drawn


def _shown(name: str, row: Mapping[str, Any]) -> str:
    """Return a value of a row, with the mark of a bound."""
    text = _plain_text(name, row.get(name))
    return text if text == UNKNOWN else marked(text, bound_of(name, row))


def _plain_text(name: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_ms") and isinstance(value, int):
        return duration(value)
    if isinstance(value, int):
        return f"{value:,}" if not name.endswith("_id") else str(value)
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, Mapping):
        return printable(", ".join(f"{key}={item}" for key, item in value.items()))
    return printable(str(value))


def duration(milliseconds: int) -> str:
    """Return ``850 ms``, ``12.3 s``, ``4 m 10 s``, ``2 h 5 m``, ``3 d 4 h``."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for unit, size, below, smaller in (
        ("d", 86400, "h", 3600),
        ("h", 3600, "m", 60),
        ("m", 60, "s", 1),
    ):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {below}"
    return f"{whole} s"


@contextmanager
def steps(name: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that reports a step; on a terminal a spinner shows the newest step.

    Args:
        name: name of the command.
    """
    started = time.monotonic()
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(name) as status:
            yield lambda step: status.update(f"{name}: {step}")
    else:
        yield lambda step: None
    typer.echo(f"{name}: done in {time.monotonic() - started:.1f} s", err=True)


def complain(line: str) -> None:
    """Write a problem of a long command, which then continues."""
    typer.echo(printable(line), err=True)
