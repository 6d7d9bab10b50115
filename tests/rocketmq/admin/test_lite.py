"""Bodies about lite topics, as brokers of 5.5.0 send them."""

import pytest

from tidemark.rocketmq.admin.pop import LiteNumbers, decode_lite_numbers, decode_lite_topic
from tidemark.rocketmq.admin.responses import QueueStats
from tidemark.rocketmq.names import names_of_lite_topic
from tidemark.rocketmq.typed_values import instant

BODY = (
    b'{"liteTopic":"alice","parentTopic":"sessions","shardingToBroker":true,'
    b'"subscriber":[{"clientId":"c1","group":"g"},{"clientId":"*","group":"all"}],'
    b'"topicOffset":{"lastUpdateTimestamp":1764036912264,"maxOffset":100,"minOffset":7}}'
)


def test_offsets_and_subscribers():
    lite_topic = decode_lite_topic(BODY)
    assert lite_topic is not None
    assert lite_topic.queue == QueueStats(7, 100, instant(1764036912264))
    assert lite_topic.subscribers == {("g", "c1"), ("all", "*")}


def test_numbers_of_a_broker():
    body = (
        b'{"cqTableSize":3,"currentLmqNum":3,"eventMapSize":1,"groupMeta":{"sessions":["g"]},'
        b'"liteSubscriptionCount":2,"maxLmqNum":20000,"offsetTableSize":4,"orderInfoCount":0,'
        b'"storeType":"default","topicMeta":{"sessions":0}}'
    )
    assert decode_lite_numbers(body) == LiteNumbers(light_queues=3, limit=20_000, subscriptions=2)


def test_a_lite_topic_that_holds_nothing_is_none():
    """A broker reports a deleted one, or one that never was, with offsets of 0."""
    empty = BODY.replace(b"1764036912264", b"0").replace(b":100", b":0").replace(b":7", b":0")
    assert decode_lite_topic(empty) is None


@pytest.mark.parametrize(
    ("topic", "names"),
    [
        ("%LMQ%$sessions$alice", ("sessions", "alice")),
        ("%LMQ%inbox", None),
        ("%LMQ%$sessions", None),
        ("%LMQ%$sessions$", None),
        ("%LMQ%$a$b$c", None),
        ("sessions$alice$x", None),
    ],
)
def test_names_of_lite_topics(topic, names):
    assert names_of_lite_topic(topic) == names
