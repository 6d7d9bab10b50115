"""Bodies that real brokers sent, decoded."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemark.rocketmq.admin import responses
from tidemark.rocketmq.admin.broker_reports import CONFIG_KEYS, decode_broker_config
from tidemark.rocketmq.admin.pop import decode_request_modes
from tidemark.rocketmq.names import OffsetKey
from tidemark.rocketmq.typed_values import instant, instants


def test_cluster_info(version, recorded):
    info = responses.decode_broker_cluster_info(recorded(version, "106_cluster_info.body"))
    assert info.clusters == {"LabCluster": ["broker-b", "broker-a"]}
    group = info.brokers["broker-a"]
    assert group.addresses == {0: "127.0.0.1:10911", 1: "127.0.0.1:10921"}
    assert (group.cluster, group.acting_master) == ("LabCluster", False)


def test_topics(version, recorded):
    configs = responses.decode_topic_configs(recorded(version, "21_topic_config_m.body"))
    assert configs["lab_orders"] == responses.TopicConfig(
        topic="lab_orders", read_queues=8, write_queues=8, perm=6
    )
    assert list(configs["%RETRY%g-slow"].readable_queues) == [0]
    assert "lab_orders" in responses.decode_topic_list(recorded(version, "206_all_topics.body"))


def test_a_topic_without_read_permission_has_no_readable_queue():
    assert (
        list(
            responses.TopicConfig(topic="T", read_queues=4, write_queues=4, perm=2).readable_queues
        )
        == []
    )


def test_message_type_where_declared():
    body = (
        b'{"topicConfigTable":{"T":{"attributes":{"message.type":"FIFO"},"perm":6,'
        b'"readQueueNums":1,"writeQueueNums":1}}}'
    )
    assert responses.decode_topic_configs(body)["T"].message_type == "FIFO"


def test_a_static_topic_lists_its_hosted_queues(recorded):
    """Recorded of broker-a: queues 1 and 3 of four, which it keeps as its queues 0 and 1."""
    configs = responses.decode_topic_configs(recorded("5.3.3", "21_topic_config_static_m.body"))
    static = {topic: config for topic, config in configs.items() if config.hosted is not None}
    assert static == {
        "static_orders": responses.TopicConfig(
            topic="static_orders",
            read_queues=2,
            write_queues=2,
            perm=6,
            message_type=None,
            hosted=(1, 3),
        )
    }
    assert list(static["static_orders"].readable_queues) == [1, 3]


def test_subscription_groups(version, recorded):
    groups = responses.decode_subscription_groups(recorded(version, "201_subgroups_m.body"))
    orderly = None if version == "4.9.7" else False
    expected = responses.SubscriptionGroupConfig(
        consumer_group="g-slow",
        consume_enable=True,
        retry_max_times=16,
        which_broker_when_slow=1,
        consume_orderly=orderly,
    )
    assert groups["g-slow"] == expected


def test_broker_config_drops_keys_off_the_list(version, recorded):
    body = recorded(version, "26_config_m.body") + b"\naccessKey=a\nsecretKey=s3cret\n"
    config = decode_broker_config(body)
    assert config["brokerRole"] == "ASYNC_MASTER" and config["fileReservedTime"] == "72"
    assert config.keys() <= CONFIG_KEYS and "s3cret" not in str(config)


def test_runtime_info(version, recorded):
    runtime = responses.decode_broker_runtime_info(recorded(version, "28_runtime_m.body"))
    assert runtime["brokerVersionDesc"] == "V" + version.replace(".", "_")


def test_request_modes(recorded):
    modes = decode_request_modes(recorded("5.3.3", "402_request_modes_m.body"))
    assert modes == {("lab_orders", "g-pop"): "POP", ("lab_orders", "g-pop-stuck"): "POP"}


def test_consumer_offsets(version, recorded):
    table = responses.decode_consumer_offsets(recorded(version, "43_consumer_offset_m.body"))
    stuck = table.offsets[OffsetKey("lab_orders", "g-stuck")]
    assert list(stuck) == list(range(8)) and 0 in stuck.values()
    assert (OffsetKey("lab_orders", "g-hung") in table.offsets) == (version == "4.9.7")
    shadow = OffsetKey("lab_bcast", "g-broadcast", broadcast=True)
    assert (shadow in table.offsets) == (version == "5.3.3")
    assert table.pull_offsets is None


def test_pull_offset_table_of_5_5():
    body = b'{"offsetTable":{},"pullOffsetTable":{"T@g":{0:5}}}'
    assert responses.decode_consumer_offsets(body).pull_offsets == {OffsetKey("T", "g"): {0: 5}}
    empty = responses.decode_consumer_offsets(b'{"offsetTable":{},"pullOffsetTable":{}}')
    assert empty.pull_offsets == {}


def test_topic_stats(recorded):
    stats = responses.decode_topic_stats(recorded("5.3.3", "202_topic_stats_m.body"), "lab_orders")
    stored = datetime(2026, 11, 21, 9, 22, 3, 822000, UTC)
    assert sorted(stats) == list(range(8))
    assert stats[3] == responses.QueueStats(0, 3367, stored)


@pytest.mark.parametrize("timestamp", [0, -1])
def test_no_store_time_is_unknown(timestamp):
    body = (
        b'{"offsetTable":{{"queueId":0,"topic":"T"}:{"lastUpdateTimestamp":%d,"maxOffset":0,"minOffset":0}}}'
        % timestamp
    )
    assert responses.decode_topic_stats(body, "T")[0].newest_stored_at is None


def test_consume_stats(version, recorded):
    body = recorded(version, "208_consume_stats_g-stuck_topic_m.body")
    stats = responses.decode_consume_stats(body)["lab_orders"]
    stuck = next(queue for queue in stats.values() if queue.consumer_offset == 0)
    if version == "4.9.7":
        assert stuck.pull_offset is None
    else:
        assert (stuck.broker_offset, stuck.pull_offset) == (3370, 3369)
    assert stuck.last_consumed_at is None


def test_consumer_connection(version, recorded):
    body = recorded(version, "203_conns_g-inconsistent_m.body")
    consumer_connection = responses.decode_consumer_connection(body)
    assert [member.client_id for member in consumer_connection.connections] == [
        "127.0.0.1@g-inconsistent-0",
        "127.0.0.1@g-inconsistent-1",
    ]
    assert {member.version for member in consumer_connection.connections} == {
        "V" + version.replace(".", "_")
    }
    assert (consumer_connection.message_model, consumer_connection.consume_type) == (
        "CLUSTERING",
        "CONSUME_PASSIVELY",
    )
    assert list(consumer_connection.subscriptions) == ["%RETRY%g-inconsistent", "lab_orders"]
    assert len(consumer_connection.subscriptions["lab_orders"].tags) == 1


def test_consumer_ids(version, recorded):
    ids = responses.decode_consumer_ids(recorded(version, "38_consumer_list_g-idle_m.body"))
    assert ids == [f"127.0.0.1@g-idle-{number}" for number in range(10)]


QUEUES = st.lists(
    st.tuples(
        st.sampled_from(["b", "b", "b", "\u00e9", "\x01", "a}:{b"]),
        st.integers(-1, 3) | st.integers(2**31 - 1, 2**31),
        st.sampled_from(["T", "T", "T", "U", "a}:{b", '\\"']),
        *[st.integers(-5, 5) | st.integers(-(2**63) - 1, 2**63)] * 3,
    ),
    max_size=4,
)


RATES = ["0.5", "1.0E-5", "00.5", "1.0E999", "1"]


@given(
    QUEUES, st.sampled_from(RATES), st.binary(max_size=2), st.integers(0, 400), st.integers(0, 3)
)
@example([("b", 0, "T", 5, 1, 0)], "0.5", b"\xff", 31, 1)
def test_pattern_and_parser_read_the_same_queues(queues, rate, damage, place, span):
    parts = (
        f'{{"brokerName":"{broker}","queueId":{queue_id},"topic":"{topic}"}}:'
        f'{{"lastUpdateTimestamp":{stored},"maxOffset":{top},"minOffset":{low}}}'
        for broker, queue_id, topic, stored, top, low in queues
    )
    text = '{"offsetTable":{' + ",".join(parts) + '},"topicPutTps":' + rate + "}"
    body = bytearray(text.encode())
    body[place : place + span] = damage

    def outcome(read):
        try:
            return read(bytes(body), "T")
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    assert outcome(responses.decode_topic_stats) == outcome(responses.parse_topic_stats)


def test_the_recorded_queues_take_the_pattern(version, recorded, monkeypatch):
    body = recorded(version, "202_topic_stats_m.body")
    expected = responses.parse_topic_stats(body, "lab_orders")
    monkeypatch.delattr(responses, "parse_topic_stats")
    assert responses.decode_topic_stats(body, "lab_orders") == expected


@given(st.integers(1, 2**42 + 1000) | st.integers(1, 253_402_300_799_999))
def test_an_instant_is_exact(milliseconds):
    expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert instant(milliseconds) == expected
    assert instants([milliseconds]) == [expected]


@pytest.mark.parametrize("value", [0, -1, None, "5", 10**30])
def test_no_instant(value):
    assert instant(value) is None


def test_instants_equal_instant_of_each():
    values = [1, 0, -1, 10**30, 1_795_395_600_123]
    assert instants(values) == [instant(value) for value in values]


def test_producers(version, recorded):
    """Without the one that each Java client has for itself, its consumers too."""
    (producer,) = responses.decode_producers(recorded(version, "328_producers_m.body"))
    assert (producer.producer_group, producer.language) == ("p-shop", "JAVA")
    assert producer.client_id.endswith("@p-shop")
    assert producer.client_address and producer.client_address.startswith("127.0.0.1:")
    assert producer.version == f"V{version.replace('.', '_')}"
    assert producer.last_seen_at


@pytest.mark.parametrize(
    "body",
    [
        b'{"data":[]}',
        b'{"data":{"g":[{"clientId":1,"remoteIP":"/a:1"}]}}',
        b'{"data":{"g":[{"clientId":"c"}]}}',
        b'{"offsetTable":{}}',
    ],
)
def test_a_body_of_another_request_names_no_producers(body):
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        responses.decode_producers(body)
