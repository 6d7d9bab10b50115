"""HTTP requests to addresses that hold secrets: they end in time, and no log shows the address."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Any

import requests

PIECE = 65_536
"""Most bytes of a body that are taken at a time."""


class AddressFilter(logging.Filter):
    """Keeps log lines that hold addresses from every handler, and collects apprise's warnings.

    apprise reports the reason of a failure only in its log, which also holds addresses; several
    loggers of urllib3 name their paths. apprise sends in threads of its own. So every line logged
    during a send counts as part of it, and only one message is sent at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sending = Lock()
        self._lines: list[str] | None = None

    def install(self) -> None:
        """Filter the loggers that may name addresses; a second call changes nothing."""
        # A filter holds for its own logger alone, so each module's logger needs it.
        for name in tuple(logging.root.manager.loggerDict):
            if name.split(".")[0] in ("apprise", "urllib3"):
                logging.getLogger(name).addFilter(self)

    @contextmanager
    def warnings(self) -> Iterator[list[str]]:
        """Collect the warnings of apprise while the context is open."""
        with self._sending:
            self._lines = lines = []
            try:
                yield lines
            finally:
                self._lines = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line may pass, as it does not concern a send of ours."""
        ours = record.name == "apprise"
        lines = self._lines
        if ours and lines is not None and record.levelno >= logging.WARNING:
            lines.append(record.getMessage())
        return not ours and lines is None


ADDRESS_FILTER = AddressFilter()
"""The filter of this process."""


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
