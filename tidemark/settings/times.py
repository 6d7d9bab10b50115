"""Durations and instants that a person wrote: ``90s``, ``2h``, ISO 8601 with UTC as its zone."""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)")

LONGEST = timedelta(days=365)


def seconds(value: Any) -> float:
    """Return a duration in seconds.

    Args:
        value: text like ``90s``, ``5m``, ``1.5h`` or ``1d``; without a unit it counts seconds, as
            a number does.

    Raises:
        ValueError: it is no duration, or a longer one than `LONGEST`.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = str(value) if is_number else value
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if not match:
        raise ValueError(f"a duration is wanted, e.g. 90s, 5m, 2h or 1d, not {value!r}")
    total = float(match[1]) * _UNITS[match[2]]
    if total > LONGEST.total_seconds():
        raise ValueError(f"a duration of at most {LONGEST.days}d is wanted, not {value!r}")
    return total


def positive_seconds(value: Any) -> float:
    """Return a duration longer than nothing in seconds; see `seconds`.

    Raises:
        ValueError: it is no duration, or is 0.
    """
    total = seconds(value)
    if not total:
        raise ValueError(f"a duration is wanted, e.g. 90s, 5m, 2h or 1d, not {value!r}")
    return total


def in_words(seconds: float) -> str:
    """Return ``850 ms``, ``12.3 s``, ``4 m 10 s`` or ``3 d 4 h``.

    Raises:
        ValueError: it is not finite.
    """
    if not math.isfinite(seconds):
        raise ValueError(f"{seconds} s is no duration")
    if seconds < 0:
        return f"-{in_words(-seconds)}"
    if seconds == 0:
        return "0 s"
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 60:
        return f"{round(seconds, 1):g} s"
    whole = round(seconds)
    size, name, small, low = next(
        step
        for step in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))
        if whole >= step[0]
    )
    rest = whole % size // small
    return f"{whole // size} {name} {rest} {low}" if rest else f"{whole // size} {name}"


def utc_instant(text: str) -> datetime:
    """Return an instant in UTC, which is also the zone of a text without one.

    Raises:
        ValueError: the text is no ISO 8601 instant.
        OverflowError: its year is one in its own zone, and none in UTC.
    """
    instant = datetime.fromisoformat(text)
    return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)
