"""Acknowledgements and messages in flight of POP groups, where offsets show neither.

The counters are those of real brokers (5.5.0, gRPC behind a Proxy): a hung group renews, a slow one
renews and finishes, a fast one pops and finishes. To take each counted acknowledgement for one
would show a hung group at work.
"""

import pytest

from spark.progress.popped import Witnesses, with_acknowledgements, with_inflight
from tests.support.table_rows import frame
from tidemark.lake.tables import progress, raw
from tidemark.rocketmq.consume_modes import NUMBERS, Certainty, Kind, Number

pytestmark = pytest.mark.spark

COUNTED = {
    # group: acknowledgements, checkpoints, messages handed out; rate a minute, acknowledged
    "g-hung": (40, 40, 0, 0, False),
    "g-slow": (104, 74, 0, 30, True),
    "g-fast": (60, 7, 200, 53, True),
    "g-single": (12, 12, 12, 0, None),
    "g-first": (2, 7, 100, 0, None),
    "g-idle": (0, 0, 0, 0, False),
    "g-retries": (9, 9, 0, 0, None),
    "g-lite": (3, 0, 0, 3, True),
}
"""g-retries pops its retry topic, whose pops brokers count as checkpoints of the topic itself."""

LITE = "%LMQ%$orders$alice"


def counters():
    names = ("GROUP_ACK_NUMS", "GROUP_CK_NUMS", "GROUP_GET_NUMS")
    counted = [
        (group, "orders", name, number)
        for group, numbers in COUNTED.items()
        for name, number in zip(names, numbers, strict=False)
    ]
    counted.append(("g-retries", "%RETRY%g-retries_orders", "GROUP_GET_NUMS", 5))
    return [
        {
            "at": 0,
            "stats_name": name,
            "stats_key": f"{topic}@{group}",
            "topic": topic,
            "consumer_group": group,
            "stats_window": "minute",
            "tps": number / 60,
        }
        for group, topic, name, number in counted
    ]


def group_row(group, **other):
    row = {"at": 0, "consumer_group": group, "topic": "orders", "consume_kind": "pop"}
    return row | other


@pytest.fixture(scope="module")
def acknowledged(spark):
    groups = [group_row(it, topic=LITE if it == "g-lite" else "orders") for it in COUNTED]
    rows = frame(spark, progress.GROUPS, [*groups, group_row("g-unread")])
    result = with_acknowledgements(
        rows.drop("ack_tps", "acknowledged"), frame(spark, progress.THROUGHPUT, counters())
    )
    return {row.consumer_group: row for row in result.collect()}


@pytest.mark.parametrize("group", COUNTED)
def test_renewals_are_no_acknowledgements(acknowledged, group):
    _, _, _, a_minute, is_known = COUNTED[group]
    row = acknowledged[group]
    assert row.ack_tps == pytest.approx(a_minute / 60)
    assert row.acknowledged is is_known


def test_without_counters_nothing_is_known(spark, acknowledged):
    row = acknowledged["g-unread"]
    assert (row.ack_tps, row.acknowledged) == (None, None)
    rows = frame(spark, progress.GROUPS, [group_row("g-slow")])
    (row,) = with_acknowledgements(rows.drop("ack_tps", "acknowledged"), None).collect()
    assert (row.ack_tps, row.acknowledged) == (None, None)


GRPC, REMOTING = "host@7@0@dn34gsc275r9", "10.0.0.1@7#55"

MEMBERS = {
    "grpc": [GRPC],
    "grpc-hung": [GRPC],
    "grpc-kv": [GRPC],
    "grpc-fifo": [GRPC],
    "remoting": [REMOTING, "10.0.0.2@7#55"],
    "half-told": [REMOTING, "10.0.0.2@7#55"],
    "pulls": [REMOTING],
}
KINDS = {"grpc-kv": "pop_kv", "grpc-fifo": "pop_fifo", "pulls": "pull"}
ENDPOINT = {"grpc": 184, "grpc-hung": 0, "grpc-kv": 104, "grpc-fifo": 32, "remoting": 0}
REPORTED = {"remoting": [150, 30], "half-told": [150]}
OFFSETS = {"inflight": 7, "inflight_source": "offsets"}

IN_FLIGHT = {
    "grpc": (184, "broker_metrics", 184),
    "grpc-hung": (None, None, 0),
    "grpc-kv": (None, None, 104),
    "grpc-fifo": (None, None, 32),
    "remoting": (180, "client_cache", 0),
    "half-told": (None, None, None),
    "pulls": (7, "offsets", None),
}


BROKER_ROWS = [{"at": 0, "broker": "broker-a"}]


def test_a_sum_without_a_broker_is_no_fact(spark):
    """184 at one of two brokers: the endpoint of the other one did not respond."""
    rows = frame(spark, progress.GROUPS, [group_row("grpc", consume_kind="pop")])
    clients = [{"at": 0, "consumer_group": "grpc", "client_id": GRPC}]
    endpoint = [{"at": 0, "consumer_group": "grpc", "topic": "orders", "inflight": 184}]
    (row,) = with_inflight(
        rows.drop("inflight_witness"),
        frame(spark, raw.CLIENTS, clients),
        frame(spark, raw.BROKERS, [*BROKER_ROWS, {"at": 0, "broker": "broker-b"}]),
        Witnesses(frame(spark, raw.BROKER_METRICS, endpoint)),
    ).collect()
    assert (row.inflight, row.inflight_source, row.inflight_witness) == (None, None, 184)


@pytest.fixture(scope="module")
def in_flight(spark):
    groups = [
        group_row(it, consume_kind=KINDS.get(it, "pop")) | (OFFSETS if it == "pulls" else {})
        for it in MEMBERS
    ]
    rows = frame(spark, progress.GROUPS, groups).drop("inflight_witness")
    clients = [
        {"at": 0, "consumer_group": group, "client_id": client}
        for group, ids in MEMBERS.items()
        for client in ids
    ]
    endpoint = [
        {"at": 0, "consumer_group": group, "topic": "orders", "inflight": count}
        for group, count in ENDPOINT.items()
    ]
    reports = [
        {
            "at": 0,
            "consumer_group": group,
            "client_id": MEMBERS[group][place],
            "topic": "orders",
            "queue_id": -1,
            "popped": True,
            "cached_messages": count,
        }
        for group, counts in REPORTED.items()
        for place, count in enumerate(counts)
    ]
    witnesses = Witnesses(
        frame(spark, raw.BROKER_METRICS, endpoint), frame(spark, raw.CLIENT_QUEUES, reports)
    )
    result = with_inflight(
        rows, frame(spark, raw.CLIENTS, clients), frame(spark, raw.BROKERS, BROKER_ROWS), witnesses
    )
    return {row.consumer_group: row for row in result.collect()}


@pytest.mark.parametrize("group", IN_FLIGHT)
def test_who_knows_what_is_in_flight(in_flight, group):
    """0 of an endpoint is no fact: pops that expired, and those of remoting members, count as 0."""
    row = in_flight[group]
    assert (row.inflight, row.inflight_source, row.inflight_witness) == IN_FLIGHT[group]


def test_every_kind_states_every_number():
    assert {kind: set(NUMBERS[kind]) for kind in Kind} == {kind: set(Number) for kind in Kind}
    for numbers in NUMBERS.values():
        for cell in numbers.values():
            assert cell.why.endswith(".")
            assert cell.requests or cell.certainty is Certainty.UNKNOWN
