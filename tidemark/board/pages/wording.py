"""Values as people read them; unknown is a dash."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from markupsafe import Markup, escape

from tidemark.alerting.delivery.messages import Phrase, amount
from tidemark.alerting.delivery.templates import CHINESE_FILE
from tidemark.lake.bounds import bound_of, marked
from tidemark.lake.tables import TABLES
from tidemark.rocketmq.names import READ_PERMISSION, WRITE_PERMISSION
from tidemark.settings.times import in_words

FILES = [CHINESE_FILE, *sorted((Path(__file__).parent.parent / "templates").glob("zh*.yaml"))]

CHINESE: dict[str, str] = {
    text: words
    for file in FILES
    for text, words in yaml.safe_load(file.read_text(encoding="utf-8")).items()
}
"""English to Chinese; other texts stay in English."""


UNKNOWN = "–"

SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
"""Units of bytes, each 1,024 times the one before."""

PIECE = 24
"""Characters of a name without a separator that stand in one line at least."""

_PIECES = re.compile(r"[^/_@.:#%-]*[/_@.:#%-]+|[^/_@.:#%-]+")

NUMBERS = (
    frozenset(
        column.name
        for table in TABLES.values()
        for column in table.columns
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    )
    | {"groups", "brokers", "messages"}
) - {"perm"}
"""Columns of numbers, whose cells are aligned to the right; a permission is shown as words."""

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


NAMES = frozenset(
    ("client_id", "producer_group", "consumer_group", "topic", "broker", "subject",
     "actual_client_id", "expected_client_id", "expectation", "table",
     "differing_topic", "worst_broker", "address", "client_address")
)  # fmt: skip
"""Columns whose values are names, which a line may break at their separators."""

WHY_UNKNOWN = {
    "drain_seconds": "it does not drain at the present rates",
    "loss_in_seconds": "nothing waits, or no store time is known",
    "delay_ms": "the store time of the first unconsumed message is unknown",
    "consume_tps": "two observations are needed",
    "produce_tps": "two observations are needed",
    "clients": "a broker did not report who is online",
    "replica_behind_ms": "no earlier snapshot, or no response of its master",
    "replica_behind_bytes": "its master did not respond",
    "offsets_missing": "only deep snapshots request it",
    "offsets_late": "only deep snapshots request it",
    "offsets_behind": "only deep snapshots request it",
    "reported_at": "only deep snapshots request it",
    "thread_count": "only deep snapshots request it",
    "allocation_strategy": "only deep snapshots request it",
}
"""Why a column may be unknown where the row itself does not tell."""


def why_unknown(name: str, row: Mapping[str, Any]) -> str:
    """Return why a value of a row is unknown, in English; it is the title of its dash."""
    if row.get("complete") is False or row.get("queues_unknown"):
        return "some of its queues were not observed"
    if row.get("consumer_offset", 0) is None and name in ("lag", "delay_ms", "consumer_offset"):
        return "no offset was committed or observed"
    return WHY_UNKNOWN.get(name, "unknown")


def number(value: Any, digits: int = 0) -> str:
    """Return ``12,345`` or ``0.4``; a dash for unknown."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if isinstance(value, float) and value != int(value) and abs(value) < 1000:
        return f"{value:,.{max(1, digits)}f}"
    return f"{round(value):,}"


def duration(seconds: float | None) -> str:
    """Return a duration as `tidemark.settings.times` words it; a dash for unknown."""
    return UNKNOWN if seconds is None or not math.isfinite(seconds) else in_words(seconds)


def milliseconds(value: float | None) -> str:
    """Return a duration that is given in milliseconds."""
    return duration(None if value is None else value / 1000)


def share(value: float | None) -> str:
    """Return ``41%``; a dash for unknown."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.0%}"


def size(value: float | None) -> str:
    """Return a number of bytes as ``512 B`` or ``1.5 MiB``; a dash for unknown."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    unit = next((unit for unit in SIZES if abs(value) < 1024 ** (SIZES.index(unit) + 1)), SIZES[-1])
    scaled = value / 1024 ** SIZES.index(unit)
    return f"{scaled:.1f}".removesuffix(".0") + f" {unit}"


def instant(value: datetime | None) -> str:
    """Return ``2026-11-19 08:00:00``, in UTC."""
    return UNKNOWN if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(value: datetime | None) -> str:
    """Return an instant as an address holds it."""
    return "" if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def measured(name: str, row: Mapping[str, Any], unit: str, phrase: Phrase) -> str:
    """Return a number of an incident in the unit of its rule, with the mark of a bound."""
    value = row[name]
    return UNKNOWN if value is None else amount(value, unit, phrase, bound_of(name, row))


def breaks(text: Any) -> Markup:
    """Return a name that a line may break at its separators, and inside of a long piece only."""
    pieces = (piece[place : place + PIECE] for piece in _PIECES.findall(str(text))
              for place in range(0, len(piece), PIECE))  # fmt: skip
    return Markup("<wbr>").join(pieces)


def backticks(text: str) -> Markup:
    """Return a text whose parts between backticks are code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


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
            return share(value)
        if name.endswith("_bytes"):
            return size(value)
        return str(value) if name.endswith("_id") else number(value, 2 if "tps" in name else 0)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return str(value)
