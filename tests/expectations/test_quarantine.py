"""The split into valid and quarantined rows: reasons, decisions, and that no row is lost."""

import json
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from expectations.quarantine import split
from expectations.tick_suites import TICK_EXPECTATIONS
from tests.support.table_rows import frame, minute, snapshot_id
from tidemark.lake.schema import type_text
from tidemark.lake.tables import TABLES
from tidemark.lake.tables.quality import QUARANTINE
from tidemark.planning.quarantine_decisions import Decision, QuarantinedRow

pytestmark = pytest.mark.spark

Row = dict[str, Any]


def queue(queue_id: int | None, low: int | None = 0, high: int | None = 9, **more: Any) -> Row:
    return {
        "at": 0,
        "topic": "orders",
        "queue_id": queue_id,
        "min_offset": low,
        "max_offset": high,
        **more,
    }


def read(queue_id: int | None, offset: int | None = 5, **more: Any) -> Row:
    return {
        "at": 0,
        "consumer_group": "billing",
        "topic": "orders",
        "queue_id": queue_id,
        "consumer_offset": offset,
        **more,
    }


def frames(spark: SparkSession, queues: list[Row], reads: list[Row]) -> dict[str, DataFrame]:
    return {
        "raw.queue_offsets": frame(spark, TABLES["raw.queue_offsets"], queues),
        "raw.consumer_offsets": frame(spark, TABLES["raw.consumer_offsets"], reads),
    }


def reasons(quarantined: DataFrame) -> list[tuple[str, int | None, str]]:
    """Table, queue and reason of each quarantined row."""
    rows = [
        (row["table"].removeprefix("raw."), json.loads(row["row"])["queue_id"], row["reason"])
        for row in quarantined.collect()
    ]
    return sorted(rows, key=str)


def queue_ids(valid: DataFrame) -> list[int]:
    return sorted(row["queue_id"] for row in valid.collect())


def test_impossible_queues_and_their_commits_are_quarantined(spark: SparkSession) -> None:
    queues = [
        queue(0),
        queue(1, low=-1),
        queue(2, low=10, high=9),
        queue(3, low=0, high=-1),
        queue(4, low=None, high=None),
    ]
    reads = [read(0), read(1), read(2), read(3), read(4), read(5), read(0, -5, client_id="c")]

    valid, quarantined = split(frames(spark, queues, reads))

    assert queue_ids(valid["raw.queue_offsets"]) == [0, 4]
    assert queue_ids(valid["raw.consumer_offsets"]) == [0, 4]
    assert reasons(quarantined) == [
        ("consumer_offsets", 0, "consumer_offset_ge_0"),
        ("consumer_offsets", 1, "queue_row_sound"),
        ("consumer_offsets", 2, "queue_row_sound"),
        ("consumer_offsets", 3, "queue_row_sound"),
        ("consumer_offsets", 5, "queue_row_present"),
        ("queue_offsets", 1, "min_offset_ge_0"),
        ("queue_offsets", 2, "min_offset_le_max_offset"),
        ("queue_offsets", 3, "max_offset_ge_0, min_offset_le_max_offset"),
    ]


def test_one_identical_row_is_valid_and_no_conflicting_one(spark: SparkSession) -> None:
    queues = [
        *(queue(0), queue(0), queue(0)),
        *(queue(1, high=8), queue(1, high=9)),
        *(queue(2, high=8), queue(2, high=9), queue(2, high=9)),
        queue(3),
    ]

    valid, quarantined = split(frames(spark, queues, [read(0), read(1), read(2), read(3)]))

    assert queue_ids(valid["raw.queue_offsets"]) == [0, 3]
    assert queue_ids(valid["raw.consumer_offsets"]) == [0, 3]
    assert Counter(reasons(quarantined)) == {
        ("queue_offsets", 0, "key_unique"): 2,
        ("queue_offsets", 1, "key_unique"): 2,
        ("queue_offsets", 2, "key_unique"): 3,
        ("consumer_offsets", 1, "queue_row_sound"): 1,
        ("consumer_offsets", 2, "queue_row_sound"): 1,
    }


def test_rows_that_differ_only_in_a_null_conflict(spark: SparkSession) -> None:
    _, quarantined = split(frames(spark, [queue(0, high=9), queue(0, high=None)], []))

    assert [reason for _, _, reason in reasons(quarantined)] == ["key_unique", "key_unique"]


def test_null_client_is_a_key_of_its_own(spark: SparkSession) -> None:
    reads = [
        read(0),
        read(0, client_id="a"),
        read(0, client_id="b"),
        *(read(1), read(1)),
        *(read(2, 5), read(2, 6)),
    ]

    valid, quarantined = split(frames(spark, [queue(0), queue(1), queue(2)], reads))

    valid_rows = [
        (row["queue_id"], row["client_id"]) for row in valid["raw.consumer_offsets"].collect()
    ]
    assert Counter(valid_rows) == Counter([(0, None), (0, "a"), (0, "b"), (1, None)])
    assert reasons(quarantined) == [
        ("consumer_offsets", 1, "key_unique"),
        ("consumer_offsets", 2, "key_unique"),
        ("consumer_offsets", 2, "key_unique"),
    ]


