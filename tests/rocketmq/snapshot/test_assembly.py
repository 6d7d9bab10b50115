"""Rows from the readings of brokers: the rules for the facts of a row."""

from datetime import UTC, datetime

import pytest

from tidemark.rocketmq.admin import responses
from tidemark.rocketmq.admin.broker_reports import decode_broker_config
from tidemark.rocketmq.admin.pop import LiteTopic
from tidemark.rocketmq.admin.responses import (
    Connection,
    ConsumerConnection,
    ConsumerOffsetTable,
    ConsumeStats,
    QueueStats,
    SubscriptionGroupConfig,
    TopicConfig,
)
from tidemark.rocketmq.names import OffsetKey
from tidemark.rocketmq.records import Snapshot, Subscription
from tidemark.rocketmq.snapshot.assembly import fill
from tidemark.rocketmq.snapshot.broker_reading import MAX_FORMER_QUEUES, BrokerReading

KEY = OffsetKey("T", "g")


def snapshot_of(*readings):
    snapshot = Snapshot(
        cluster="lab", source="remote", observed_at=datetime(2026, 11, 21, tzinfo=UTC)
    )
    fill(snapshot, readings)
    return snapshot


def online(*topics, model="CLUSTERING", client="c1"):
    return ConsumerConnection(
        connections=[
            Connection(
                client_id=client, client_address="127.0.0.1:5", language="JAVA", version="V5_3_3"
            )
        ],
        consume_type="CONSUME_PASSIVELY",
        message_model=model,
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscriptions={
            topic: Subscription(topic=topic, expression_type="TAG", expression="*", tags=[])
            for topic in topics
        },
    )


def master(broker="broker-a", *, offsets=None, pulls=None, queues=2, perm=6, **responses):
    """A master with topic T of two queues, each with messages 10 to 99."""
    given = {
        "offsets": ConsumerOffsetTable({KEY: offsets} if offsets else {}, pulls),
        "topics": {"T": TopicConfig(topic="T", read_queues=queues, write_queues=queues, perm=perm)},
        "groups": {},
        "topic_stats": {"T": {queue: QueueStats(10, 100, None) for queue in range(queues)}},
    }
    return BrokerReading(
        broker=broker, broker_id=0, address=f"{broker}:1", is_master=True, **(given | responses)
    )


def progress(*readings):
    """(broker, topic, queue) -> (consumer offset, pull offset, pull source, store)."""
    return {
        (row.broker, row.topic, row.queue_id): (
            row.consumer_offset,
            row.pull_offset,
            row.pull_source,
            row.offset_store,
        )
        for row in snapshot_of(*readings).consumer_offsets
    }


A0, A1 = ("broker-a", "T", 0), ("broker-a", "T", 1)
UNKNOWN = (None, None, None, "broker")


def test_an_offline_group_has_its_committed_rows():
    assert progress(master(offsets={0: 50})) == {A0: (50, None, None, "broker")}


def test_readings_drop_offsets_that_rows_hold():
    """A large cluster's snapshot would need both at once, the offsets as maps and as rows."""
    reading = master(offsets={0: 50})
    reading.topics = reading.groups = None
    assert len(snapshot_of(reading).consumer_offsets) == 1
    assert reading.offsets == ConsumerOffsetTable({}, None) and reading.responded


def test_an_online_group_has_all_its_readable_queues():
    texts = progress(master(offsets={0: 50}, connections={"g": online("T", "elsewhere")}))
    assert texts == {A0: (50, None, None, "broker"), A1: UNKNOWN}


def test_also_on_a_broker_it_is_not_connected_to():
    texts = progress(master(connections={"g": online("T")}), master("broker-b"))
    assert set(texts) == {A0, A1, ("broker-b", "T", 0), ("broker-b", "T", 1)}


def test_not_on_a_topic_without_read_permission():
    assert progress(master(perm=2, connections={"g": online("T")})) == {}


def test_minus_one_is_the_brokers_sign_for_never():
    assert progress(master(offsets={0: -1})) == {A0: UNKNOWN}
    assert progress(master(offsets={0: -7}))[A0][0] == -7  # no sign of anything: as read


