"""Errors of requests: one line each, with the endpoint, the request and the reason."""

from tidemark.rocketmq.wire.codes import response_name


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
