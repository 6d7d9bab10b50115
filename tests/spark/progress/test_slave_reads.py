"""Why slaves serve groups: beside TPS 0 at the master, and as events."""

import pytest

from spark.progress.throughput import SLAVE_PREFERRED, slave_read_events, slave_reads
from tests.support.table_rows import frame, minute, minutes, snapshot_id
from tidemark.lake.tables import progress, raw

pytestmark = pytest.mark.spark

MIB = 1024 * 1024

HOUR_OF_LOG = {
    "broker_id": 0,
    "commit_log_min_offset": 0,
    "commit_log_max_offset": 600 * MIB,
    "earliest_stored_at": minute(-60),
    "slave_read_enabled": True,
}
"""A master at noon: 600 MiB within the hour."""


def count(group, at=0, broker_id=1, tps=2.5, **other):
    row = {"at": at, "broker_id": broker_id, "topic": "orders", "consumer_group": group}
    row |= {"stats_name": "GROUP_GET_NUMS", "stats_window": "minute", "tps": tps}
    return row | other


def master(at=0, **other):
    return HOUR_OF_LOG | {"at": at} | other


def waiting(group, pull_at, at=0, **other):
    row = {"at": at, "topic": "orders", "consumer_group": group, "readable_lag": 9}
    pulled = None if pull_at is None else minute(pull_at)
    return row | {"pull_at": pulled, "consumer_at": minute(-50)} | other


@pytest.fixture(scope="module")
def reasons(spark):
    stats = [
        *(count("behind"), count("configured", broker="b"), count("lost master", broker="c")),
        *(count("not behind"), count("by itself", broker="d")),
        *(count("behind", broker_id=0, tps=9.0), count("behind", broker_id=2, tps=1.0)),
        *(count("by the master", broker_id=0), count("idle", tps=0.0)),
        count("by the hour", stats_window="hour"),
        count("in bytes", stats_name="GROUP_GET_SIZE"),
    ]
    brokers = [
        master(),
        master(broker="b", config=[("accessMessageInMemoryMaxRatio", "25")]),
        {"at": 0, "broker": "c", "broker_id": 0},
        {"at": 0, "broker": "c", "broker_id": 1, "commit_log_max_offset": 5},
        master(broker="d", slave_read_enabled=False),
    ]
    queues = [
        *(waiting("behind", -6), waiting("behind", -1, queue_id=1)),
        waiting("configured", -120, broker="b"),
        waiting("lost master", -6, broker="c"),
        waiting("not behind", 0, readable_lag=0),
        waiting("by itself", None, broker="d"),
    ]
    rows = slave_reads(
        frame(spark, raw.BROKER_STATS, stats),
        frame(spark, raw.BROKERS, brokers),
        frame(spark, progress.QUEUES, queues),
    ).collect()
    return {row["consumer_group"]: row.asDict() for row in rows}


BEYOND = "reads lie beyond the master's share of memory"
LIMIT = "the master serves reads within 40 % of its memory"


@pytest.mark.parametrize(
    ("group", "behind_mib", "likely_cause", "evidence"),
    [
        pytest.param(
            *("behind", 60, BEYOND),
            "a slave hands out 3.5 messages a second, the next message to hand out is 360 s old, "
            f"about 60 MiB before the end of the commit log, {LIMIT}",
            id="a tenth of the log",
        ),
        pytest.param(
            *("configured", 600, BEYOND),
            "a slave hands out 2.5 messages a second, the next message to hand out is 7200 s old, "
            "about 600 MiB before the end of the commit log, "
            "the master serves reads within 25 % of its memory",
            id="not more than the whole log",
        ),
        pytest.param(
            *("lost master", None, "master unreachable"),
            "a slave hands out 2.5 messages a second, the next message to hand out is 360 s old, "
            f"{LIMIT}",
            id="a master that did not respond",
        ),
        pytest.param(
            *("not behind", None, None),
            f"a slave hands out 2.5 messages a second, {LIMIT}",
            id="nothing waits",
        ),
        pytest.param(
            *(
                "by itself",
                500,
                SLAVE_PREFERRED,
            ),
            "a slave hands out 2.5 messages a second, the next message to hand out is 3000 s old, "
            f"about 500 MiB before the end of the commit log, {LIMIT}",
            id="the pull offset is unknown",
        ),
    ],
)
def test_reason_names_how_far_behind_and_which_share(
    reasons, group, behind_mib, likely_cause, evidence
):
    row = reasons[group]
    assert (row["likely_cause"], row["evidence"]) == (likely_cause, evidence)
    assert row["behind_bytes"] == (None if behind_mib is None else behind_mib * MIB)


def test_only_what_slaves_hand_out_counts(reasons):
    assert reasons.keys() == {"behind", "configured", "lost master", "not behind", "by itself"}


def test_a_slave_that_goes_on_serving_is_one_event(spark):
    """Counts at the minutes 0 to 4; the group is served at 1 and 2, and again at 4."""
    stats = [count("others", at=at, broker_id=0) for at in range(5)]
    stats += [count("billing", at=at) for at in (1, 2, 4)]
    result = slave_read_events(
        frame(spark, raw.BROKER_STATS, stats),
        frame(spark, raw.BROKERS, [master(at=at) for at in range(5)]),
        frame(spark, progress.QUEUES, [waiting("billing", -6, at=at) for at in (1, 2, 4)]),
        minutes(1, 60),
    )
    assert result.columns == progress.EVENTS.column_names
    rows = sorted(result.collect(), key=lambda row: row["observed_at"])
    assert [row["snapshot_id"] for row in rows] == [snapshot_id(1), snapshot_id(4)]
    assert {row["kind"] for row in rows} == {"SERVED_BY_SLAVE"}
    assert [row["previous_at"] for row in rows] == [
        minute(at).replace(tzinfo=None) for at in (0, 3)
    ]
    first = rows[0].asDict()
    key = (first["consumer_group"], first["topic"], first["queue_id"])
    assert key == ("billing", "orders", None)
    assert first["likely_cause"] == BEYOND and LIMIT in first["evidence"]
