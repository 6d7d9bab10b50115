"""Groups that consume by POP (from 5.0 on), message by message, and lite topics.

The pull offset that a broker reports for such a group is its commit, as `PopMessageProcessor`
tracks messages in flight elsewhere. Used as a pull offset it would show nothing in flight.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.model.consumption import ConsumeMode
from tidemark.rocketmq.admin.responses import QueueStats
from tidemark.rocketmq.admin.round_trip import request_or_none
from tidemark.rocketmq.names import RETRY_PREFIX, is_lite_topic, names_of_lite_topic, version_order
from tidemark.rocketmq.typed_values import instant, integer, object_of, short_text
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import RequestCode, ResponseCode
from tidemark.rocketmq.wire.fastjson import loads

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
    mapping = object_of(loads(body))
    offsets = object_of(mapping["topicOffset"])
    maximum = integer(offsets["maxOffset"])
    if maximum == 0:
        return None
    written = instant(offsets.get("lastUpdateTimestamp"))
    members = (object_of(member) for member in mapping.get("subscriber") or ())
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


@dataclass(slots=True, frozen=True, kw_only=True)
class LiteNumbers:
    """Counts of a broker about its lite topics, in one response.

    Attributes:
        light_queues: queues of lite topics, and other light queues.
        limit: most of them (`maxLmqConsumeQueueNum`); messages to further ones are refused.
        subscriptions: lite topics that members are subscribed to, once for each member.
    """

    light_queues: int
    limit: int
    subscriptions: int


def decode_lite_numbers(body: bytes) -> LiteNumbers:
    """Decode a 200074 body; raises the errors of decoders in `responses`."""
    mapping = object_of(loads(body))
    return LiteNumbers(
        light_queues=integer(mapping["currentLmqNum"]),
        limit=integer(mapping["maxLmqNum"]),
        subscriptions=integer(mapping["liteSubscriptionCount"]),
    )


async def read_lite_numbers(client: RemotingClient, endpoint: str) -> LiteNumbers | None:
    """200074: what a master holds for lite topics; None when it has no such request."""
    return await request_or_none(
        client,
        endpoint,
        RequestCode.GET_BROKER_LITE_INFO,
        decode_lite_numbers,
        {},
        "",
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    )


LITE_SINCE = version_order("V5_5_0")
"""The version that came with lite topics."""

POP_SINCE = version_order("V5_0_0")

POP, PULL = "POP", "PULL"

RequestModes = dict[tuple[str, str], str]
"""`POP` or `PULL` by (topic, group), where a user has set it."""


def decode_request_modes(body: bytes) -> RequestModes:
    """Decode a 402 body; raises the errors of decoders in `tidemark.rocketmq.admin.responses`."""
    table = object_of(object_of(loads(body))["messageRequestModeMap"])
    return {
        (short_text(topic), short_text(group)): short_text(chosen["mode"])
        for topic, groups in table.items()
        for group, chosen in object_of(groups).items()
    }


def request_mode(
    topic: str, group: str, modes: Mapping[tuple[str, str], str], default: str
) -> str | None:
    """Return ``pull`` or ``pop`` as configured at a broker for a group; None without configuration.

    gRPC clients pop with any configuration. Lite topics can only be popped (`PopLiteMessage`).

    Args:
        topic: a topic.
        group: the group.
        modes: the modes that users have set.
        default: the broker's ``defaultMessageRequestMode``.
    """
    chosen = POP if is_lite_topic(topic) else modes.get((topic, group))
    if chosen is None and default == POP and not topic.startswith(RETRY_PREFIX):
        chosen = POP
    return {POP: ConsumeMode.POP, PULL: ConsumeMode.PULL}.get(chosen or "")


def is_popped(topic: str, group: str, modes: Mapping[tuple[str, str], str], default: str) -> bool:
    """Return whether a broker hands out messages of a topic to a group by POP.

    Args:
        topic: a topic, but not a POP retry topic.
        group: the group.
        modes: the modes that users have set.
        default: the broker's ``defaultMessageRequestMode``, for all but retry topics
            (`QueryAssignmentProcessor`).
    """
    otherwise = PULL if topic.startswith(RETRY_PREFIX) else default
    return is_lite_topic(topic) or modes.get((topic, group), otherwise) == POP
