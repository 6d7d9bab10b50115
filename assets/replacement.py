"""Replacing the window of a table in one commit, whatever compaction did to its files."""

from pyspark.sql import DataFrame, DataFrameWriterV2

from assets.reader import read_windows
from spark.columns import inside, resolved, stored_in
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.schema import Table
from tidemark.planning.replacement import around_files, rows_outside


def clear_window(table: Table, window: Window, lake: Lake) -> int:
    """Replace a window of a table by nothing, where it has rows; return the 0 rows written."""
    if not window.empty and lake.has_rows(table, window):
        lake.replace(table, window, table.arrow_schema().empty_table())
    return 0


def write_window(frame: DataFrame, table: Table, window: Window, lake: Lake) -> int:
    """Replace a window of a table by a frame, which may be empty, in one commit.

    Rows of a failed run may be in one file with rows outside the window, because files are joined.
    Then all rows of these files are written again.

    Returns:
        Rows of the window, as Iceberg counted them.

    Raises:
        LostError: this run lost its lease.
        Exception: of Spark, where another run wrote rows of the window first.
    """
    base = lake.ready_for_spark(table)
    rows = frame.select(*table.column_names)
    around = around_files(lake, table, window)
    kept = rows_outside(lake, table, window, around)
    if kept:
        stored = read_windows(frame.sparkSession, table, around)
        outside = stored.where(~inside(window, table.instant))
        rows = rows.unionByName(outside.select(*table.column_names))
    try:
        _writer(rows, table, base).overwrite(stored_in(around, table.instant))
    except Exception:
        lake.confirm()  # a lost lease explains more than Iceberg's error
        raise
    return _added(lake, table) - kept


def _writer(rows: DataFrame, table: Table, base: int | None) -> DataFrameWriterV2:
    """Return a writer that does not shuffle rows, and that commits only onto a known version.

    By default Iceberg shuffles and sorts all rows by their hour once more. A window has few hours,
    so each task can keep a file open for each. A writer also resolves a plan again from its
    beginning, unless it finds that done.

    An engine continues the write of a run that was killed or lost its lease. Iceberg refuses its
    commit where another run has written rows of the same window since the version `base`.
    """
    writer = resolved(rows, table.instant).writeTo(table.name)
    writer = writer.option("distribution-mode", "none").option("fanout-enabled", "true")
    if base is not None:
        writer = writer.option("validate-from-snapshot-id", str(base))
    return writer.option("isolation-level", "serializable")


def _added(lake: Lake, table: Table) -> int:
    snapshot = lake.table(table.name).current_snapshot()
    summary = snapshot.summary if snapshot else None
    return int(summary["added-records"] or 0) if summary else 0
