"""Marks of channels: how far each has been notified, by the newest incident considered for it.

A process that delivers again after days reads from there, so it misses no incident that opened and
resolved meanwhile. Without marks every channel is new.
"""

import json
from collections.abc import Mapping
from datetime import datetime

from lake.state import State

_NAME = "delivery.json"

Marks = Mapping[str, datetime]
"""Channel to ``alerting.incidents.written_at``; earlier incidents have been considered."""


def read_marks(state: State, now: datetime) -> dict[str, datetime]:
    """Return the marks; none where they are missing or damaged, which repeats nothing.

    Args:
        state: the shared state of all processes.
        now: the present. A later mark is left out, because the clock was set back, and incidents
            written since would count as considered.
    """
    try:
        found = json.loads(state.read(_NAME) or "{}")
        marks = {name: datetime.fromisoformat(mark) for name, mark in found["channels"].items()}
        return {name: mark for name, mark in marks.items() if mark <= now}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_marks(state: State, marks: Marks) -> None:
    """Replace the marks; the caller holds the lease of deliveries."""
    channels = {name: mark.isoformat() for name, mark in sorted(marks.items())}
    state.write(_NAME, json.dumps({"channels": channels}, indent=1))
