"""Growth since the minutes before, or since the last snapshot before an outage."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.alerts.group_features import (
    HISTORY,
    NO_OUTAGE,
    Outages,
    compares_growth,
    windows_to_compare,
    with_growth,
)
from spark.tuning import inside
from tests.support.table_rows import minute, minutes, snapshot_id
from tidemark.lake.clocks import Window
from tidemark.planning.history import LoadedSnapshot, complete_before
from tidemark.settings.sections import MEMORY

pytestmark = pytest.mark.spark

CONDITIONS = ["dead_growth > 0"]

Row = tuple[float, str, int | None, bool]
"""(minute, topic, dead letters, whether that is all of them)."""


def snapshots(*statuses: tuple[float, str]) -> list[LoadedSnapshot]:
    return [
        LoadedSnapshot(
            snapshot_id=snapshot_id(at),
            cluster="lab",
            observed_at=minute(at),
            status=status,
            brokers_read=frozenset({"broker-a"}),
        )
        for at, status in statuses
    ]


def frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    schema = "snapshot_id string, observed_at timestamp, topic string, dead int, complete boolean"
    return spark.createDataFrame(
        [(snapshot_id(at), minute(at), topic, dead, all_) for at, topic, dead, all_ in rows], schema
    )


def growth(
    spark: SparkSession, rows: Sequence[Row], window: Window, outages: Outages
) -> list[tuple[str, str, int | None]]:
    """The growth in a window, from those rows only that it compares."""
    compared = windows_to_compare(CONDITIONS, window, outages)
    kept = [row for row in rows if any(minute(row[0]) in window for window in compared)]
    if not kept:
        return []
    result = with_growth(frame(spark, kept), ["topic"], CONDITIONS, outages).where(inside(window))
    return sorted(
        (row.snapshot_id, row.topic, row.dead_growth)
        for row in result.select("snapshot_id", "topic", F.col("dead_growth")).collect()
    )


def test_growth_during_an_outage_counts_after_it(spark: SparkSession):
    """3 dead letters at minute 0; 7 more come while a broker is unreachable from 1 to 20."""
    seen = [(0, "COMPLETE"), *((at, "PARTIAL") for at in range(1, 21)), (21, "COMPLETE")]
    rows = [(at, "%DLQ%g", 3 if at < 21 else 10, status == "COMPLETE") for at, status in seen]
    outages = complete_before(snapshots(*seen), minutes(21, 22), HISTORY)
    assert {key: loaded_snapshot.snapshot_id for key, loaded_snapshot in outages.items()} == {
        snapshot_id(21): snapshot_id(0)
    }
    assert windows_to_compare(CONDITIONS, minutes(21, 22), outages) == [
        Window(minute(0), minute(0) + timedelta(microseconds=1)),
        Window(minute(11), minute(22)),
    ]
    assert growth(spark, rows, minutes(21, 22), outages) == [(snapshot_id(21), "%DLQ%g", 7)]
    assert growth(spark, rows, minutes(21, 22), NO_OUTAGE) == [(snapshot_id(21), "%DLQ%g", None)]


def test_an_outage_lasts_minutes_to_a_day():
    def before(*seen: tuple[float, str]) -> list[str]:
        known = snapshots(*seen)
        last = known[-1].observed_at
        complete = complete_before(known, Window(last, last + timedelta(seconds=1)), HISTORY)
        return [loaded_snapshot.snapshot_id for loaded_snapshot in complete.values()]

    assert before((0, "COMPLETE"), (10, "COMPLETE")) == []
    assert before((0, "COMPLETE"), (10.1, "COMPLETE")) == [snapshot_id(0)]
    assert before((0, "COMPLETE"), (5, "COMPLETE"), (10.1, "COMPLETE")) == []
    assert before((0, "COMPLETE"), (5, "PARTIAL"), (10.1, "PARTIAL")) == [snapshot_id(0)]
    assert before((0, "PARTIAL"), (30, "COMPLETE")) == []
    day = MEMORY / timedelta(minutes=1)
    assert before((0, "COMPLETE"), (day, "COMPLETE")) == [snapshot_id(0)]
    assert before((0, "COMPLETE"), (day + 1, "COMPLETE")) == []


def test_store_files_neither_end_nor_have_an_outage():
    first, store, last = snapshots((0, "COMPLETE"), (15, "COMPLETE"), (30, "COMPLETE"))
    store = replace(store, source="store")
    assert complete_before([first, store, last], minutes(0, 60), HISTORY) == {
        last.snapshot_id: first
    }


def test_a_new_topic_has_not_grown(spark: SparkSession):
    rows: list[Row] = [(0, "old", 5, True), (30, "new", 1, True), (60, "old", 9, True)]
    seen = snapshots((0, "COMPLETE"), (30, "COMPLETE"), (60, "COMPLETE"))
    outages = complete_before(seen, minutes(0, 61), HISTORY)
    assert growth(spark, rows, minutes(0, 61), outages) == [
        (snapshot_id(0), "old", None),
        (snapshot_id(30), "new", None),
        (snapshot_id(60), "old", None),
    ]


def test_ticks_and_one_window_give_the_same_growth(spark: SparkSession):
    chance, step, number = random.Random(20261123), 4, 20
    statuses = [
        (at * step, chance.choice(["COMPLETE", "PARTIAL", "PARTIAL"])) for at in range(number)
    ]
    known = snapshots(*statuses)
    rows: list[Row] = [
        (at, f"topic-{series}", chance.choice([None, at, 2 * at]), chance.random() < 0.5)
        for at, status in statuses
        for series in range(12)
        if chance.random() < 0.8
    ]

    def growth_in(window: Window) -> list[tuple[str, str, int | None]]:
        return growth(spark, rows, window, complete_before(known, window, HISTORY))

    edges = [0, step, 3 * step, 4 * step, 11 * step, number * step]
    at_once = growth_in(minutes(0, edges[-1]))
    ticks = [row for start, end in pairwise(edges) for row in growth_in(minutes(start, end))]
    assert sorted(ticks, key=str) == sorted(at_once, key=str)
    far = complete_before(known, minutes(0, edges[-1]), HISTORY)
    assert any(row[0] in far and row[2] is not None for row in at_once)


def test_a_growth_is_named_in_any_case_and_not_by_a_literal() -> None:
    assert compares_growth(["DEAD_Growth > 0"])
    assert not compares_growth(["topic = 'dead_growth'", "growth_dead > 0"])
