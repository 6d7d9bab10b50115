"""Values as people read them; unknown is a dash."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from alerting.delivery.messages import Phrase
from lake.bounds import bound_of, marked
from lake.tables import TABLES
from rocketmq.names import READ_PERMISSION, WRITE_PERMISSION

UNKNOWN = "–"

NUMBERS = frozenset(
    column.name
    for table in TABLES.values()
    for column in table.columns
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
) | {"groups", "brokers", "messages"}
"""Columns of numbers, whose cells are aligned to the right."""

WORDS = frozenset(
    column.name
    for table in TABLES.values()
    for column in table.columns
    if pa.types.is_boolean(column.type)
) | {
    "kind",
    "severity",
    "state",
    "status",
    "health",
    "condition",
    "delay_source",
    "moves",
    "likely_cause",
    "rewound_cause",
    "perm",
    "unreadable_reason",
}
"""Columns whose values are words of a language, and not names."""


def number(value: Any, digits: int = 0) -> str:
    """Return ``12,345`` or ``0.4``; a dash for unknown."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if isinstance(value, float) and value != int(value) and abs(value) < 1000:
        return f"{value:,.{max(1, digits)}f}"
    return f"{round(value):,}"


def duration(seconds: float | None) -> str:
    """Return ``850 ms``, ``12.3 s``, ``4 m 10 s`` or ``3 d 4 h``; a dash for unknown."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds == 0:
        return "0 s"
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, name, small, low in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {name} {rest} {low}" if rest else f"{whole // size} {name}"
    return UNKNOWN


def milliseconds(value: float | None) -> str:
    """Return a duration that is given in milliseconds."""
    return duration(None if value is None else value / 1000)


def instant(value: datetime | None) -> str:
    """Return ``2026-11-19 08:00:00``, in UTC."""
    return UNKNOWN if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(value: datetime | None) -> str:
    """Return an instant as an address holds it."""
    return "" if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def measured(name: str, row: Mapping[str, Any], unit: str, phrase: Phrase) -> str:
    """Return a number of an incident in the unit of its rule, with the mark of a bound."""
    return marked(_in_unit(row[name], unit, phrase), bound_of(name, row))


def _in_unit(value: float | None, unit: str, phrase: Phrase) -> str:
    if value is None or unit not in ("seconds", "share"):
        text = number(value, 2)
        return text if value is None or not unit else phrase(f"{{number}} {unit}", number=text)
    return duration(value) if unit == "seconds" else f"{value:.0%}"


def permission(value: int) -> str:
    """Return the permission of a topic: ``read and write``, ``read``, ``write`` or ``closed``."""
    bits = ((READ_PERMISSION, "read"), (WRITE_PERMISSION, "write"))
    return " and ".join(word for bit, word in bits if value & bit) or "closed"


def cell(name: str, row: Mapping[str, Any]) -> str:
    """Return a value of a row, by the unit in its column's name, with the mark of a bound.

    Pages show the numbers of rows by this function only: it takes the row, so that no number is
    shown without its mark. Unknown, and a value that is no number, is a dash.
    """
    text = _plain(name, row[name])
    return text if text == UNKNOWN else marked(text, bound_of(name, row))


def _plain(name: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, int | float):
        if name == "perm":
            return permission(int(value))
        if name.endswith("_ms"):
            return milliseconds(value)
        if name.endswith("_seconds"):
            return duration(value)
        if name.endswith("_ratio"):
            return f"{value:.0%}"
        return str(value) if name.endswith("_id") else number(value, 2 if "tps" in name else 0)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return str(value)