def test_offsets_that_could_not_be_read_make_no_row():
    assert progress(master(connections={"g": online("T")})) != {}
    assert progress(master(offsets=None, connections={"g": online("T")}, **{"topics": None})) == {}
    reading = master(connections={"g": online("T")})
    reading.offsets = None
    assert progress(reading) == {}


def test_progress_on_a_deleted_topic_makes_no_row():
    assert progress(master(offsets={0: 50}, topics={})) == {}
    assert progress(master(offsets={0: 50}, topic_stats={"T": None})) == {}


def test_progress_stays_without_queue_offsets():
    reading = master(offsets={0: 50}, topic_stats={}, connections={"g": online("T")})
    assert progress(reading) == {A0: (50, None, None, "broker"), A1: UNKNOWN}
    assert snapshot_of(reading).queue_offsets == []


def test_a_queue_that_no_longer_is_makes_no_row():
    assert progress(master(offsets={0: 50, 7: 3})) == {A0: (50, None, None, "broker")}


def test_an_unmeasured_readable_queue_is_unknown():
    """Before 5.0 GET_TOPIC_STATS_INFO lists only queues that are written, here one."""
    reading = master(
        offsets={0: 50, 1: 60, 2: 70}, topic_stats={"T": {0: QueueStats(10, 99, None)}}
    )
    assert list(reading.queues_to_measure()) == [("T", 1), ("T", 2)]
    assert progress(reading) == {A0: (50, None, None, "broker"), A1: (60, None, None, "broker")}
    assert [row.queue_id for row in snapshot_of(reading).queue_offsets] == [0]


def test_queues_that_a_topic_had_before_are_measured():
    """A commit names them; no bulk response does. More of them than fit are a problem."""
    reading = master(
        offsets={0: 50, 3: 60}, topic_stats={"T": dict.fromkeys((0, 1), QueueStats(0, 99, None))}
    )
    assert list(reading.queues_to_measure()) == [("T", 3)]
    assert list(reading.invalid_offsets()) == []
    reading = master(offsets=dict.fromkeys(range(2, MAX_FORMER_QUEUES + 3), 5))
    (problem,) = reading.invalid_offsets()
    assert problem[1] == "1 commits on queues that their topics no longer have: left out"


def test_only_consumed_topics_are_measured_by_queue():
    reading = master()
    reading.topic_stats["T"] = {0: QueueStats(0, 9, None)}
    assert list(reading.queues_to_measure()) == []
    reading = master(connections={"g": online("T")})
    reading.topic_stats["T"] = {0: QueueStats(0, 9, None)}
    assert list(reading.queues_to_measure()) == [("T", 1)]
    reading.topic_stats["T"] = None
    assert list(reading.queues_to_measure()) == []


def test_a_broadcasting_group_has_the_broker_shadow_only():
    shadow = OffsetKey("T", "g", broadcast=True)
    table = ConsumerOffsetTable({KEY: {0: 5}, shadow: {0: 50}}, {KEY: {0: 60}})
    reading = master(offsets=None, connections={"g": online("T", model="BROADCASTING")})
    reading.offsets = table
    rows = snapshot_of(reading).consumer_offsets
    assert [(r.consumer_offset, r.pull_offset, r.offset_store, r.client_id) for r in rows] == [
        (50, None, "broker_broadcast", None),
    ]


def test_a_cluster_group_drops_old_broadcast_rows():
    shadow = OffsetKey("T", "g", broadcast=True)
    reading = master(offsets=None, connections={"g": online("T")})
    reading.offsets = ConsumerOffsetTable({KEY: {0: 5}, shadow: {0: 50}}, None)
    rows = [row for row in snapshot_of(reading).consumer_offsets if row.queue_id == 0]
    assert [(row.consumer_offset, row.offset_store) for row in rows] == [(5, "broker")]


