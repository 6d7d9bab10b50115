"""Requests that a web page of another origin may have sent: Host, Origin and Fetch Metadata.

A page that an operator visits can make the operator's browser send requests to this machine. A
browser states where a request comes from: in ``Origin`` (all cross-origin requests but plain GETs)
and, for HTTPS and for loopback, in ``Sec-Fetch-Site`` and ``Sec-Fetch-Mode``. A program sends
neither. A name that an attacker points at this machine (DNS rebinding) shows in ``Host``.
"""

import ipaddress

from starlette.datastructures import Headers

SAFE = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""

OWN_SITES = ("same-origin", "none")
"""``Sec-Fetch-Site`` of a request of our own pages, or of the person who typed the address.
``same-site`` is another port of this machine, which may serve a page of another user."""


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_local(host: str) -> bool:
    """Return whether a ``Host`` header names the loopback interface."""
    return is_loopback(_name(host))


def is_known(host: str, names: frozenset[str]) -> bool:
    """Return whether a ``Host`` header is an address, loopback, or one of some names.

    An address cannot be pointed elsewhere, so it needs no permission.

    Args:
        host: value of the header.
        names: names in lower case, without ports.
    """
    name = _name(host)
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return name == "localhost" or name in names
    return True


def is_own_change(headers: Headers) -> bool:
    """Return whether a change does not come from a foreign page."""
    return headers.get("sec-fetch-site", OWN_SITES[0]) in OWN_SITES and _is_own_origin(headers)


def is_own_read(headers: Headers, *, page: bool) -> bool:
    """Return whether a request that reads is no part of a page elsewhere.

    A link on another page may lead to a page of ours: the browser shows it, and the other page
    learns nothing of it.

    Args:
        headers: of the request.
        page: whether the address is a page that links may lead to.
    """
    if not _is_own_origin(headers):
        return False
    if headers.get("sec-fetch-site", OWN_SITES[0]) in OWN_SITES:
        return True
    is_link = headers.get("sec-fetch-mode") == "navigate"
    return page and is_link and headers.get("sec-fetch-dest") == "document"


def _is_own_origin(headers: Headers) -> bool:
    """Return whether a request states no origin, or that of the host it is sent to."""
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")


def _name(host: str) -> str:
    """Return the name of a ``Host`` header in lower case, without its port."""
    return (host if host.endswith("]") else host.rpartition(":")[0] or host).lower()
