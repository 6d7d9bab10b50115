"""One round trip: send a request, wait for its response, decode the body."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from tidemark.rocketmq.typed_values import integer
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import BadResponseError, RequestCode, ResponseCode, ResponseError

T = TypeVar("T")


async def request(
    client: RemotingClient,
    endpoint: str,
    code: RequestCode,
    decode: Callable[[bytes], T],
    fields: Mapping[str, str] | None = None,
    subject: str = "",
    timeout: float | None = None,
) -> T:
    """Send a request and decode the body of its response.

    Args:
        client: the transport.
        endpoint: ``host:port``.
        code: the request.
        decode: turns the body into the typed response.
        fields: ``extFields`` of the request.
        subject: the subject of the request, for error messages.
        timeout: seconds, instead of the client's request timeout.

    Raises:
        RemotingError: no usable response arrived; `BadResponseError` for a body of another
            request, or for a body that would take too much memory.
    """
    frame = await client.call(endpoint, code, fields, subject=subject, timeout=timeout)
    client.refuse_large(endpoint, f"{code.name} {subject}".rstrip(), frame)
    return decoded(partial(decode, frame.body), endpoint, code, subject)


async def request_or_none(
    client: RemotingClient,
    endpoint: str,
    code: RequestCode,
    decode: Callable[[bytes], T],
    fields: Mapping[str, str],
    subject: str,
    absent: ResponseCode,
) -> T | None:
    """Send a request as `request` does; return None for the response code ``absent``."""
    try:
        return await request(client, endpoint, code, decode, fields, subject)
    except ResponseError as error:
        if error.code == absent:
            return None
        raise


async def request_offset(
    client: RemotingClient,
    endpoint: str,
    code: RequestCode,
    fields: Mapping[str, str],
    subject: str,
) -> int:
    """Send a request whose response carries one offset in its header fields."""
    frame = await client.call(endpoint, code, fields, subject=subject)
    return decoded(lambda: integer(int(frame.fields["offset"])), endpoint, code, subject)


def decoded(read: Callable[[], T], endpoint: str, code: RequestCode, subject: str) -> T:
    """Return what `read` makes of a response.

    Raises:
        BadResponseError: the response is of another request, or cut off.
    """
    try:
        return read()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        operation = f"{code.name} {subject}".rstrip()
        reason = f"unreadable response: {type(error).__name__}: {error}"
        raise BadResponseError(endpoint, operation, reason[:300]) from error