@pytest.mark.parametrize(
    ("committed", "table", "pull", "source"),
    [
        (50, {0: 60}, 60, "consumer_offset_table"),
        (50, {0: 40}, 40, "consumer_offset_table"),  # stood still, as with reads from a slave
        (None, {0: 60}, 60, "consumer_offset_table"),
        (50, {1: 60}, None, None),
        (50, {0: -1}, None, None),
        (50, {0: -5}, -5, "consumer_offset_table"),  # as read; the quarantine decides
    ],
)
def test_pull_offsets_of_the_table(committed, table, pull, source):
    offsets = {} if committed is None else {0: committed}
    reading = master(offsets=offsets, pulls={KEY: table}, connections={"g": online("T")})
    assert progress(reading)[A0] == (committed, pull, source, "broker")


@pytest.mark.parametrize(
    ("committed", "stats", "pull", "source"),
    [
        (
            50,
            ConsumeStats(
                broker_offset=100, consumer_offset=50, pull_offset=60, last_consumed_at=None
            ),
            60,
            "consume_stats",
        ),
        (
            50,
            ConsumeStats(
                broker_offset=100, consumer_offset=50, pull_offset=None, last_consumed_at=None
            ),
            None,
            None,
        ),  # before 5.1
        (
            50,
            ConsumeStats(
                broker_offset=100, consumer_offset=50, pull_offset=-1, last_consumed_at=None
            ),
            None,
            None,
        ),  # the broker's own sign for unknown
        (
            None,
            ConsumeStats(
                broker_offset=100, consumer_offset=0, pull_offset=60, last_consumed_at=None
            ),
            60,
            "consume_stats",
        ),  # hangs on its first message
        (
            None,
            ConsumeStats(
                broker_offset=100, consumer_offset=0, pull_offset=0, last_consumed_at=None
            ),
            None,
            None,
        ),  # a 0 that means nothing
        (
            None,
            ConsumeStats(broker_offset=0, consumer_offset=0, pull_offset=0, last_consumed_at=None),
            0,
            "consume_stats",
        ),  # an empty queue: 0 it is
    ],
)
def test_pull_offsets_of_consume_stats(committed, stats, pull, source):
    offsets = {} if committed is None else {0: committed}
    reading = master(
        offsets=offsets, connections={"g": online("T")}, consume_stats={("g", "T"): {0: stats}}
    )
    assert progress(reading)[A0] == (committed, pull, source, "broker")


@pytest.mark.parametrize(
    ("committed", "queue", "requested", "expected"),
    [
        (100, QueueStats(10, 100, None), False, (100, "queue_end")),
        (None, QueueStats(0, 0, None), False, (0, "queue_end")),  # nothing was ever sent
        (-1, QueueStats(40, 40, None), False, (40, "queue_end")),  # all of it expired
        (99, QueueStats(10, 100, None), True, (None, None)),
        (101, QueueStats(10, 100, None), True, (None, None)),  # ahead of the broker
        (None, QueueStats(10, 100, None), True, (None, None)),
        (100, QueueStats(None, None, None), True, (None, None)),  # a queue that was not measured
    ],
)
def test_at_the_end_of_a_queue_no_request_is_needed(committed, queue, requested, expected):
    """Nothing is left to hand out, so the pull offset is the end too."""
    reading = master(
        topics={"T": TopicConfig(topic="T", read_queues=1, write_queues=1, perm=6)},
        connections={"g": online("T")},
        topic_stats={"T": {0: queue}},
        offsets={} if committed is None else {0: committed},
        config={"brokerVersionDesc": "V5_5_1"},
    )
    assert reading.pull_offset_requests() == ([("g", ["T"])] if requested else [])
    assert progress(reading)[A0][1:3] == expected


def test_at_the_end_nothing_is_known_of_an_offline_group():
    """It may have popped, and what it holds is not seen in offsets."""
    stats = {"T": {0: QueueStats(10, 50, None)}}
    assert progress(master(offsets={0: 50}, topic_stats=stats))[A0][1:3] == (None, None)


def test_a_pull_offset_is_capped_at_the_end_that_was_read_before():
    stats = {
        ("g", "T"): {
            0: ConsumeStats(
                broker_offset=140, consumer_offset=50, pull_offset=130, last_consumed_at=None
            )
        }
    }
    reading = master(offsets={0: 50}, connections={"g": online("T")}, consume_stats=stats)
    assert progress(reading)[A0][1:3] == (100, "consume_stats")


