"""Read-only admin requests with typed responses.

One function per request: ``await topic_stats(client, endpoint, topic)``. Each raises a
`tidemark.rocketmq.wire.codes.RemotingError`; `BadResponseError` when the body belongs to another
request.
"""

from collections.abc import Sequence
from functools import partial

from tidemark.rocketmq.admin import deep_requests, pop, responses
from tidemark.rocketmq.admin.broker_reports import decode_broker_config
from tidemark.rocketmq.admin.round_trip import request, request_offset, request_or_none
from tidemark.rocketmq.records import Producer
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import RequestCode, ResponseCode, ResponseError

# Name server -------------------------------------------------------------------------------------


async def broker_cluster_info(client: RemotingClient, endpoint: str) -> responses.ClusterInfo:
    """106: all brokers that are registered now. A broker that died is missing at once."""
    code = RequestCode.GET_BROKER_CLUSTER_INFO
    try:
        return await request(client, endpoint, code, responses.decode_broker_cluster_info)
    except ResponseError as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        # Every name server knows the request. Brokers, proxies and controllers do not.
        remark = "this is no name server, but a broker, a proxy or a controller"
        raise ResponseError(endpoint, code.name, error.code, remark) from None


async def all_topics(client: RemotingClient, endpoint: str) -> list[str]:
    """206: every topic the name server knows, system topics too. 5.x may refuse (code 1)."""
    code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    return await request(client, endpoint, code, responses.decode_topic_list)


# Broker ------------------------------------------------------------------------------------------


async def topic_configs(client: RemotingClient, endpoint: str) -> dict[str, responses.TopicConfig]:
    """21: the topics of one broker, system topics too."""
    return await request(
        client, endpoint, RequestCode.GET_ALL_TOPIC_CONFIG, responses.decode_topic_configs
    )


async def subscription_groups(
    client: RemotingClient, endpoint: str
) -> dict[str, responses.SubscriptionGroupConfig]:
    """201: the consumer groups one broker has a configuration for, RocketMQ's own too."""
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    return await request(client, endpoint, code, responses.decode_subscription_groups)


async def request_modes(client: RemotingClient, endpoint: str) -> pop.RequestModes | None:
    """402: by topic and group, POP or PULL; None from a broker without the request."""
    code, unknown = (
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    )
    return await request_or_none(client, endpoint, code, pop.decode_request_modes, {}, "", unknown)


async def broker_config(client: RemotingClient, endpoint: str) -> dict[str, str]:
    """26: the broker's configuration, `broker_config.CONFIG_KEYS` only."""
    return await request(client, endpoint, RequestCode.GET_BROKER_CONFIG, decode_broker_config)


async def broker_runtime_info(client: RemotingClient, endpoint: str) -> dict[str, str]:
    """28: the broker's own counters, all text; the keys depend on the version."""
    code = RequestCode.GET_BROKER_RUNTIME_INFO
    return await request(client, endpoint, code, responses.decode_broker_runtime_info)


async def consumer_offsets(client: RemotingClient, endpoint: str) -> responses.ConsumerOffsetTable:
    """43: the progress of every group on one broker; queues that never committed are absent."""
    return await request(
        client, endpoint, RequestCode.GET_ALL_CONSUMER_OFFSET, responses.decode_consumer_offsets
    )


async def topic_stats(
    client: RemotingClient, endpoint: str, topic: str
) -> dict[int, responses.QueueStats] | None:
    """202: the queues of a topic on one broker; None when the broker has no such topic."""
    return await request_or_none(
        client,
        endpoint,
        RequestCode.GET_TOPIC_STATS_INFO,
        partial(responses.decode_topic_stats, topic=topic),
        {"topic": topic},
        topic,
        ResponseCode.TOPIC_NOT_EXIST,
    )


async def consumer_connection(
    client: RemotingClient, endpoint: str, group: str
) -> responses.ConsumerConnection | None:
    """203: the members of a group connected to this broker; None when there are none.

    A client that died without closing stays for up to 120 s.
    """
    return await request_or_none(
        client,
        endpoint,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        responses.decode_consumer_connection,
        {"consumerGroup": group},
        group,
        ResponseCode.CONSUMER_NOT_ONLINE,
    )


async def producers(client: RemotingClient, endpoint: str) -> list[Producer] | None:
    """328: the producers that are connected to this broker; None before 4.9.4, which lacks it.

    A broker knows the group of a producer, not the topics that it writes. A client that died
    without closing stays for up to 120 s.
    """
    code, unknown = RequestCode.GET_ALL_PRODUCER_INFO, ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    return await request_or_none(
        client, endpoint, code, responses.decode_producers, {}, "", unknown
    )


async def consume_stats(
    client: RemotingClient, endpoint: str, group: str, topics: Sequence[str]
) -> dict[str, dict[int, responses.ConsumeStats]]:
    """208: a group on the queues of topics; a topic unknown to the broker is left out.

    Without topics the response leaves out those the group never committed on.

    Args:
        client: the transport.
        endpoint: a master.
        group: the group.
        topics: one topic; from 5.3.2 on also several. Older brokers ignore a list of topics.
    """
    fields = {"consumerGroup": group}
    fields |= {"topic": topics[0]} if len(topics) == 1 else {"topicList": ";".join(topics)}
    code, subject = RequestCode.GET_CONSUME_STATS, f"{group} {' '.join(topics[:3])}"
    return await request(client, endpoint, code, responses.decode_consume_stats, fields, subject)


async def consumer_ids(client: RemotingClient, endpoint: str, group: str) -> list[str]:
    """38: client ids of a group on this broker, sorted; rebalancing uses this list."""
    code, fields = RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}
    return await request(client, endpoint, code, responses.decode_consumer_ids, fields, group)


async def consumer_offset(
    client: RemotingClient, endpoint: str, group: str, topic: str, queue_id: int
) -> int | None:
    """14: next offset to consume of one queue; None when nothing was committed.

    Before 5.0 a broker may respond 0 for a queue that never committed (it ignores
    ``setZeroIfNotFound``). 43 shows the difference in every version.
    """
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "setZeroIfNotFound": "false",
    }
    code, subject = RequestCode.QUERY_CONSUMER_OFFSET, f"{group} {topic} {queue_id}"
    try:
        return await request_offset(client, endpoint, code, fields, subject)
    except ResponseError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise


async def max_offset(client: RemotingClient, endpoint: str, topic: str, queue_id: int) -> int:
    """30: next offset to be written; 0 also when the queue does not exist."""
    fields = {"topic": topic, "queueId": str(queue_id)}
    code = RequestCode.GET_MAX_OFFSET
    return await request_offset(client, endpoint, code, fields, f"{topic} {queue_id}")


async def min_offset(client: RemotingClient, endpoint: str, topic: str, queue_id: int) -> int:
    """31: oldest retained offset; may be -1 when the queue does not exist."""
    fields = {"topic": topic, "queueId": str(queue_id)}
    code = RequestCode.GET_MIN_OFFSET
    return await request_offset(client, endpoint, code, fields, f"{topic} {queue_id}")


# One counter, one queue, one client --------------------------------------------------------------


async def time_spans(
    client: RemotingClient, endpoint: str, group: str, topic: str
) -> dict[int, deep_requests.TimeSpan]:
    """303: store times around a group's progress, by queue.

    The broker reads up to four messages of every queue from its commit log; they may be cold.
    """
    fields = {"topic": topic, "group": group}
    code, subject = RequestCode.QUERY_CONSUME_TIME_SPAN, f"{group} {topic}"
    return await request(client, endpoint, code, deep_requests.decode_time_spans, fields, subject)
