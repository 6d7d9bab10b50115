"""Heartbeat: a request to an outside service that alerts when it stops, as healthchecks.io."""

from urllib.parse import urlsplit, urlunsplit

from tidemark.alerting.delivery.channels import ADDRESS_FILTER, RequestError, response_to

TIMEOUT = 5.0
"""Longest wait for the outside service, in seconds."""


def heartbeat(url: str, *, succeeded: bool) -> str | None:
    """Call the address after a success, and its ``/fail`` after a failure.

    Args:
        url: the address; empty = no heartbeat.
        succeeded: whether the tick or the delivery succeeded.

    Returns:
        Why the call failed, in one line without the address; None when it did not.
    """
    if not url:
        return None
    ADDRESS_FILTER.install()
    try:
        address = url if succeeded else _failure(url)
        response, _ = response_to("GET", address, TIMEOUT)
    except RequestError as error:
        return f"TIDEMARK_HEARTBEAT_URL: {error}"
    except ValueError:
        return "TIDEMARK_HEARTBEAT_URL: it is no address"
    return None if response.ok else f"TIDEMARK_HEARTBEAT_URL: HTTP {response.status_code}"


def _failure(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/fail"))
