"""Read-only admin requests with typed answers.

One function per request: ``await topic_stats(client, endpoint, topic)``. Each raises a
`rocketmq.errors.RemotingError`; `BadAnswerError` when the body is not what the request gives.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from rocketmq import answers, deep_answers, pop
from rocketmq.broker_config import decode_broker_config
from rocketmq.client import RemotingClient
from rocketmq.codes import RequestCode, ResponseCode
from rocketmq.errors import BadAnswerError, ResponseError

T = TypeVar("T")

CLIENT_SECONDS = 12.0
"""For what a broker passes on to a client: it waits up to 10 s for that (`Broker2Client`)."""

# Name server -------------------------------------------------------------------------------------


async def broker_cluster_info(client: RemotingClient, endpoint: str) -> answers.ClusterInfo:
    """106: all brokers that are registered now. A broker that died is missing at once."""
    return await _ask(
        client, endpoint, RequestCode.GET_BROKER_CLUSTER_INFO, answers.decode_broker_cluster_info
    )


async def topic_route(
    client: RemotingClient, endpoint: str, topic: str
) -> answers.TopicRoute | None:
    """105: where a topic lives; None when the name server does not know it."""
    decode, fields = answers.decode_topic_route, {"topic": topic}
    code, absent = RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.TOPIC_NOT_EXIST
    return await _ask_or_none(client, endpoint, code, decode, fields, topic, absent)


async def all_topics(client: RemotingClient, endpoint: str) -> list[str]:
    """206: every topic the name server knows, system topics too. 5.x may refuse (code 1)."""
    code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    return await _ask(client, endpoint, code, answers.decode_topic_list)


# Broker ------------------------------------------------------------------------------------------


async def topic_configs(client: RemotingClient, endpoint: str) -> dict[str, answers.TopicConfig]:
    """21: the topics of one broker, system topics too."""
    return await _ask(
        client, endpoint, RequestCode.GET_ALL_TOPIC_CONFIG, answers.decode_topic_configs
    )


async def subscription_groups(
    client: RemotingClient, endpoint: str
) -> dict[str, answers.SubscriptionGroupConfig]:
    """201: the consumer groups one broker has a configuration for, RocketMQ's own too."""
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    return await _ask(client, endpoint, code, answers.decode_subscription_groups)


async def request_modes(client: RemotingClient, endpoint: str) -> pop.RequestModes | None:
    """402: by topic and group whether it pulls or pops; None from a broker that does not know."""
    code, unknown = (
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    )
    return await _ask_or_none(client, endpoint, code, pop.decode_request_modes, {}, "", unknown)


async def broker_config(client: RemotingClient, endpoint: str) -> dict[str, str]:
    """26: the broker's configuration, `broker_config.CONFIG_KEYS` only."""
    return await _ask(client, endpoint, RequestCode.GET_BROKER_CONFIG, decode_broker_config)


async def broker_runtime_info(client: RemotingClient, endpoint: str) -> dict[str, str]:
    """28: the broker's own counters, all text; which keys there are depends on the version."""
    code = RequestCode.GET_BROKER_RUNTIME_INFO
    return await _ask(client, endpoint, code, answers.decode_broker_runtime_info)


async def consumer_offsets(client: RemotingClient, endpoint: str) -> answers.ConsumerOffsetTable:
    """43: the progress of every group on one broker, and what never committed by its absence."""
    return await _ask(
        client, endpoint, RequestCode.GET_ALL_CONSUMER_OFFSET, answers.decode_consumer_offsets
    )


async def topic_stats(
    client: RemotingClient, endpoint: str, topic: str
) -> dict[int, answers.QueueStats] | None:
    """202: the queues of a topic on one broker; None when the broker has no such topic."""
    return await _ask_or_none(
        client,
        endpoint,
        RequestCode.GET_TOPIC_STATS_INFO,
        partial(answers.decode_topic_stats, topic=topic),
        {"topic": topic},
        topic,
        ResponseCode.TOPIC_NOT_EXIST,
    )


async def consumer_connection(
    client: RemotingClient, endpoint: str, group: str
) -> answers.ConsumerConnection | None:
    """203: who of a group is connected to this broker; None when nobody is.

    A client that died without closing stays for up to 120 s.
    """
    return await _ask_or_none(
        client,
        endpoint,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        answers.decode_consumer_connection,
        {"consumerGroup": group},
        group,
        ResponseCode.CONSUMER_NOT_ONLINE,
    )


async def consume_stats(
    client: RemotingClient, endpoint: str, group: str, topics: Sequence[str]
) -> dict[str, dict[int, answers.ConsumeStats]]:
    """208: a group on the queues of topics; a topic not known there is left out.

    Asked with topics because without it leaves out those the group never committed on.

    Args:
        client: the transport.
        endpoint: a master.
        group: the group.
        topics: one topic; several from 5.3.2 on only, as older brokers would take it for none.
    """
    fields = {"consumerGroup": group}
    fields |= {"topic": topics[0]} if len(topics) == 1 else {"topicList": ";".join(topics)}
    code, subject = RequestCode.GET_CONSUME_STATS, f"{group} {' '.join(topics[:3])}"
    return await _ask(client, endpoint, code, answers.decode_consume_stats, fields, subject)


async def consumer_ids(client: RemotingClient, endpoint: str, group: str) -> list[str]:
    """38: client ids of a group on this broker, sorted; the list rebalancing works with."""
    code, fields = RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}
    return await _ask(client, endpoint, code, answers.decode_consumer_ids, fields, group)


