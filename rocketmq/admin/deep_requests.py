"""Read-only requests about one client, one counter or one queue, with typed responses."""

from rocketmq.admin import client_responses, deep_responses
from rocketmq.admin.round_trip import request
from rocketmq.wire.client import RemotingClient
from rocketmq.wire.codes import RequestCode, ResponseCode
from rocketmq.wire.errors import BadResponseError, ResponseError

CLIENT_SECONDS = 12.0
"""Timeout of a forwarded request: the broker waits up to 10 s for the client (`Broker2Client`)."""


async def broker_stats(
    client: RemotingClient, endpoint: str, name: str, key: str
) -> dict[str, deep_responses.Stats] | None:
    """315: a counter by window; None where it counted nothing since the broker's start."""
    fields = {"statsName": name, "statsKey": key}
    code, subject = RequestCode.VIEW_BROKER_STATS_DATA, f"{name} {key}"
    try:
        return await request(
            client, endpoint, code, deep_responses.decode_broker_stats, fields, subject
        )
    except ResponseError as error:
        # The whole remark, "The stats <name> <key> not exist", may be cut for a long key.
        if error.code == ResponseCode.SYSTEM_ERROR and f"The stats <{name}>" in error.reason:
            return None
        raise


async def queue_entries(
    client: RemotingClient, endpoint: str, topic: str, queue_id: int, index: int, count: int
) -> list[deep_responses.QueueEntry]:
    """321: consume-queue entries from ``index`` on; at the end of a file fewer than ``count``."""
    fields = {"topic": topic, "queueId": str(queue_id), "index": str(index), "count": str(count)}
    code, subject = RequestCode.QUERY_CONSUME_QUEUE, f"{topic} {queue_id} {index}"
    return await request(
        client, endpoint, code, deep_responses.decode_queue_entries, fields, subject
    )


async def running_info(
    client: RemotingClient, endpoint: str, group: str, client_id: str
) -> client_responses.RunningInfo:
    """307: the report of a member about itself. Needs a transport with ``client_reports``.

    Never with stack traces: for those the member walks through all its threads.
    """
    fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "false"}
    code, subject = RequestCode.GET_CONSUMER_RUNNING_INFO, f"{group} {client_id}"
    decode = client_responses.decode_running_info
    return await request(client, endpoint, code, decode, fields, subject, CLIENT_SECONDS)


async def consumer_status(
    client: RemotingClient, endpoint: str, group: str, topic: str, client_id: str
) -> dict[client_responses.MessageQueue, int]:
    """223: offsets in the memory of a member, Java only. Needs ``client_reports``.

    Raises:
        BadResponseError: also when the member did not respond; the broker then reports success
            and leaves the member out.
    """
    fields = {"topic": topic, "group": group, "clientAddr": client_id}
    code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    decode = client_responses.decode_consumer_status
    subject = f"{group} {topic} {client_id}"
    offsets = await request(client, endpoint, code, decode, fields, subject, CLIENT_SECONDS)
    if client_id not in offsets:
        raise BadResponseError(endpoint, f"{code.name} {subject}", "the client did not respond")
    return offsets[client_id]
