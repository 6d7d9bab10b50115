"""Store times by the contract's formula, and which messages of a snapshot need one."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from tidemark.live.broker_times import Observation, Step, StoreTime, undated
from tidemark.rocketmq.records import ConsumerOffset, QueueOffset, Snapshot

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def minute(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def step(before, after, newest=None) -> Step:
    """A step between (max_offset, minute) pairs."""
    return Step(
        None if before is None else Observation(before[0], minute(before[1])),
        Observation(after[0], minute(after[1])),
        None if newest is None else minute(newest),
    )


@pytest.mark.parametrize(
    ("grown", "offset", "expected"),
    [
        pytest.param(step((100, 0), (200, 10), 10), 149, (5, "interpolated", 10), id="half way"),
        pytest.param(step((100, 0), (200, 10), 4), 149, (2, "interpolated", 4), id="newest ends"),
        pytest.param(step((100, 0), (200, 10), 9), 199, (9, "exact", 0), id="the newest"),
        pytest.param(step((100, 0), (200, 10), 11), 149, (5, "interpolated", 10), id="clock ahead"),
        pytest.param(step((100, 4), (200, 10), 3), 199, (10, "interpolated", 6), id="too early"),
        pytest.param(step((100, 4), (200, 10)), 199, (10, "interpolated", 6), id="no store time"),
        pytest.param(step((1000, 6), (60, 10), 10), 29, (8, "interpolated", 4), id="after a fall"),
        pytest.param(step(None, (200, 10), -30), 50, (-30, "at_least", None), id="no history"),
        pytest.param(step(None, (200, 10)), 50, (10, "at_least", None), id="nothing known"),
        pytest.param(step(None, (200, 10), 9), 199, (9, "exact", 0), id="newest, no history"),
        pytest.param(step((100, 0), (200, 10), 9), 50, (9, "at_least", None), id="cut off above"),
    ],
)
def test_store_time_follows_the_contract(grown, offset, expected):
    at, source, error = expected
    error_ms = None if error is None else error * 60_000
    assert grown.store_time(offset) == StoreTime(minute(at), source, error_ms)


@pytest.mark.spark
def test_store_times_are_those_of_spark(spark):
    """Both compute the same instants, sources and errors from any step."""
    from pyspark.sql import functions as F

    from spark.progress.delay import _ends, _stored

    rng, cases = random.Random(7), []
    for _ in range(400):
        m1, t1 = rng.randrange(1, 90), rng.uniform(1, 30)
        before = rng.choice((None, (rng.randrange(90), t1 - rng.uniform(0.01, 9))))
        if before and before[0] == m1:
            continue
        newest = rng.choice((None, t1 - rng.uniform(-2, 12)))
        cases.append((step(before, (m1, t1), newest), rng.randrange(m1)))
    kind = (
        "id int, offset bigint, step struct<max_offset: bigint, newest_stored_at: timestamp, "
        "observed_at: timestamp, before: struct<max_offset: bigint, observed_at: timestamp>>"
    )
    rows = [
        (
            number,
            offset,
            (
                grown.after.max_offset,
                grown.newest_stored_at,
                grown.after.observed_at,
                None if grown.before is None else tuple(grown.before),
            ),
        )
        for number, (grown, offset) in enumerate(cases)
    ]
    ends = _ends(F.col("step"), F.col("offset"))
    frame = spark.createDataFrame(rows, kind).select(
        "id", _stored(ends, F.col("offset"), F.lit(minute(1000))).alias("at_offset")
    )
    collected = {row["id"]: row["at_offset"] for row in frame.collect()}
    assert {row["source"] for row in collected.values()} == {"exact", "interpolated", "at_least"}
    for number, (grown, offset) in enumerate(cases):
        mine, theirs = grown.store_time(offset), collected[number]
        assert (mine.source, mine.error_ms) == (theirs["source"], theirs["error_ms"])
        # One microsecond: Spark rounds a product, Python a sum of instants.
        difference = abs(mine.at - theirs["at"].astimezone(UTC))
        assert difference <= timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("committed", "newest", "is_undated"),
    [
        pytest.param(5, NOON, True, id="lagging"),
        pytest.param(9, NOON, False, id="last message with a store time"),
        pytest.param(9, None, True, id="last message without a store time"),
        pytest.param(10, NOON, False, id="nothing left"),
        pytest.param(None, NOON, False, id="never committed"),
        pytest.param(0, NOON, True, id="expired messages"),
    ],
)
def test_only_unknown_store_times_are_wanted(committed, newest, is_undated):
    taken = Snapshot(cluster="lab", source="remote", observed_at=NOON)
    taken.queue_offsets = [
        QueueOffset(
            broker="broker-a",
            topic="orders",
            queue_id=0,
            min_offset=3,
            max_offset=10,
            newest_stored_at=newest,
        )
    ]
    taken.consumer_offsets = [
        ConsumerOffset(
            broker="broker-a",
            consumer_group="billing",
            topic="orders",
            queue_id=0,
            client_id=None,
            consumer_offset=committed,
        ),
        ConsumerOffset(
            broker="broker-a",
            consumer_group="CID_RMQ_SYS_X",
            topic="orders",
            queue_id=0,
            client_id=None,
            consumer_offset=5,
        ),
    ]
    wanted = [item.row.consumer_group for item in undated(taken)]
    assert wanted == (["billing"] if is_undated else [])
