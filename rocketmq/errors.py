"""What can go wrong between us and a broker: one line each, with where and what was asked."""

from rocketmq.codes import response_name


class RemotingError(Exception):
    """A request that got no usable answer.

    Attributes:
        endpoint: ``host:port`` that was asked.
        operation: name of the request and its subject, e.g. ``GET_TOPIC_STATS_INFO lab_orders``.
        reason: what happened, in one line.
        code: the response code, None where no answer came.
    """

    code: int | None = None

    def __init__(self, endpoint: str, operation: str, reason: str):
        super().__init__(f"{endpoint}: {operation}: {reason}")
        self.endpoint = endpoint
        self.operation = operation
        self.reason = reason


class UnreachableError(RemotingError):
    """The endpoint as a whole does not answer; what else was to be asked of it is pointless."""


class ConnectError(UnreachableError):
    """No connection: unknown host, no route, not accepted in time."""


class RefusedError(ConnectError):
    """Nothing listens there."""


class NotRocketMQError(UnreachableError):
    """Something listens, and its bytes are no RocketMQ frames."""


class SilentError(UnreachableError):
    """The connection stands and nothing at all comes back."""


class ConnectionLostError(RemotingError):
    """The connection broke before the answer was there."""


class RequestTimeoutError(RemotingError):
    """The answer to this request did not come in time, or no time was left to ask."""


class BudgetError(RemotingError):
    """All requests that one look may send to this endpoint were sent; this one was not."""


class BadAnswerError(RemotingError):
    """An answer whose body cannot be read, or is not what this request gives."""


class BrokenFrameError(BadAnswerError):
    """Bytes between good answers that are no frame: whatever was under way is lost."""


class ResponseError(RemotingError):
    """The broker answered with a code other than SUCCESS."""

    def __init__(self, endpoint: str, operation: str, code: int, remark: str | None):
        text = " ".join((remark or "").split())[:300]
        reason = f"{response_name(code)} {text}".strip()
        super().__init__(endpoint, operation, reason)
        self.code = code


class DeniedError(ResponseError):
    """The broker does not know the account, or its signature is wrong, or it may not ask this."""

    def __init__(self, endpoint: str, operation: str, code: int, remark: str | None, signed: bool):
        super().__init__(endpoint, operation, code, remark)
        whom = "the cluster's account" if signed else "requests without an account"
        self.reason = f"access denied to {whom}: {self.reason}"
        self.args = (f"{endpoint}: {operation}: {self.reason}",)


class ForbiddenRequest(Exception):  # noqa: N818 - a name that is part of the contract
    """A request code that is not on the read-only list; nothing was sent. A mistake in the code."""
