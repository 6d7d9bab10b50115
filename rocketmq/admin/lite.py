"""Lite topics (from 5.5 on): light queues that no broker lists, measured by a request of their own.

No requests for ordinary topics are sent about them. Those would make a broker keep a queue for a
lite topic that it has deleted meanwhile (`ConsumeQueueStore.findOrCreateConsumeQueue`). This
request reads only existing lite topics (`LiteManagerProcessor.getLiteTopicInfo`).
"""

from dataclasses import dataclass

from rocketmq.admin.queue_stats import QueueStats
from rocketmq.admin.round_trip import request_or_none
from rocketmq.names import names_of_lite_topic
from rocketmq.typed_values import instant, integer, object_of, short_text
from rocketmq.wire.client import RemotingClient
from rocketmq.wire.codes import RequestCode, ResponseCode
from rocketmq.wire.fastjson import loads

EVERYBODY = "*"
"""Stands for all members of a group that consumes every lite topic."""


@dataclass(slots=True, frozen=True)
class LiteTopic:
    """A lite topic on one broker.

    Attributes:
        queue: its only queue.
        subscribers: (consumer group, client id or `EVERYBODY`) of its consumers.
    """

    queue: QueueStats
    subscribers: frozenset[tuple[str, str]]


def decode_lite_topic(body: bytes) -> LiteTopic | None:
    """Decode a 200076 body; None for a lite topic that holds nothing, such as a deleted one."""
    found = object_of(loads(body))
    offsets = object_of(found["topicOffset"])
    maximum = integer(offsets["maxOffset"])
    if maximum == 0:
        return None
    written = instant(offsets.get("lastUpdateTimestamp"))
    members = (object_of(member) for member in found.get("subscriber") or ())
    return LiteTopic(
        QueueStats(integer(offsets["minOffset"]), maximum, written),
        frozenset(
            (short_text(member["group"]), short_text(member["clientId"])) for member in members
        ),
    )


async def read_lite_topic(client: RemotingClient, endpoint: str, topic: str) -> LiteTopic | None:
    """200076: a lite topic on one broker; None when the broker has no such lite topic.

    Args:
        client: the transport.
        endpoint: a master.
        topic: the name of its light queue, ``%LMQ%$<parent>$<lite topic>``.
    """
    parent, name = names_of_lite_topic(topic) or (topic, "")
    return await request_or_none(
        client,
        endpoint,
        RequestCode.GET_LITE_TOPIC_INFO,
        decode_lite_topic,
        {"parentTopic": parent, "liteTopic": name},
        topic,
        ResponseCode.TOPIC_NOT_EXIST,
    )
