"""``consume_mode``, ``lag_is_lower_bound`` and what is never in flight by offsets alone.

Every group of `SIGNS` is on a topic of its own in one snapshot, so one computation serves all.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from spark.progress.queues import queues
from tests.support.table_rows import frame, minute, minutes, raw_frames
from tidemark.lake.tables import progress, raw
from tidemark.live.lag import group_rows
from tidemark.rocketmq.records import (
    Broker,
    BrokerStats,
    Client,
    ConsumerOffset,
    QueueOffset,
    Snapshot,
    Subscription,
    Topic,
)

pytestmark = pytest.mark.spark

GRPC, REMOTING = "host@7@0@dn34gsc275r9", "10.0.0.1@7#55"


def member(group: str, client_id: str, *topics: str, **other: Any) -> dict[str, Any]:
    subscriptions = [
        {"topic": topic, "expression_type": "TAG", "expression": "*", "tags": []}
        for topic in topics
    ]
    return {
        "at": 0,
        "consumer_group": group,
        "client_id": client_id,
        "consume_type": "CONSUME_PASSIVELY",
        "message_model": "CLUSTERING",
        "subscriptions": subscriptions,
    } | other


CLIENTS = [
    member("grpc-push", GRPC, "orders"),
    member("grpc-simple", GRPC, "orders", consume_type="CONSUME_ACTIVELY"),
    member("remoting", REMOTING, "orders", "%RETRY%remoting"),
    member("remoting-pop", REMOTING, "orders", "%RETRY%remoting-pop"),
    member("lite-pull", REMOTING, "orders", consume_type="CONSUME_ACTIVELY"),
    member("broadcast", REMOTING, "orders", message_model="BROADCASTING"),
    member("old-pop", REMOTING, "orders", "%RETRY%old-pop", consume_type="CONSUME_POP"),
    member("both", REMOTING, "orders", "%RETRY%both"),
]

TOPICS = [
    ("%RETRY%retried_v1_orders", "pop_retry"),
    ("%RETRY%retried-v2+orders", "pop_retry"),
    ("%RETRY%remoting", "retry"),
]

COUNTED = [("counted", 12), ("both", 3), ("uncounted", 0)]

SIGNS = {
    "grpc-push": "pop",
    "grpc-simple": "pop",
    "remoting": "pull",
    "remoting-pop": "pop",  # set so (402)
    "set-to-pull": "pull",
    "lite-pull": None,
    "broadcast": "pull",
    "old-pop": "pop",
    "retried_v1": "pop",
    "retried-v2": "pop",
    "counted": "pop",
    "both": "pop",
    "uncounted": None,
    "nothing": None,
}

REQUEST_MODES = {"remoting-pop": "pop", "set-to-pull": "pull"}


def read(group: str, topic: str = "orders", **other: Any) -> dict[str, Any]:
    return {
        "at": 0,
        "topic": topic,
        "queue_id": 0,
        "consumer_group": group,
        "consumer_offset": 60,
        "pull_offset": 90,
        "pull_source": "consumer_offset_table",
        "offset_store": "broker",
        "request_mode": REQUEST_MODES.get(group),
    } | other


def written(topic: str = "orders", **other: Any) -> dict[str, Any]:
    return {"at": 0, "topic": topic, "queue_id": 0, "min_offset": 0, "max_offset": 100} | other


def computed(spark, read_rows, written_rows=None, version="V5_5_0", config=None):
    """The one row of each group."""
    broker = {"at": 0, "broker_id": 0, "version": version, "config": config or {}}
    frames = raw_frames(
        spark,
        brokers=[broker],
        queue_offsets=written_rows or [written()],
        consumer_offsets=read_rows,
        clients=[{name: row[name] for name in row} for row in CLIENTS],
        topics=[{"at": 0, "topic": topic, "kind": kind} for topic, kind in TOPICS],
    )
    counters = [
        {
            "at": 0,
            "broker_id": 0,
            "stats_name": "GROUP_ACK_NUMS",
            "stats_key": f"orders@{group}",
            "topic": "orders",
            "consumer_group": group,
            "stats_window": "minute",
            "sum": count,
        }
        for group, count in COUNTED
    ]
    collected = queues(
        frames, minutes(0, 60), broker_stats=frame(spark, raw.BROKER_STATS, counters)
    ).collect()
    rows = {(row.consumer_group, row.topic): row for row in collected}
    assert len(rows) == len(collected) == len(read_rows), "a sign adds no row"
    return rows


@pytest.fixture(scope="module")
def rows(spark):
    mapping = computed(spark, [read(group) for group in SIGNS])
    return {group: row for (group, _), row in mapping.items()}


@pytest.fixture(scope="module")
def finished(spark):
    done = {"consumer_offset": 100, "pull_offset": 100}
    mapping = computed(spark, [read(group, **done) for group in SIGNS])
    return {group: row for (group, _), row in mapping.items()}


KINDS = {"both": "mixed"}


@pytest.mark.parametrize("group", SIGNS)
def test_signs_of_consume_modes(rows, group):
    row, mode = rows[group], SIGNS[group]
    assert row.consume_mode == mode
    assert row.consume_kind == KINDS.get(group, mode or "unknown")
    assert row.lag_is_lower_bound is (None if mode is None else mode == "pop")


@pytest.mark.parametrize("group", SIGNS)
def test_pop_is_never_in_flight_by_offsets(rows, group):
    """0 would be an invention, and so would be any other difference of offsets."""
    row, pops = rows[group], SIGNS[group] == "pop"
    assert (row.inflight, row.inflight_source) == ((None, None) if pops else (30, "offsets"))
    # Messages that were not popped are ready, unless pulling members move the commit.
    assert (row.lag, row.available) == (40, None if group == "both" else 40 if pops else 10)
    assert (row.inflight_span_ms is None) or not pops


@pytest.mark.parametrize("group", SIGNS)
def test_nothing_left_to_pop_is_no_fact(spark, finished, group):
    """0 unconsumed of a group that pops: a bound, with no drain; of others a fact."""
    row, pops = finished[group], SIGNS[group] == "pop"
    assert (row.lag, row.delay_ms) == (0, 0)
    expected = ("at_least", None, None) if pops else ("exact", 0, 0.0)
    assert (row.delay_source, row.delay_error_ms, row.drain_seconds) == expected
    assert row.ready_delay_ms == (None if group == "both" else 0)


def test_a_client_reports_what_is_in_flight(spark):
    """Then the lag holds it too."""
    rows = computed(spark, [read("grpc-push", pull_source="client_cache")])
    row = rows["grpc-push", "orders"]
    assert (row.consume_mode, row.inflight, row.lag_is_lower_bound) == ("pop", 30, False)


def test_a_broker_before_5_0_never_pops(spark):
    assert computed(spark, [read("nothing")], version="V4_9_7")["nothing", "orders"][
        "consume_mode"
    ] == ("pull")


def test_kv_service_pull_offsets_show_nothing_in_flight(spark):
    """There popped messages move the pull offset, of groups that nothing else shows to pop."""
    config = {"popConsumerKVServiceEnable": "true"}
    rows = computed(spark, [read("nothing"), read("remoting")], config=config)
    unknown, pulls = rows["nothing", "orders"], rows["remoting", "orders"]
    assert (unknown.consume_mode, unknown.inflight, unknown.available) == (None, None, 10)
    assert (pulls.consume_mode, pulls.inflight) == ("pull", 30)


def test_pop_retry_topics_are_popped(spark):
    names = ["%RETRY%retried_v1_orders", "%RETRY%retried-v2+orders"]
    groups = ["retried_v1", "retried-v2"]
    pairs = list(zip(groups, names, strict=True))
    rows = computed(
        spark,
        [read(group, name) for group, name in pairs],
        [written(name) for name in names],
    )
    assert [rows[pair].consume_mode for pair in pairs] == ["pop", "pop"]


def test_lag_without_spark_shows_the_same(rows):
    """It is given the counters. What a broadcasting group committed as a cluster it leaves out."""
    groups = SIGNS.keys() - {"broadcast"}
    taken = Snapshot(cluster="lab", source="remote", observed_at=minute(0), status="COMPLETE")
    taken.brokers = [Broker(broker="broker-a", broker_id=0, address="a:1", version="V5_5_0")]
    taken.queue_offsets = [
        QueueOffset(broker="broker-a", topic="orders", queue_id=0, min_offset=0, max_offset=100)
    ]
    for group in groups:
        offset = ConsumerOffset(
            broker="broker-a",
            consumer_group=group,
            topic="orders",
            queue_id=0,
            client_id=None,
            consumer_offset=60,
            pull_offset=90,
        )
        taken.consumer_offsets.append(replace(offset, request_mode=REQUEST_MODES.get(group)))
    taken.topics = [
        Topic(
            broker="broker-a",
            topic=topic,
            read_queues=1,
            write_queues=1,
            perm=6,
            message_type=None,
            kind=kind,
        )
        for topic, kind in TOPICS
    ]
    for row in CLIENTS:
        client = Client(
            consumer_group=row["consumer_group"],
            client_id=row["client_id"],
            client_address=None,
            language=None,
            version=None,
            consume_type=None,
            message_model=None,
            consume_from_where=None,
        )
        taken.clients.append(
            replace(
                client,
                consume_type=row["consume_type"],
                message_model=row["message_model"],
                subscriptions=[
                    Subscription(**subscription) for subscription in row["subscriptions"]
                ],
            )
        )
    for group, count in COUNTED:
        key = f"orders@{group}"
        counter = BrokerStats(
            broker="broker-a",
            broker_id=0,
            stats_name="GROUP_ACK_NUMS",
            stats_key=key,
            topic="orders",
            consumer_group=group,
            stats_window="minute",
            sum=0,
            tps=0,
            avgpt=0,
        )
        taken.broker_stats.append(replace(counter, sum=count))
    live = {row["consumer_group"]: row for row in group_rows(taken) if row["topic"] == "orders"}
    names = ("consume_mode", "consume_kind", "lag_is_lower_bound", "inflight", "available")
    assert {group: [live[group][name] for name in names] for group in groups} == {
        group: [rows[group][name] for name in names] for group in groups
    }


def times_of_modes(spark, reads, window, clients=(), earlier=None):
    """Mode, bound and instant of the last sign of each row: by group and instant."""
    frames = raw_frames(
        spark,
        queue_offsets=[written(at=at) for at in sorted({row["at"] for row in reads})],
        consumer_offsets=reads,
        clients=clients,
    )
    before = None if earlier is None else frame(spark, progress.QUEUES, earlier)
    rows = queues(frames, minutes(*window), earlier=before).collect()
    return {
        (row.consumer_group, row.observed_at): (
            row.consume_mode,
            row.lag_is_lower_bound,
            row.consume_mode_at,
        )
        for row in rows
    }


def test_a_mode_is_remembered_when_members_leave(spark):
    """For a day, and the same by one run over both snapshots and by a run for each."""
    group, day = "grpc-push", 24 * 60
    reads = [read(group, at=at) for at in (0, 1, day + 1)]
    (online,) = [row for row in CLIENTS if row["consumer_group"] == group]
    start = minute(0).replace(tzinfo=None)  # as rows of Spark have instants
    popped = ("pop", True, start)
    whole = times_of_modes(spark, reads, (0, 2 * day), [online])
    assert whole == {
        (group, start): popped,
        (group, start + timedelta(minutes=1)): popped,
        (group, start + timedelta(days=1, minutes=1)): (None, None, None),
    }
    stored = {"at": 0, "topic": "orders", "queue_id": 0, "consumer_group": group}
    stored |= {"consume_mode": "pop", "consume_mode_at": minute(0)}
    assert times_of_modes(spark, reads[1:], (1, 2 * day), earlier=[stored]) == {
        key: value for key, value in whole.items() if key[1] > start
    }


def test_pop_in_order_has_a_lag_and_nothing_ready(spark):
    """The commit follows acknowledgements: it is no pull offset, whatever 208 reports."""
    orderly = [{"at": 0, "consumer_group": "grpc-push", "consume_orderly": True}]
    frames = raw_frames(
        spark,
        queue_offsets=[written()],
        consumer_offsets=[read("grpc-push")],
        clients=CLIENTS,
        consumer_groups=orderly,
    )
    (row,) = queues(frames, minutes(0, 60)).collect()
    assert (row.consume_kind, row.lag, row.lag_is_lower_bound) == ("pop_fifo", 40, False)
    assert (row.inflight, row.available, row.ready_delay_ms) == (None, None, None)


def test_the_key_value_store_moves_pull_offsets(spark):
    rows = computed(spark, [read("grpc-push")], config={"popConsumerKVServiceEnable": "true"})
    row = rows["grpc-push", "orders"]
    assert (row.consume_kind, row.lag, row.lag_is_lower_bound) == ("pop_kv", 40, True)
    assert (row.inflight, row.available) == (None, 10)


def test_what_a_broker_keeps_of_broadcasting_clients_is_a_pull_position(spark):
    shadow = read("broadcast", offset_store="broker_broadcast", pull_offset=None)
    row = computed(spark, [shadow])["broadcast", "orders"]
    assert (row.consume_kind, row.lag, row.lag_is_lower_bound) == ("broadcast_broker", 40, True)
    assert (row.available, row.delay_source) in ((40, None), (40, "at_least"))
