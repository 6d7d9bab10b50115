"""``progress.throughput``: replicas added up, and the rate that our own offsets give."""

import pytest

from spark.progress.throughput import throughput
from tests.support.table_rows import frame, minute, minutes, snapshot_id
from tidemark.lake.tables import progress, raw
from tidemark.planning.observation_steps import STATS_WINDOWS

pytestmark = pytest.mark.spark

NOW = 70
"""The minute of the only deep snapshot. There is one a minute before, and none an hour before:
that moment lies a quarter of the way from minute 8 to minute 16."""

LOGS = {name: f"{snapshot_id(NOW)}-{name}" for name in ("broker-a", "broker-b")}
"""Ids of lines of stats.log printed at the instant of the snapshot: one snapshot per broker."""

WINDOWS = {"minute": (69, 69, 0.0), "hour": (8, 16, 0.25)}


def counter(key, sum=None, tps=None, avgpt=None, **other):
    topic, _, group = key.partition("@")
    row = {"at": NOW, "broker_id": 0, "stats_window": "minute", "stats_key": key}
    row |= {"stats_name": "GROUP_GET_NUMS" if group else "TOPIC_PUT_NUMS"}
    row |= {"topic": topic, "consumer_group": group or None}
    return row | {"sum": sum, "tps": tps, "avgpt": avgpt} | other


COUNTED = {
    # key: rows, and what comes of them: tps_master, tps_replicas, tps, sum, avgpt, share
    "one master": ([counter("", 600, 10.0, 2.0)], (10, None, 10, 600, 2, None)),
    "masters": (
        [counter("", 600, 10.0, 2.0), counter("", 300, 5.0, 1.0, broker="broker-b")],
        (15, None, 15, 900, 1.5, None),  # 900 messages in 300 + 300 calls
    ),
    "0 on the master": (
        [counter("", 0, 0.0, 0.0), counter("", 600, 10.0, 4.0, broker_id=1)],
        (0, 10, 10, 600, 4, 1),
    ),
    "a share": (
        [counter("", 60, 1.0, 1.0), counter("", 180, 3.0, 1.0, broker_id=1)],
        (1, 3, 4, 240, 1, 0.75),
    ),
    "an unreachable master": ([counter("", 60, 1.0, 1.0, broker_id=2)], (None, 1, 1, 60, 1, 1)),
    "nothing counted": (
        [counter("", 0, 0.0, 0.0), counter("", 0, 0.0, 0.0, broker_id=1)],
        (0, 0, 0, 0, None, None),
    ),
    "no number": (
        [counter("", None, None, None), counter("", 60, 1.0, 1.0, broker="broker-b")],
        (1, None, 1, 60, 1, None),
    ),
    "more than 64 bits hold": (
        [counter("", 2**62 + 5, 1.0, 2.0), counter("", 2**62 + 5, 1.0, 2.0, broker="broker-b")],
        (2, None, 2, None, 2, None),
    ),
    "calls not counted": ([counter("", 60, 1.0, 0.0)], (1, None, 1, 60, None, None)),
    "a clock set back": ([counter("", -60, -5.0, 1.0)], (None, None, None, None, None, None)),
    "two logs": (
        [
            counter("", 3600, 60.0, 1.0, snapshot_id=LOGS["broker-a"]),
            counter("", 2400, 40.0, 1.0, snapshot_id=LOGS["broker-b"], broker="broker-b"),
        ],
        (100, None, 100, 6000, 1, None),
    ),
    "a master's log and a slave's": (
        [
            counter("", 0, 0.0, 0.0, snapshot_id=LOGS["broker-a"]),
            counter("", 600, 10.0, 4.0, snapshot_id=f"{LOGS['broker-a']}-1", broker_id=1),
        ],
        (0, 10, 10, 600, 4, 1),
    ),
    "a snapshot and a log": (
        [
            counter("", 600, 10.0, 2.0),
            counter("", 540, 9.0, 2.0, snapshot_id=LOGS["broker-a"]),  # the same counter again
            counter("", 300, 5.0, 1.0, snapshot_id=LOGS["broker-b"], broker="broker-b"),
        ],
        (15, None, 15, 900, 1.5, None),
    ),
    "two samples at once": (
        [counter("", 60, float("inf"), float("nan"))],
        (None, None, None, 60, None, None),
    ),
}


