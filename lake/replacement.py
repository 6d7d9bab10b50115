"""What a table holds of a window that a run replaces, and what its files hold around it.

Iceberg replaces rows by a condition only where every row of a data file matches it, or none. After
compaction a file holds the rows of many runs.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from lake.catalog import Lake
from lake.schema import Table
from lake.window import ClusterWindow, Window

_EPOCH = datetime.fromtimestamp(0, UTC)


def holds_rows(lake: Lake, table: Table, window: Window) -> bool:
    """Return whether a table has rows that a window replaces, of the clusters it holds."""
    if not isinstance(window, ClusterWindow):
        return lake.has_rows(table, window)
    return any(window.holds(cluster, at) for cluster, at, _ in _observed(lake, table, window))


def rows_outside(lake: Lake, table: Table, window: Window, around: Window) -> int:
    """Return how many rows a table has around a window and not in it."""
    if around == window:
        return 0
    return sum(
        rows
        for cluster, at, rows in _observed(lake, table, around)
        if not window.holds(cluster, at)
    )


def _observed(
    lake: Lake, table: Table, window: Window
) -> Iterator[tuple[str | None, datetime, int]]:
    """Yield each cluster and instant of the rows in a window, and how many rows have them."""
    keys = ["cluster", table.instant] if "cluster" in table.column_names else [table.instant]
    found = lake.read(table, window, columns=tuple(keys))
    for row in found.group_by(keys).aggregate([([], "count_all")]).to_pylist():
        yield row.get("cluster"), row[table.instant], row["count_all"]


def around_files(lake: Lake, table: Table, window: Window) -> Window:
    """Return the smallest window around another that cuts through no data file of a table.

    A data file holds rows of a single hour, so the result reaches to whole hours at most.
    """
    with lake.scanned(table, window.whole_hours()) as scan:
        schema = scan.projection()
        spans = [_span(schema, table, task.file) for task in scan.plan_files()]
    around = Window(window.start, window.end)
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
