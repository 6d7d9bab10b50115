"""HTTP requests that end in time, to addresses that hold secrets and are shown nowhere."""

from collections.abc import Iterator
from time import monotonic
from typing import Any

import requests

from alerting.delivery.log_filter import ADDRESS_FILTER

PIECE = 65_536
"""Most bytes of a body that are taken at a time."""


class RequestError(RuntimeError):
    """A request got no response; one line without the address."""


def response_to(
    method: str, url: str, seconds: float, *, with_body: bool = False, **options: Any
) -> tuple[requests.Response, bytes]:
    """Send one request.

    A status shows whether a request was accepted, so the body is read only where it is wanted: it
    may have no end, and its sender may break off.

    Args:
        method: of HTTP.
        url: the address.
        seconds: how long to wait for the response, and then again for its body.
        with_body: whether the body is wanted.
        options: of `requests.request`.

    Returns:
        (the response, its body, which is empty unless it is wanted).

    Raises:
        RequestError: there was no response in time.
    """
    with ADDRESS_FILTER.warnings():
        try:
            with requests.request(method, url, timeout=seconds, stream=True, **options) as response:
                return response, b"".join(_pieces(response, seconds)) if with_body else b""
        except Exception as error:
            # Not all are of `requests`: a name of a host, an account or a redirect that it cannot
            # use raises errors of others. Their texts hold the address.
            raise RequestError(f"no connection: {type(error).__name__}") from None


def _pieces(response: requests.Response, seconds: float) -> Iterator[bytes]:
    """Yield a body; the limit of a request concerns only the pause between two pieces of it.

    Raises:
        TimeoutError: it took too long.
    """
    until = monotonic() + seconds
    while piece := response.raw.read1(PIECE, decode_content=True):
        yield piece
        if monotonic() > until:
            raise TimeoutError
