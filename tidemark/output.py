"""How rows are printed: JSON for programs, a table for people."""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import typer

WIDE = 200

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


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON with instants as ISO 8601 UTC; what JSON has no number for is not known: null."""
    return json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


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


def print_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Prints rows as a table with these columns; what is not known is a dash."""
    typer.echo(table_text(rows, columns))


def table_text(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], title: str = "") -> str:
    """The rows as a table, as wide as the terminal."""
    from rich.console import Console

    # Into a pipe or a file nothing has to fit a screen.
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    with console.capture() as captured:
        console.print(table(rows, columns, title))
    return captured.get().rstrip("\n")


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], title: str = "") -> Any:
    """The rows as a rich table."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left")
    rows = list(rows)
    for name in columns:
        number = any(isinstance(row.get(name), int | float) for row in rows)
        drawn.add_column(
            HEADINGS.get(name, name.replace("_", " ")),
            justify="right" if number else "left",
            no_wrap=True,
        )
    for row in rows:
        drawn.add_row(*(Text(_shown(name, row.get(name))) for name in columns))
    return drawn


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
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
    return str(value)


def duration(milliseconds: int) -> str:
    """``850 ms``, ``12.3 s``, ``4 m 10 s``, ``2 h 5 m``, ``3 d 4 h``."""
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