def queue(at, topic, offset, queue_id=0, **other):
    row = {"at": at, "topic": topic, "queue_id": queue_id, "min_offset": 0, "max_offset": offset}
    return row | other


def read(at, group, pulled, committed=None, queue_id=0, **other):
    row = {"at": at, "topic": "orders", "consumer_group": group, "queue_id": queue_id}
    return (
        row
        | {"pull_offset": pulled, "consumer_offset": committed, "offset_store": "broker"}
        | other
    )


WRITTEN = {
    # topic: (offset at minute 69, now) of each queue, and messages a second
    "two queues": ([(100, 220), (0, 60)], 3.0),
    "nothing written": ([(100, 100)], 0.0),
    "one queue is new": ([(100, 220), (None, 60)], None),
    "recreated": ([(100, 220), (5000, 60)], None),
    "one queue is not known now": ([(100, 220), (50, None)], None),
    "offsets not reported": ([(None, None)], None),
}

SERVED = {
    # group: ((pulled, committed) at minute 69, now), and messages a second
    "pulled": ((100, 10), (700, 10), 10.0),
    "committed only": ((None, 40), (None, 100), 1.0),
    "pulled since": ((None, 40), (700, 100), 1.0),
    "pulled before": ((650, 40), (None, 100), 1.0),
    "pulled again": ((700, 100), (650, 160), None),
    "first commit": ((None, None), (None, 100), None),
    "never": ((None, None), (None, None), None),
}


@pytest.fixture(scope="module")
def computed(spark):
    stats = [row | {"stats_key": key} for key, (rows, _) in COUNTED.items() for row in rows]
    stats += [counter(topic, 60, 1.0, 1.0) for topic in WRITTEN]
    stats += [counter(f"orders@{group}", 60, 1.0, 1.0) for group in SERVED]
    stats += [counter("orders@broadcast", 60, 1.0, 1.0)]
    stats += [counter("long", 60, 1.0, 1.0, stats_window=name) for name in STATS_WINDOWS]
    stats += [counter("long", 60, 1.0, 1.0, stats_name="TOPIC_PUT_SIZE")]
    stats += [counter("two queues", 60, 1.0, 1.0, snapshot_id=log) for log in LOGS.values()]
    stats += [counter("also on a new broker", 60, 1.0, 1.0)]
    stats += [counter("another time", 60, 1.0, 1.0, at=130)]
    offsets = [
        queue(at, topic, offset, number)
        for topic, (queues, _) in WRITTEN.items()
        for number, pair in enumerate(queues)
        for at, offset in zip((69, NOW), pair, strict=True)
    ]
    offsets += [queue(at, "long", at * 60) for at in (69, NOW)]
    offsets += [queue(at, "also on a new broker", at * 60) for at in (69, NOW)]
    offsets += [queue(NOW, "also on a new broker", 5000, broker="broker-b")]
    offsets += [queue(8, "long", 0), queue(16, "long", 400)]
    progressed = [
        read(at, group, *pair)
        for group, (before, now, _) in SERVED.items()
        for at, pair in ((69, before), (NOW, now))
    ]
    progressed += [
        read(at, "broadcast", at, at, offset_store="broker_broadcast") for at in (69, NOW)
    ]
    starts = [
        (snapshot_id(NOW), "broker-a", name, snapshot_id(before), snapshot_id(after), share)
        for name, (before, after, share) in WINDOWS.items()
    ]
    starts += [(snapshot_id(NOW), "broker-b", "minute", None, None, None)]
    away = counter("orders@away", 0, 0.0, 0.0)
    stats += [away, away | {"sum": 60, "tps": 1.0, "broker_id": 1}]
    progressed += [read(NOW, "away", 100, 100, readable_lag=9, pull_at=minute(NOW - 10))]
    brokers = [{"at": NOW, "broker_id": 0, "commit_log_max_offset": 9, "slave_read_enabled": True}]
    collected = throughput(
        frame(spark, raw.BROKER_STATS, stats),
        frame(spark, raw.QUEUE_OFFSETS, offsets),
        frame(spark, progress.QUEUES, progressed),
        starts_frame(spark, starts),
        frame(spark, raw.BROKERS, brokers),
        minutes(60, 120),
    ).collect()
    result = {(row["stats_name"], row["stats_key"], row["stats_window"]): row for row in collected}
    assert len(result) == len(collected)
    return result


