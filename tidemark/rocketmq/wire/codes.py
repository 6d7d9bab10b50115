"""Request codes Tidemark sends, and the response codes it reads.

`RequestCode` *is* the allow-list: the transport sends nothing else. A code belongs here only when
it is sent, and the request changes nothing in a broker or a client, in any version from 4.9 to 5.5.
Three codes are missing though they seem to be reads: 308 QUERY_CORRECTION_OFFSET deletes offsets,
11 PULL_MESSAGE falsifies pull offsets and delivery counts, 355 writes files. Two kinds need a
permission of their own, see `FORWARDED_TO_CLIENTS` and `LOOKS_UP_MESSAGES`.
"""

from enum import IntEnum


class RequestCode(IntEnum):
    """Read-only requests by RocketMQ's own names."""

    QUERY_CONSUMER_OFFSET = 14
    GET_ALL_TOPIC_CONFIG = 21
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    VIEW_MESSAGE_BY_ID = 33
    GET_CONSUMER_LIST_BY_GROUP = 38
    GET_ALL_CONSUMER_OFFSET = 43
    GET_BROKER_CLUSTER_INFO = 106
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    GET_CONSUME_STATS = 208
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223
    QUERY_CONSUME_TIME_SPAN = 303
    GET_CONSUMER_RUNNING_INFO = 307
    VIEW_BROKER_STATS_DATA = 315
    QUERY_CONSUME_QUEUE = 321
    GET_ALL_PRODUCER_INFO = 328
    GET_ALL_MESSAGE_REQUEST_MODE = 402
    GET_BROKER_LITE_INFO = 200074
    GET_LITE_TOPIC_INFO = 200076


FORWARDED_TO_CLIENTS = frozenset(
    {RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS}
)
"""Requests that a broker forwards to a client; a thread of it waits up to 10 s for the response.

307 has a side effect: a client that never committed a queue then reads its offset from the broker,
gets 0, and commits that.
"""

LOOKS_UP_MESSAGES = frozenset({RequestCode.VIEW_MESSAGE_BY_ID})
"""Requests whose response has the body of a message, which the decoder skips.

They change nothing in a broker, but what producers write is not a monitor's to read. So a user has
to allow them for a cluster, by ``message_lookup``.
"""

READ_ONLY = frozenset(RequestCode) - FORWARDED_TO_CLIENTS - LOOKS_UP_MESSAGES
"""Requests that the transport allows; with ``client_reports`` also `FORWARDED_TO_CLIENTS`, and with
``message_lookup`` also `LOOKS_UP_MESSAGES`."""


class ResponseCode(IntEnum):
    """Response codes that a reader acts on; 209-211 differ between 4.9 and 5.x."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    CONSUMER_NOT_ONLINE = 206
    FLOW_CONTROL = 215
    GO_AWAY = 1500


def response_name(code: int) -> str:
    """Return ``TOPIC_NOT_EXIST`` for 17; the number as text for a code not listed."""
    try:
        return ResponseCode(code).name
    except ValueError:
        return str(code)