def test_incomplete_key_is_the_only_reason_of_its_row(spark: SparkSession) -> None:
    # Rows with a NULL in their keys are neither duplicates nor without their queue.
    queues = [queue(0), queue(None), queue(None), queue(1, broker=None)]
    reads = [read(0), read(None), read(0, consumer_group=None)]

    valid, quarantined = split(frames(spark, queues, reads))

    assert queue_ids(valid["raw.queue_offsets"]) == [0]
    assert queue_ids(valid["raw.consumer_offsets"]) == [0]
    assert sorted(reason for _, _, reason in reasons(quarantined)) == [
        "broker_not_null",
        "consumer_group_not_null",
        "queue_id_not_null",
        "queue_id_not_null",
        "queue_id_not_null",
    ]


def test_queue_row_of_another_snapshot_does_not_count(spark: SparkSession) -> None:
    _, quarantined = split(frames(spark, [queue(0, at=1)], [read(0, at=0)]))

    assert reasons(quarantined) == [("consumer_offsets", 0, "queue_row_present")]


def test_files_of_clients_need_no_queue_of_their_snapshot(spark: SparkSession) -> None:
    """They hold no queues: those of the nearest snapshot count."""
    of_file = read(0, client_id="c", offset_store="client_file")
    valid, quarantined = split(frames(spark, [queue(0, at=1)], [of_file]))

    assert reasons(quarantined) == []
    assert queue_ids(valid["raw.consumer_offsets"]) == [0]


def test_missing_queue_frame_differs_from_an_empty_one(spark: SparkSession) -> None:
    both = frames(spark, [], [read(0)])
    alone = {"raw.consumer_offsets": both["raw.consumer_offsets"]}

    empty, not_given = split(both), split(alone)

    assert reasons(empty[1]) == [("consumer_offsets", 0, "queue_row_present")]
    assert reasons(not_given[1]) == []
    assert queue_ids(not_given[0]["raw.consumer_offsets"]) == [0]


def decided(kind: str, quarantined: DataFrame, **columns: Any) -> list[Decision]:
    """A decision on each quarantined row with these columns."""
    quarantined_rows = [QuarantinedRow(**row.asDict()) for row in quarantined.collect()]
    chosen = [row for row in quarantined_rows if row.columns.items() >= columns.items()]
    assert chosen, columns
    return [row.decided(kind, "eve", minute(0)) for row in chosen]


def test_released_queue_and_its_commits_are_valid(spark: SparkSession) -> None:
    stored_at = minute(0.000_001)
    queues = [
        queue(0),
        *(queue(1, high=8), queue(1, high=9, newest_stored_at=stored_at)),
        queue(2, low=-1),
    ]
    given = frames(spark, queues, [read(0), read(1), read(2)])
    _, quarantined = split(given)

    valid, left = split(given, decisions=decided("released", quarantined, queue_id=1, max_offset=9))

    valid_rows = [
        (row["queue_id"], row["max_offset"]) for row in valid["raw.queue_offsets"].collect()
    ]
    assert sorted(valid_rows) == [(0, 9), (1, 9)]
    assert valid["raw.queue_offsets"].columns == TABLES["raw.queue_offsets"].column_names
    assert queue_ids(valid["raw.consumer_offsets"]) == [0, 1]
    assert reasons(left) == [
        ("consumer_offsets", 2, "queue_row_sound"),
        ("queue_offsets", 1, "key_unique"),
        ("queue_offsets", 2, "min_offset_ge_0"),
    ]


def test_dropped_row_disappears_and_its_queue_stays_unknown(spark: SparkSession) -> None:
    given = frames(spark, [queue(0), queue(1, low=-1), queue(2, low=-2)], [read(0), read(1)])
    _, quarantined = split(given)

    valid, left = split(given, decisions=decided("dropped", quarantined, queue_id=1, min_offset=-1))

    assert queue_ids(valid["raw.queue_offsets"]) == [0]
    assert reasons(left) == [
        ("consumer_offsets", 1, "queue_row_sound"),
        ("queue_offsets", 2, "min_offset_ge_0"),
    ]


def test_decision_holds_when_the_table_has_gained_a_column(spark: SparkSession) -> None:
    """Its text is of the columns of an older program; the new one is NULL in rows of its time."""
    reads = [read(0, -1), read(0, -2, request_mode="PULL"), read(1, -3)]
    given = frames(spark, [queue(0), queue(1)], reads)
    older = {name: item.drop("request_mode") for name, item in given.items()}
    _, quarantined = split(older)
    released = decided("released", quarantined, queue_id=0)
    dropped = decided("dropped", quarantined, queue_id=1)

    valid, left = split(given, decisions=[*released, *dropped])

    offsets = [row["consumer_offset"] for row in valid["raw.consumer_offsets"].collect()]
    assert offsets == [-1]
    assert reasons(left) == [("consumer_offsets", 0, "key_unique, consumer_offset_ge_0")]


