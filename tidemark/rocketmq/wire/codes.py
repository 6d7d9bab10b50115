"""Request codes Tidemark sends, response codes it reads, and the errors of requests.

`RequestCode` *is* the allow-list: the transport sends nothing else. A code belongs here only when
it is sent, and the request changes nothing in a broker or a client, in any version from 4.9 to 5.5.
Three codes are missing though they seem to be reads: 308 QUERY_CORRECTION_OFFSET deletes offsets,
11 PULL_MESSAGE falsifies pull offsets and delivery counts, 355 writes files. Two kinds need a
permission of their own, see `FORWARDED_TO_CLIENTS` and `LOOKS_UP_MESSAGES`.

Each error is one line with the endpoint, the request and the reason.
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


class RemotingError(Exception):
    """A request without a usable response.

    Attributes:
        endpoint: ``host:port`` of the request.
        operation: name of the request and its subject, e.g. ``GET_TOPIC_STATS_INFO lab_orders``.
        reason: why the request failed, in one line.
        code: the response code, None where no response came.
    """

    code: int | None = None

    def __init__(self, endpoint: str, operation: str, reason: str):
        super().__init__(f"{endpoint}: {operation}: {reason}")
        self.endpoint = endpoint
        self.operation = operation
        self.reason = reason


class UnreachableError(RemotingError):
    """The endpoint is unreachable; further requests to it fail at once."""


class ConnectError(UnreachableError):
    """No connection: unknown host, no route, not accepted in time."""


class RefusedError(ConnectError):
    """Nothing listens there."""


class OutsideError(UnreachableError):
    """The address is outside of the networks that the cluster may be in; nothing was sent."""


class NotRocketMQError(UnreachableError):
    """Something listens there, but its bytes are no RocketMQ frames."""


class NoResponseError(UnreachableError):
    """The connection is open, but no byte arrives."""


class ConnectionLostError(RemotingError):
    """The connection broke before the response came."""


class RequestTimeoutError(RemotingError):
    """The response did not arrive in time, or no time was left to send the request."""


class BudgetError(RemotingError):
    """A budget of the snapshot is used up: requests to this endpoint, or bytes."""


class BadResponseError(RemotingError):
    """A response whose body cannot be read, or belongs to another request."""


class BrokenFrameError(BadResponseError):
    """Bytes between good responses that are no frame: all requests under way are lost."""


class ResponseError(RemotingError):
    """The response has a code other than SUCCESS."""

    def __init__(self, endpoint: str, operation: str, code: int, remark: str | None):
        text = " ".join((remark or "").split())[:300]
        reason = f"{response_name(code)} {text}".strip()
        super().__init__(endpoint, operation, reason)
        self.code = code


class DeniedError(ResponseError):
    """The account is unknown, its signature is wrong, or it lacks the right to this request."""

    def __init__(self, endpoint: str, operation: str, code: int, remark: str | None, signed: bool):
        super().__init__(endpoint, operation, code, remark)
        whom = "the cluster's account" if signed else "requests without an account"
        self.reason = f"access denied to {whom}: {self.reason}"
        self.args = (f"{endpoint}: {operation}: {self.reason}",)


class ForbiddenRequest(Exception):  # noqa: N818 - a name that is part of the contract
    """A request code that is not on the read-only list; nothing was sent. A mistake in the code."""
