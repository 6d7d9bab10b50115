"""Parts of a window: whole hours that hold no more rows than one run should compute.

A part bounds the memory, the disk and the time that Spark needs, whatever the range is.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from lake.catalog import Lake
from lake.tables import raw
from lake.window import HOUR, Window

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
    start, taken = window.start, 0
    hour = window.start
    while hour < window.end:
        more = rows.get(hour, 0)
        if hour > start and taken + more > PART_ROWS:
            yield Window(start, hour)
            start, taken = hour, 0
        taken += more
        hour += HOUR
    yield Window(start, window.end)
