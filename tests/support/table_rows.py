"""Rows of any declared table from the few columns that a test is about."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark.progress.queues import RawFrames
from tidemark.lake.clocks import Window
from tidemark.lake.schema import Table
from tidemark.lake.tables import raw

NOON = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
"""When the first snapshot of a test is taken."""

CLUSTER = "lab"


def minute(number: float) -> datetime:
    """The instant that many minutes after noon."""
    return NOON + timedelta(minutes=number)


def snapshot_id(number: float) -> str:
    """The id of the snapshot taken that many minutes after noon."""
    return f"{minute(number):%Y%m%dT%H%M%S}000Z-{CLUSTER}"


def minutes(first: float, last: float) -> Window:
    """The window from one minute after noon to (without) another."""
    return Window(minute(first), minute(last))


def arrow(table: Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows with all columns of the table; ``at`` stands for a snapshot's minute after noon."""
    given = {"cluster": CLUSTER, "broker": "broker-a"}
    place = {name: value for name, value in given.items() if name in table.column_names}
    full = []
    for row in rows:
        row = dict(row)
        if "at" in row:
            at = row.pop("at")
            row = {"observed_at": minute(at), "snapshot_id": snapshot_id(at)} | row
        full.append(place | row)
    return table.arrow_table(full)


def frame(spark: SparkSession, table: Table, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """The rows as a DataFrame."""
    result = arrow(table, rows)
    if not rows:
        return spark.createDataFrame([], from_arrow_schema(result.schema))
    return spark.createDataFrame(result)


def raw_frames(spark: SparkSession, **rows: Sequence[Mapping[str, Any]]) -> RawFrames:
    """All raw frames, by the short names of their tables; those not named are empty."""
    names = {field.name for field in fields(RawFrames)}
    tables = {table.short_name: table for table in raw.ALL if table.short_name in names}
    assert set(rows) <= set(tables)
    return RawFrames(**{name: frame(spark, tables[name], rows.get(name, ())) for name in tables})