POP_RETRY = "%RETRY%g_T"
"""The topic of messages of T that g did not acknowledge in time."""


@pytest.mark.parametrize(
    ("modes", "default", "pulled"),
    [
        ({}, {}, {"T", "%RETRY%g"}),
        ({("T", "g"): "POP"}, {}, {"%RETRY%g"}),
        ({("T", "h"): "POP", ("T", "g"): "PULL"}, {}, {"T", "%RETRY%g"}),
        ({}, {"defaultMessageRequestMode": "POP"}, {"%RETRY%g"}),  # the plain one is pulled always
        ({("T", "g"): "PULL"}, {"defaultMessageRequestMode": "POP"}, {"T", "%RETRY%g"}),
    ],
)
def test_pop_groups_have_no_pull_offset(modes, default, pulled):
    topics = ("T", "%RETRY%g", POP_RETRY)
    reading = master(
        topics={
            topic: TopicConfig(topic=topic, read_queues=1, write_queues=1, perm=6)
            for topic in topics
        },
        groups={
            "g": SubscriptionGroupConfig(
                consumer_group="g",
                consume_enable=True,
                retry_max_times=16,
                which_broker_when_slow=1,
            )
        },
        connections={"g": online(*topics)},
        consume_stats={
            ("g", topic): {
                0: ConsumeStats(
                    broker_offset=100, consumer_offset=50, pull_offset=50, last_consumed_at=None
                )
            }
            for topic in topics
        },
        topic_stats={topic: {0: QueueStats(10, 100, None)} for topic in topics},
        request_modes=modes,
        config=default,
    )
    reading.offsets = ConsumerOffsetTable({OffsetKey(it, "g"): {0: 50} for it in topics}, None)
    pulls = {topic: pull for (_, topic, _), (_, pull, _, _) in progress(reading).items()}
    assert pulls == {topic: 50 if topic in pulled else None for topic in topics}
    assert {topic for _, topics in reading.pull_offset_requests() for topic in topics} == pulled


def test_one_client_on_two_brokers_is_one_row():
    one = master(connections={"g": online("T")})
    other = master("broker-b", connections={"g": online("U", "T"), "h": None})
    (client,) = snapshot_of(one, other).clients
    assert (client.consumer_group, client.client_id) == ("g", "c1")
    assert [it.topic for it in client.subscriptions] == ["T", "U"]
    assert client.subscriptions_source == "group"


def test_an_unreachable_broker_is_a_row_of_unknowns():
    snapshot = snapshot_of(
        BrokerReading(broker="broker-a", broker_id=0, address="broker-a:1", is_master=True)
    )
    (broker,) = snapshot.brokers
    named = ("broker", "broker_id", "address")
    values = {name: getattr(broker, name) for name in type(broker).__slots__}
    assert {name: value for name, value in values.items() if value is not None} == {
        name: values[name] for name in named
    }
    assert not (snapshot.queue_offsets or snapshot.topics or snapshot.consumer_groups)


def test_a_slave_gives_its_broker_row_only():
    slave = BrokerReading(
        broker="broker-a",
        broker_id=1,
        address="broker-a:2",
        is_master=False,
        config={"brokerRole": "SLAVE"},
    )
    slave.offsets = ConsumerOffsetTable({KEY: {0: 5}}, None)
    snapshot = snapshot_of(slave)
    assert snapshot.brokers[0].role == "SLAVE" and not snapshot.consumer_offsets


def recorded_master(version, recorded):
    def body(name):
        return recorded(version, f"{name}.body")

    return BrokerReading(
        broker="broker-a",
        broker_id=0,
        address="127.0.0.1:10911",
        is_master=True,
        deployment=frozenset({"broker-a", "LabCluster"}),
        runtime=responses.decode_broker_runtime_info(body("28_runtime_m")),
        config=decode_broker_config(body("26_config_m")),
        offsets=responses.decode_consumer_offsets(body("43_consumer_offset_m")),
        topics=responses.decode_topic_configs(body("21_topic_config_m")),
        groups=responses.decode_subscription_groups(body("201_subgroups_m")),
        connections={
            "g-broadcast": responses.decode_consumer_connection(body("203_conns_g-broadcast_m"))
        },
        topic_stats={
            "lab_orders": responses.decode_topic_stats(body("202_topic_stats_m"), "lab_orders")
        },
    )


