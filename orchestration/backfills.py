"""Backfills in parts: whole hours of bounded size, one run each, resumed where they were stopped.

A part bounds the memory of Spark whatever the range, a tick may run between two parts, and a killed
backfill repeats at most one part. What is done stands in the shared state until the backfill is
complete, so that another host goes on with it.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime

from lake.catalog import Lake
from lake.state import State
from lake.tables import raw
from lake.window import HOUR, Window

_NAME = "backfill.json"

PART_ROWS = 3_000_000
"""Offsets of queues and consumers that a part holds at most, unless a single hour holds more."""

MEASURED = (raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS)
"""The tables whose rows are counted: all others are small compared with them."""


def parts(lake: Lake, window: Window) -> list[Window]:
    """Return consecutive windows of whole hours that make up a window of whole hours.

    Args:
        lake: the tables.
        window: the hours to compute.
    """
    rows: dict[datetime, int] = {}
    for table in MEASURED:
        for hour, count in lake.rows_by_hour(table).items():
            rows[hour] = rows.get(hour, 0) + count
    return list(_parts(window, rows))


def _parts(window: Window, rows: Mapping[datetime, int]) -> Iterator[Window]:
    start, held = window.start, 0
    hour = window.start
    while hour < window.end:
        more = rows.get(hour, 0)
        if hour > start and held + more > PART_ROWS:
            yield Window(start, hour)
            start, held = hour, 0
        held += more
        hour += HOUR
    yield Window(start, window.end)


def remaining(state: State, window: Window) -> Window:
    """Return what is left of a backfill of these hours: all, unless one was stopped on its way."""
    stopped = json.loads(state.read(_NAME) or "{}")
    if {"start": stopped.get("start"), "end": stopped.get("end")} != _hours(window):
        return window
    return Window(max(window.start, datetime.fromisoformat(stopped["done"])), window.end)


def note(state: State, window: Window, done: datetime) -> None:
    """Write down up to which instant a backfill is done; nothing is left of a complete one."""
    left = {} if done >= window.end else {**_hours(window), "done": done.isoformat()}
    state.write(_NAME, json.dumps(left))


def _hours(window: Window) -> dict[str, str]:
    return {"start": window.start.isoformat(), "end": window.end.isoformat()}
