"""Readers of plans that a test writes down; frames of parts of a plan need no table."""

from typing import Any

from pyspark.sql import SparkSession

from assets.reader import Reader
from tests.support.table_rows import minutes
from tidemark.lake.clocks import Window
from tidemark.planning.run_plan import RunPlan


def reader_of(spark: SparkSession, plan: RunPlan) -> Reader:
    """Return the reader of a plan, without the metadata of tables."""
    lake: Any = None
    return Reader(session=spark, lake=lake, plan=plan)


def reader_with(spark: SparkSession, window: Window | None = None, **parts: Any) -> Reader:
    """Return the reader of a plan with these parts, and a minute as window unless one is given."""
    return reader_of(spark, RunPlan(window=window or minutes(0, 1), **parts))