async def consumer_offset(
    client: RemotingClient, endpoint: str, group: str, topic: str, queue_id: int
) -> int | None:
    """14: next offset to consume of one queue; None when nothing was committed.

    Before 5.0 a broker may answer 0 for a queue that never committed (it ignores
    ``setZeroIfNotFound``); 43 tells the difference in every version.
    """
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "setZeroIfNotFound": "false",
    }
    code, subject = RequestCode.QUERY_CONSUMER_OFFSET, f"{group} {topic} {queue_id}"
    try:
        return await _offset(client, endpoint, code, fields, subject)
    except ResponseError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise


async def max_offset(client: RemotingClient, endpoint: str, topic: str, queue_id: int) -> int:
    """30: next offset to be written; 0 also when the queue does not exist."""
    fields = {"topic": topic, "queueId": str(queue_id)}
    code = RequestCode.GET_MAX_OFFSET
    return await _offset(client, endpoint, code, fields, f"{topic} {queue_id}")


async def min_offset(client: RemotingClient, endpoint: str, topic: str, queue_id: int) -> int:
    """31: oldest offset still there; may be -1 when the queue does not exist."""
    fields = {"topic": topic, "queueId": str(queue_id)}
    code = RequestCode.GET_MIN_OFFSET
    return await _offset(client, endpoint, code, fields, f"{topic} {queue_id}")


# One counter, one queue, one client --------------------------------------------------------------


async def broker_stats(
    client: RemotingClient, endpoint: str, name: str, key: str
) -> dict[str, deep_answers.Stats] | None:
    """315: a counter by window; None where it counted nothing since the broker's start."""
    fields = {"statsName": name, "statsKey": key}
    code, subject = RequestCode.VIEW_BROKER_STATS_DATA, f"{name} {key}"
    try:
        return await _ask(client, endpoint, code, deep_answers.decode_broker_stats, fields, subject)
    except ResponseError as error:
        # The whole remark, "The stats <name> <key> not exist", may be cut for a long key.
        if error.code == ResponseCode.SYSTEM_ERROR and f"The stats <{name}>" in error.reason:
            return None
        raise


async def queue_entries(
    client: RemotingClient, endpoint: str, topic: str, queue_id: int, index: int, count: int
) -> list[deep_answers.QueueEntry]:
    """321: consume-queue entries from ``index`` on; at the end of a file fewer than asked for."""
    fields = {"topic": topic, "queueId": str(queue_id), "index": str(index), "count": str(count)}
    code, subject = RequestCode.QUERY_CONSUME_QUEUE, f"{topic} {queue_id} {index}"
    return await _ask(client, endpoint, code, deep_answers.decode_queue_entries, fields, subject)


async def time_spans(
    client: RemotingClient, endpoint: str, group: str, topic: str
) -> dict[int, deep_answers.TimeSpan]:
    """303: store times around a group's progress, by queue.

    Reads up to four messages of every queue from the commit log, and those may be cold.
    """
    fields = {"topic": topic, "group": group}
    code, subject = RequestCode.QUERY_CONSUME_TIME_SPAN, f"{group} {topic}"
    return await _ask(client, endpoint, code, deep_answers.decode_time_spans, fields, subject)


async def running_info(
    client: RemotingClient, endpoint: str, group: str, client_id: str
) -> deep_answers.RunningInfo:
    """307: what a member of a group tells of itself. Needs a client that may ask clients.

    Never with stack traces: for those the member walks through all its threads.
    """
    fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "false"}
    code, subject = RequestCode.GET_CONSUMER_RUNNING_INFO, f"{group} {client_id}"
    decode = deep_answers.decode_running_info
    return await _ask(client, endpoint, code, decode, fields, subject, CLIENT_SECONDS)


async def consumer_status(
    client: RemotingClient, endpoint: str, group: str, topic: str, client_id: str
) -> dict[deep_answers.MessageQueue, int]:
    """223: offsets in the memory of a member; Java clients only. Needs one that may ask clients.

    Raises:
        BadAnswerError: also when the member did not answer: the broker then says success and
            leaves it out.
    """
    fields = {"topic": topic, "group": group, "clientAddr": client_id}
    code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    decode = deep_answers.decode_consumer_status
    subject = f"{group} {topic} {client_id}"
    told = await _ask(client, endpoint, code, decode, fields, subject, CLIENT_SECONDS)
    if client_id not in told:
        raise BadAnswerError(endpoint, f"{code.name} {subject}", "the client did not answer")
    return told[client_id]


async def _ask(
    client: RemotingClient,
    endpoint: str,
    code: RequestCode,
    decode: Callable[[bytes], T],
    fields: Mapping[str, str] | None = None,
    subject: str = "",
    timeout: float | None = None,
) -> T:
    frame = await client.call(endpoint, code, fields, subject=subject, timeout=timeout)
    return _decoded(partial(decode, frame.body), endpoint, code, subject)


async def _ask_or_none(
    client: RemotingClient,
    endpoint: str,
    code: RequestCode,
    decode: Callable[[bytes], T],
    fields: Mapping[str, str],
    subject: str,
    absent: ResponseCode,
) -> T | None:
    try:
        return await _ask(client, endpoint, code, decode, fields, subject)
    except ResponseError as error:
        if error.code == absent:
            return None
        raise


async def _offset(
    client: RemotingClient,
    endpoint: str,
    code: RequestCode,
    fields: Mapping[str, str],
    subject: str,
) -> int:
    frame = await client.call(endpoint, code, fields, subject=subject)
    return _decoded(lambda: int(frame.fields["offset"]), endpoint, code, subject)


def _decoded(read: Callable[[], T], endpoint: str, code: RequestCode, subject: str) -> T:
    try:
        return read()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        operation = f"{code.name} {subject}".rstrip()
        reason = f"unreadable answer: {type(error).__name__}: {error}"
        raise BadAnswerError(endpoint, operation, reason[:300]) from error
