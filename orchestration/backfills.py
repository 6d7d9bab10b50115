"""Progress of backfills, by which a stopped backfill is resumed.

Each part of a backfill (`lake.parts`) is a run, a tick may run between two of them, and a killed
backfill repeats at most one. The shared state records the computed parts until the backfill is
complete, so that another host can continue it.
"""

import json
from datetime import datetime

from lake.state import State
from lake.window import Window

_NAME = "backfill.json"


def remaining(state: State, window: Window) -> Window:
    """Return the remaining hours of a backfill: all, unless an equal backfill was stopped.

    If the state is unreadable, all hours remain: to compute an hour again changes nothing.
    """
    try:
        stopped = json.loads(state.read(_NAME) or "{}")
        if {"start": stopped.get("start"), "end": stopped.get("end")} != _hours(window):
            return window
        return Window(max(window.start, datetime.fromisoformat(stopped["done"])), window.end)
    except (ValueError, LookupError, TypeError, AttributeError):
        return window


def note(state: State, window: Window, done: datetime) -> None:
    """Record up to which instant a backfill is done; a complete one has no record."""
    left = {} if done >= window.end else {**_hours(window), "done": done.isoformat()}
    state.write(_NAME, json.dumps(left))


def _hours(window: Window) -> dict[str, str]:
    return {"start": window.start.isoformat(), "end": window.end.isoformat()}
