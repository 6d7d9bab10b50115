"""Windows that assets read: those that are searched for repeated keys."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from assets.reader import Reader
from spark.session.configuration import MANY_ROWS
from tests.support.table_rows import frame, minute
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.tables import TABLES
from tidemark.planning.run_plan import RunPlan

pytestmark = pytest.mark.spark


def test_only_windows_of_many_rows_are_searched_for_repeated_keys(
    spark: SparkSession, lake: Lake
) -> None:
    plan = RunPlan(window=Window(minute(0), minute(1)), rows=MANY_ROWS)
    rows = {"raw.topics": frame(spark, TABLES["raw.topics"], [{"at": 0, "topic": "orders"}])}

    def unique(plan: RunPlan) -> frozenset[str]:
        return Reader(session=spark, lake=lake, plan=plan).unique_in(rows)

    assert unique(plan) == frozenset()
    assert unique(replace(plan, rows=MANY_ROWS + 1)) == {"raw.topics"}
