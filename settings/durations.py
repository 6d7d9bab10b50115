"""The one grammar of durations: ``90s``, ``5m``, ``1.5h``, ``1d``, or a number of seconds."""

import re
from datetime import timedelta
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
    found = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if not found:
        raise ValueError(f"a duration is wanted, e.g. 90s, 5m, 2h or 1d, not {value!r}")
    total = float(found[1]) * _UNITS[found[2]]
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