def starts_frame(spark, rows):
    return spark.createDataFrame(
        rows,
        "snapshot_id string, broker string, stats_window string, before_id string, "
        "after_id string, share double",
    )


def test_tps_0_at_the_master_has_its_reason(computed):
    row = computed["GROUP_GET_NUMS", "orders@away", "minute"]
    assert (row["tps_master"], row["served_by_replicas"]) == (0, 1)
    assert row["slaves_serve_because"] == (
        "reads lie beyond the master's share of memory: a slave hands out 1.0 messages a second, "
        "the next message to hand out is 600 s old, "
        "the master serves reads within 40 % of its memory"
    )
    assert computed["GROUP_GET_NUMS", "orders@pulled", "minute"]["slaves_serve_because"] is None


@pytest.mark.parametrize("key", COUNTED)
def test_counters_are_added_up(computed, key):
    row = computed["TOPIC_PUT_NUMS", key, "minute"]
    names = ("tps_master", "tps_replicas", "tps", "sum", "avgpt", "served_by_replicas")
    assert tuple(row[name] for name in names) == COUNTED[key][1]


@pytest.mark.parametrize("topic", WRITTEN)
def test_what_was_written_by_our_offsets(computed, topic):
    assert computed["TOPIC_PUT_NUMS", topic, "minute"]["tps_observed"] == WRITTEN[topic][1]


@pytest.mark.parametrize("group", SERVED)
def test_what_was_handed_out_by_our_offsets(computed, group):
    row = computed["GROUP_GET_NUMS", f"orders@{group}", "minute"]
    assert row["tps_observed"] == SERVED[group][2]
    assert (row["topic"], row["consumer_group"]) == ("orders", group)


def test_a_window_begins_between_two_snapshots(computed):
    """4200 now, 100 an hour ago: a quarter of the way from 0 to 400."""
    stats_windows = {
        name: computed["TOPIC_PUT_NUMS", "long", name]["tps_observed"] for name in STATS_WINDOWS
    }
    assert stats_windows == {"minute": 1.0, "hour": pytest.approx(4100 / 3600), "day": None}


def test_a_broker_without_history_leaves_throughput_unknown(computed):
    assert computed["TOPIC_PUT_NUMS", "also on a new broker", "minute"]["tps_observed"] is None


def test_what_offsets_do_not_count_is_not_observed(computed):
    assert computed["TOPIC_PUT_SIZE", "long", "minute"]["tps_observed"] is None
    assert computed["GROUP_GET_NUMS", "orders@broadcast", "minute"]["tps_observed"] is None


def test_statistics_logs_change_no_snapshot_of_their_instant(computed):
    row = computed["TOPIC_PUT_NUMS", "two queues", "minute"]
    assert (row["snapshot_id"], row["tps_observed"]) == (snapshot_id(NOW), 3.0)


def test_another_time_has_no_row(computed):
    assert "another time" not in {key for _, key, _ in computed}
