"""The search for tables that repeat no key, and what it spares: the numbering of copies."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from expectations.adapter import validate
from expectations.annotations import tables_with_unique_keys
from expectations.quarantine import split
from expectations.tick_suites import TICK_EXPECTATIONS
from tests.support.table_rows import frame
from tidemark.lake.tables import TABLES

pytestmark = pytest.mark.spark

QUEUES, READS = "raw.queue_offsets", "raw.consumer_offsets"

Row = dict[str, Any]


def queue(queue_id: int | None, low: int | None = 0) -> Row:
    return {"at": 0, "topic": "t", "queue_id": queue_id, "min_offset": low, "max_offset": 9}


def read(queue_id: int | None, offset: int = 5) -> Row:
    key = {"at": 0, "consumer_group": "g", "topic": "t", "queue_id": queue_id}
    return key | {"consumer_offset": offset}


def frames(spark: SparkSession, queues: list[Row], reads: list[Row]) -> dict[str, DataFrame]:
    return {
        QUEUES: frame(spark, TABLES[QUEUES], queues),
        READS: frame(spark, TABLES[READS], reads),
    }


queue_ids = st.one_of(st.none(), st.integers(0, 2))
lows = st.one_of(st.none(), st.integers(-1, 1))


def test_only_tables_that_repeat_a_key_are_left_out(spark: SparkSession) -> None:
    rows = frames(spark, [queue(0), queue(1)], [read(0), read(1), read(0)])

    assert tables_with_unique_keys(rows) == {QUEUES}
    assert tables_with_unique_keys({}) == frozenset()


def test_null_is_a_value_of_keys_like_any_other(spark: SparkSession) -> None:
    rows = frames(spark, [queue(None), queue(0)], [read(None), read(None)])

    assert tables_with_unique_keys(rows) == {QUEUES}


@settings(
    deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    queues=st.lists(st.builds(queue, queue_ids, lows), max_size=4),
    reads=st.lists(st.builds(read, queue_ids, st.integers(-1, 1)), max_size=4),
)
def test_rows_are_split_and_validated_alike_whether_the_search_ran_or_not(
    spark: SparkSession, queues: list[Row], reads: list[Row]
) -> None:
    rows = frames(spark, queues, reads)
    unique = tables_with_unique_keys(rows)

    numbered, spared = split(rows), split(rows, unique=unique)

    assert _sorted(numbered[1]) == _sorted(spared[1])
    for name, valid in numbered[0].items():
        assert _sorted(valid) == _sorted(spared[0][name])


def test_a_repeated_key_is_counted_alike_whether_the_search_ran_or_not(
    spark: SparkSession,
) -> None:
    rows = frames(spark, [queue(0), queue(1, -1)], [read(0), read(1), read(2)])

    counted, spared = (
        validate(rows[READS], READS, rows, TICK_EXPECTATIONS[READS], unique=unique)
        for unique in ((), tables_with_unique_keys(rows))
    )

    assert counted == spared
    # Queue 1 is impossible, queue 2 is absent.
    failed = {
        validation_result.expectation: validation_result.unexpected
        for validation_result in spared
        if validation_result.success is False
    }
    assert failed == {"queue_row_sound": 1, "queue_row_present": 1}


def _sorted(value: DataFrame) -> list[str]:
    return sorted(str(row) for row in value.collect())