def test_a_recorded_broker(version, recorded):
    snapshot = snapshot_of(recorded_master(version, recorded))
    (broker,) = snapshot.brokers
    assert broker.version == "V" + version.replace(".", "_")
    assert (broker.role, broker.retention_hours, broker.slave_read_enabled) == (
        "ASYNC_MASTER",
        72,
        True,
    )
    assert broker.flush_mode == "ASYNC_FLUSH"
    assert broker.disk_ratio == 0.21 and broker.put_tps and broker.earliest_stored_at
    assert broker.get_tps and broker.get_tps > 1000  # 4.x spells its key with one r
    assert broker.runtime and broker.runtime["putTps"].startswith(f"{broker.put_tps}")
    assert not [key for key in broker.runtime if "/" in key], "folders of the broker's host"
    kinds = {row.topic: row.kind for row in snapshot.topics}
    assert kinds["lab_orders"] == "normal" and kinds["%RETRY%g-slow"] == "retry"
    assert kinds["%DLQ%g-dlq"] == "dlq" and kinds["TBW102"] == kinds["broker-a"] == "system"
    system = {row.consumer_group for row in snapshot.consumer_groups if row.system}
    assert "TOOLS_CONSUMER" in system and "g-slow" not in system
    shadow = [row for row in snapshot.consumer_offsets if row.offset_store == "broker_broadcast"]
    assert len(shadow) == (0 if version == "4.9.7" else 8)
    assert len(snapshot.clients) == 2


def test_next_requests_to_a_recorded_broker(version, recorded):
    reading = recorded_master(version, recorded)
    assert "g-slow" in reading.known_groups() and "TOOLS_CONSUMER" not in reading.known_groups()
    measured = reading.topics_to_measure()
    assert "lab_orders" in measured and "%RETRY%g-slow" in measured and "TBW102" not in measured
    reading.connections["g-fast"] = online("lab_orders", "not-here")
    requested = [("g-fast", ["%RETRY%g-fast", "lab_orders"])]
    assert reading.pull_offset_requests() == ([] if version == "4.9.7" else requested)
    # Every response carries the version: `tidemark lag` requests no counters, and they may fail.
    reading.runtime, reading.reported_version = None, "V" + version.replace(".", "_")
    assert reading.pull_offset_requests() == ([] if version == "4.9.7" else requested)
    reading.reported_version = None
    if version == "5.3.3":
        # Before 5.3.2 a broker does not know the list of topics and would take it for none.
        for older in ("V5_1_0", "V5_3_1", None):
            reading.runtime = {"brokerVersionDesc": older} if older else None
            assert reading.pull_offset_requests() == [
                (group, [t]) for group, ts in requested for t in ts
            ]


# Slaves


def slave(pulls=None, stats=None):
    """A slave whose clients read from it, and its data of T: stale commits and its pull offset."""
    offsets = None if pulls is None else ConsumerOffsetTable({KEY: {0: 3}}, {KEY: pulls})
    reported = (
        {}
        if stats is None
        else {
            ("g", "T"): {
                0: ConsumeStats(
                    broker_offset=100, consumer_offset=3, pull_offset=stats, last_consumed_at=None
                )
            }
        }
    )
    return BrokerReading(
        broker="broker-a",
        broker_id=1,
        address="a:2",
        is_master=False,
        offsets=offsets,
        consume_stats=reported,
    )


@pytest.mark.parametrize(
    ("replica", "pull", "source"),
    [
        (slave(stats=80), 80, "consume_stats"),
        (slave(stats=40), 50, "consume_stats"),  # it handed out less than the master
        (slave(stats=130), 100, "consume_stats"),  # requested after the queue was read
        (slave(pulls={0: 80}), 80, "consumer_offset_table"),
        (slave(), 50, "consume_stats"),
    ],
)
def test_the_pull_offset_is_the_largest_over_replicas(replica, pull, source):
    stats = {
        ("g", "T"): {
            0: ConsumeStats(
                broker_offset=100, consumer_offset=50, pull_offset=50, last_consumed_at=None
            )
        }
    }
    reading = master(offsets={0: 50}, connections={"g": online("T")}, consume_stats=stats)
    assert progress(reading, replica)[A0] == (50, pull, source, "broker")