@pytest.mark.parametrize(("kind", "valid_rows"), [("released", [0, 1, 2]), ("dropped", [0])])
def test_one_copy_at_most_is_valid_whatever_is_decided(
    kind: str, valid_rows: list[int], spark: SparkSession
) -> None:
    """Also when conflicting rows are released."""
    queues = [
        *(queue(0), queue(0)),
        *(queue(1, high=8), queue(1, high=9), queue(1, high=9)),
        *(queue(2, low=-1), queue(2, low=-1)),
    ]
    given = frames(spark, queues, [read(0), read(1), read(2)])
    _, quarantined = split(given)
    on_queues = decided(kind, quarantined.filter("table = 'raw.queue_offsets'"))

    valid, left = split(given, decisions=on_queues)

    assert queue_ids(valid["raw.queue_offsets"]) == valid_rows
    assert queue_ids(valid["raw.consumer_offsets"]) == valid_rows
    assert reasons(left) == [
        ("consumer_offsets", queue_id, "queue_row_sound")
        for queue_id in (0, 1, 2)
        if queue_id not in valid_rows
    ]


def test_quarantined_row_keeps_all_its_columns(spark: SparkSession) -> None:
    stored_at = minute(0.000_001)
    queues = [queue(1, low=-1, newest_stored_at=stored_at)]

    valid, quarantined = split(frames(spark, queues, []))

    [row] = quarantined.collect()
    assert json.loads(row["row"]) == {
        "snapshot_id": snapshot_id(0),
        "observed_at": "2026-11-19T12:00:00.000000Z",
        "cluster": "lab",
        "broker": "broker-a",
        "topic": "orders",
        "queue_id": 1,
        "min_offset": -1,
        "max_offset": 9,
        "newest_stored_at": "2026-11-19T12:00:00.000060Z",
    }
    assert row["snapshot_id"] == snapshot_id(0)
    assert quarantined.filter("observed_at = timestamp'2026-11-19 12:00:00Z'").count() == 1
    assert [(field.name, field.dataType.simpleString()) for field in quarantined.schema.fields] == [
        (column.name, type_text(column.type)) for column in QUARANTINE.columns
    ]
    assert valid["raw.queue_offsets"].columns == TABLES["raw.queue_offsets"].column_names


def test_row_without_instant_or_snapshot_is_not_lost(spark: SparkSession) -> None:
    queues = [queue(0), queue(1, observed_at=None, low=-1), queue(2, snapshot_id=None)]

    valid, quarantined = split(frames(spark, queues, []), observed_at=minute(-5))

    assert queue_ids(valid["raw.queue_offsets"]) == [0]
    assert reasons(quarantined) == [
        ("queue_offsets", 1, "min_offset_ge_0"),
        ("queue_offsets", 2, "snapshot_id_not_null"),
    ]
    assert quarantined.filter("observed_at = timestamp'2026-11-19 11:55:00Z'").count() == 1
    assert quarantined.filter("snapshot_id IS NULL").count() == 1


def test_maps_and_arrays_are_compared(spark: SparkSession) -> None:
    def broker(config: dict[str, str], broker_id: int) -> Row:
        return {"at": 0, "broker_id": broker_id, "config": list(config.items())}

    same = [broker({"a": "1", "b": "2"}, 0), broker({"b": "2", "a": "1"}, 0)]
    different = [broker({"a": "1"}, 1), broker({"a": "2"}, 1)]
    name = "raw.brokers"

    valid, quarantined = split({name: frame(spark, TABLES[name], [*same, *different])})

    assert [row["broker_id"] for row in valid[name].collect()] == [0]
    assert [row["reason"] for row in quarantined.collect()] == ["key_unique"] * 3


def test_every_key_column_is_required(spark: SparkSession) -> None:
    """NULL in a required key column quarantines a row of any table."""
    given, expected = {}, set()
    filler = {"string": "x", "int": 0, "bigint": 0, "timestamp": minute(0)}
    for name in TICK_EXPECTATIONS:
        table = TABLES[name]
        types = {column.name: type_text(column.type) for column in table.columns}
        whole = {column: filler[types[column]] for column in table.key}
        # `cluster` and `broker` are filled in by the builder unless named.
        nulls = [{**whole, column: None} for column in table.required]
        given[name] = frame(spark, table, nulls)
        expected |= {(name, f"{column}_not_null") for column in table.required}

    valid, quarantined = split(given)

    assert {
        (row["table"], row["reason"].split(", ")[0]) for row in quarantined.collect()
    } == expected
    assert all(rows.isEmpty() for rows in valid.values())


def test_nothing_to_split_raises(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="no frames to split"):
        split({})
    with pytest.raises(ValueError, match=r"alerting\.alerts"):
        split({"alerting.alerts": frame(spark, TABLES["alerting.alerts"], [])})
