"""Iceberg's procedures remove old rows by our statements and leave the others unchanged."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.table_rows import NOON, minutes
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR
from tidemark.lake.retention import (
    FILES,
    compaction,
    expiry,
    orphan_removal,
    removal,
    remove_leftovers,
)
from tidemark.lake.tables import quality

pytestmark = pytest.mark.spark

TABLE = quality.QUARANTINE


def row(minute):
    return {
        "observed_at": NOON + timedelta(minutes=minute),
        "table": "raw.topics",
        "reason": f"minute {minute}",
        "row": "{}",
        "snapshot_id": "one",
    }


def test_old_rows_go_and_small_files_are_joined(spark, session_home):
    lake = Lake(session_home)
    assert lake.catalog
    spark.sql(f"DELETE FROM {TABLE.name}").collect()
    for minute in (-200, *range(FILES + 1), 70):
        lake.append(TABLE, [row(minute)])

    def minutes_of(frame):
        return sorted(int(reason.split()[1]) for reason in frame["reason"].to_pylist())

    spark.sql(removal(TABLE, NOON - HOUR)).collect()
    assert minutes_of(lake.read(TABLE)) == [*range(FILES + 1), 70]
    assert lake.oldest_hour(TABLE) == NOON

    files = lake.table(TABLE.name).inspect.files().num_rows
    (done,) = spark.sql(compaction(TABLE, minutes(0, 60))).collect()
    assert done.rewritten_data_files_count == FILES + 1
    assert lake.table(TABLE.name).inspect.files().num_rows == files - FILES
    assert minutes_of(lake.read(TABLE)) == [*range(FILES + 1), 70]

    newest = lake.table(TABLE.name).current_snapshot()
    assert newest and len(lake.table(TABLE.name).metadata.snapshots) > FILES
    spark.sql(expiry(TABLE, NOON + timedelta(days=36_500))).collect()
    (left,) = lake.table(TABLE.name).metadata.snapshots
    assert left.snapshot_id == newest.snapshot_id
    assert minutes_of(lake.read(TABLE)) == [*range(FILES + 1), 70]


def test_old_files_that_no_version_names_are_removed(spark, session_home):
    lake = Lake(session_home)
    lake.append(TABLE, [row(300)])
    place = Path(lake.table(TABLE.name).location().removeprefix("file://")) / "data"
    old, young = place / "left-by-a-killed-run.parquet", place / "being-written.parquet"
    for path, days in ((old, 4), (young, 0)):
        path.write_bytes(b"PAR1")
        os.utime(path, (time.time() - days * 86_400,) * 2)
    kept = {path for path in place.rglob("*.parquet") if path != old}
    before = lake.read(TABLE).num_rows
    spark.sql(orphan_removal(TABLE, datetime.now(UTC) - timedelta(days=3))).collect()
    assert set(place.rglob("*.parquet")) == kept
    assert Lake(session_home).read(TABLE).num_rows == before
    young.unlink()


def test_what_a_disk_keeps_of_removed_files_is_removed(spark, session_home):
    """Checksums and folders of hours stayed for ever: 600,000 a year on a disk of blocks."""
    lake, three_days = Lake(session_home), timedelta(days=3)
    lake.append(TABLE, [row(-600)])
    place = Path(lake.table(TABLE.name).location().removeprefix("file://"))
    hour = place / "data" / f"observed_at_hour={NOON - 10 * HOUR:%Y-%m-%d-%H}"
    spark.sql(removal(TABLE, NOON - 9 * HOUR)).collect()
    spark.sql(expiry(TABLE, NOON + timedelta(days=36_500))).collect()
    assert hour.is_dir() and not list(hour.iterdir()), "Iceberg removes files only"
    for _ in range(22):  # PyIceberg removes Spark's metadata, and knows no checksums
        lake.append(TABLE, [row(0)])
    lone = {path for path in place.rglob(".*.crc") if not named_by(path).exists()}
    assert lone
    assert remove_leftovers(lake.table(TABLE.name), datetime.now(UTC) - three_days) == 0
    kept = {path for path in place.rglob("*") if path.is_file()} - lone
    for path in (*lone, *kept, hour):
        os.utime(path, (time.time() - 4 * 86_400,) * 2)
    assert remove_leftovers(lake.table(TABLE.name), datetime.now(UTC) - three_days) > len(lone)
    assert {path for path in place.rglob("*") if path.is_file()} == kept and not hour.exists()
    assert remove_leftovers(lake.table(TABLE.name), datetime.now(UTC) - three_days) == 0


def named_by(checksum):
    """The file that a checksum is of."""
    return checksum.with_name(checksum.name[1:].removesuffix(".crc"))