def test_a_slave_adds_no_consumer_offset():
    assert progress(master(offsets={0: 50}), slave(pulls={0: 3}))[A0] == (50, None, None, "broker")
    assert progress(slave(pulls={0: 80})) == {}


ALICE, BOB, INBOX = "%LMQ%$sessions$alice", "%LMQ%$sessions$bob", "%LMQ%inbox"


def lite(**responses):
    """A master with progress of g at 40 of three light queues, two of them lite topics."""
    offsets = {OffsetKey(topic, "g"): {0: 40} for topic in (ALICE, BOB, INBOX)}
    connections = {"g": online("sessions", model="LITE_SELECTIVE")}
    given = {"connections": connections, "reported_version": "V5_5_0"}
    reading = master(**(given | responses))
    reading.offsets = ConsumerOffsetTable(offsets, None)
    return reading


def measured(topic, *subscribers, reading=None):
    reading = reading or lite()
    lite_topic = LiteTopic(
        QueueStats(0, 100, None), frozenset(("g", subscriber) for subscriber in subscribers)
    )
    reading.add_lite_topic(topic, lite_topic)
    return reading


def test_lite_topics_with_progress_are_measured():
    """Not by requests for ordinary topics, which would keep a queue of a deleted one."""
    reading = lite()
    assert reading.lite_topics_to_measure(2000) == [ALICE, BOB]
    assert reading.topics_to_measure() == ["T"]
    assert reading.pull_offset_requests() == []
    unlisted = lite(topics=None)
    assert unlisted.topics_to_measure() == ["sessions"]
    assert unlisted.pull_offset_requests() == [("g", ["sessions"])]


def test_a_lite_topic_is_a_topic_of_one_queue():
    """The one that was not found has no row, nor has another light queue."""
    snapshot = snapshot_of(measured(ALICE))
    types = {row.topic: (row.message_type, row.kind) for row in snapshot.topics}
    assert types == {ALICE: ("LITE", "lmq"), "T": (None, "normal")}
    (row,) = snapshot.consumer_offsets
    assert (row.topic, row.consumer_offset, row.request_mode) == (ALICE, 40, "pop")
    without_topics = snapshot_of(measured(ALICE, reading=lite(topics=None)))
    assert [row.topic for row in without_topics.consumer_offsets] == [ALICE]


@pytest.mark.parametrize(
    ("subscriber", "topics"),
    [("c1", ["sessions", ALICE]), ("another", ["sessions"]), ("*", ["sessions", ALICE])],
)
def test_a_member_subscribes_to_its_own_lite_topics(subscriber, topics):
    (client,) = snapshot_of(measured(ALICE, subscriber)).clients
    assert [subscription.topic for subscription in client.subscriptions] == topics


def test_processes_with_one_client_id_are_one_member_with_several_connections():
    """As one broker lists them; two brokers list each member once."""
    twice = online("T", client="same")
    twice.connections.append(
        Connection(
            client_id="same", client_address="127.0.0.1:6", language="JAVA", version="V5_3_3"
        )
    )
    twice.connections.append(
        Connection(
            client_id="other", client_address="127.0.0.1:7", language="JAVA", version="V5_3_3"
        )
    )
    snapshot = snapshot_of(
        master(connections={"g": twice}),
        master("broker-b", connections={"g": online("T", client="other")}),
    )
    assert [(row.client_id, row.connections) for row in snapshot.clients] == [
        ("other", 1),
        ("same", 2),
    ]


def test_lite_topics_beyond_the_limit_are_left_out_and_counted():
    """That is no problem: such a cluster would never have a complete snapshot."""
    reading = lite()
    assert reading.lite_topics_to_measure(1) == [ALICE]
    assert reading.lite_topics_left_out == 1
    assert not list(reading.invalid_offsets())
