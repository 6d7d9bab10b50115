"""A window of a table is replaced in one commit, whatever compaction did to its files."""

from datetime import timedelta

import pytest

from assets.run import clear_window, write_window
from tests.support.table_rows import NOON, arrow, frame, minute, minutes
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.retention import compaction
from tidemark.lake.tables import progress

pytestmark = pytest.mark.spark

TABLE = progress.TIMELINE
BEFORE = -10_000
"""Minutes from noon to hours that no other test uses."""


def row(at, max_offset, cluster="lab", queue_id=0):
    return {
        "observed_at": minute(BEFORE + at),
        "cluster": cluster,
        "topic": "orders",
        "queue_id": queue_id,
        "max_offset": max_offset,
    }


def window(first, last):
    return minutes(BEFORE + first, BEFORE + last)


@pytest.fixture
def lake(spark, session_home):
    """The session's lake with none of this test's rows."""
    lake = Lake(session_home)
    assert lake.catalog
    spark.sql(f"DELETE FROM {TABLE.name} WHERE observed_at < '{NOON - timedelta(days=3)}'")
    return lake


def written(lake):
    """Minute, cluster and offset of each row."""
    rows = lake.read(TABLE, window(-600, 600)).to_pylist()
    return sorted(
        ((item["observed_at"] - minute(BEFORE)).seconds // 60, item["cluster"], item["max_offset"])
        for item in rows
    )


def tick(spark, lake, at, *rows):
    """Write a window of rows, as a tick does."""
    return write_window(frame(spark, TABLE, rows), TABLE, at, lake)


def joined(spark):
    """Join the files of the hours, as the hourly maintenance does."""
    hours = window(-60, 120).whole_hours()
    (done,) = spark.sql(compaction(TABLE, hours)).collect()
    assert done.rewritten_data_files_count


def test_a_window_inside_a_compacted_file_is_replaced(spark, lake):
    for at in range(6):
        tick(spark, lake, window(at, at + 1), row(at, at))
    joined(spark)
    assert tick(spark, lake, window(4, 7), row(4, 40), row(5, 50), row(6, 60)) == 3
    assert [offset for _, _, offset in written(lake)] == [0, 1, 2, 3, 40, 50, 60]
    assert tick(spark, lake, window(4, 7)) == 0
    assert [offset for _, _, offset in written(lake)] == [0, 1, 2, 3]


def test_a_window_without_rows_removes_no_file(spark, lake):
    assert tick(spark, lake, window(0, 1), row(0, 1), row(0, 2, queue_id=1)) == 2
    assert tick(spark, lake, window(1, 2), row(1, 3)) == 1
    newest = lake.table(TABLE.name).current_snapshot()
    assert newest and newest.summary and newest.summary["deleted-data-files"] is None
    assert len(written(lake)) == 3


def test_clearing_cuts_through_a_file(spark, lake):
    lake.append(TABLE, arrow(TABLE, [row(at, at) for at in range(4)]))
    clear_window(TABLE, window(1, 3), lake)
    assert [offset for _, _, offset in written(lake)] == [0, 3]
    clear_window(TABLE, Window(minute(BEFORE), minute(BEFORE)), lake)
