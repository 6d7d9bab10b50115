"""Parts of a window, and the rows around it that a run replaces, as data files divide them.

Iceberg replaces rows by a condition only where every row of a data file matches it, or none. After
compaction a file contains the rows of many runs.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.schema import Table
from tidemark.lake.tables import raw

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


_EPOCH = datetime.fromtimestamp(0, UTC)


def rows_outside(lake: Lake, table: Table, window: Window, around: Window) -> int:
    """Return how many rows a table has around a window and not in it."""
    if around == window:
        return 0
    around_rows, inside = (
        lake.read(table, value, columns=(table.instant,)).num_rows for value in (around, window)
    )
    return around_rows - inside


def around_files(lake: Lake, table: Table, window: Window) -> Window:
    """Return the smallest window around another that cuts through no data file of a table.

    A data file holds rows of a single hour, so the result reaches to whole hours at most.
    """
    with lake.scanned(table, window.whole_hours()) as scan:
        schema = scan.projection()
        spans = [_span(schema, table, task.file) for task in scan.plan_files()]
    around = window
    while True:
        cut = [span for span in spans if span.start < around.end and around.start < span.end]
        wider = Window(
            min([around.start, *(span.start for span in cut)]),
            max([around.end, *(span.end for span in cut)]),
        )
        if wider == around:
            return around
        around = wider


def _span(schema: Schema, table: Table, file: DataFile) -> Window:
    """Return the window from the first to the last row of a file, by its metadata."""
    instant = schema.find_field(table.instant)
    first, last = (
        _EPOCH + timedelta(microseconds=from_bytes(instant.field_type, bounds[instant.field_id]))
        for bounds in (file.lower_bounds, file.upper_bounds)
    )
    return Window.through(first, last)
