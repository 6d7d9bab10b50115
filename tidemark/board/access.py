"""Origins, authentication and rights of requests to the board, checked before any route runs.

On the loopback interface no login is needed unless one is configured. A token, a user of the file,
or the header of a trusted proxy names the person; reading and acting are separate rights.
"""

import base64
import hmac
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tidemark.board.http_responses import problem, strict_headers
from tidemark.board.passwords import Passwords, TooManyAttemptsError, User

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


OPEN_PATHS = ("/healthz",)
"""Paths that need no login, because they state only that the process is up."""

READING = ("/preferences", "/api/v1/plan", "/mcp")
"""Paths of POST requests that read rights allow: they change nothing that others see."""

ASKING = ("/live", "/plan", "/mcp")
"""Paths that send requests to brokers, or are for programs: no link on a foreign page may lead
there."""

ONCE = ("host", "origin", "authorization", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")
"""Headers that decide rights and must occur once: a proxy may read another one than the board."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Person:
    """The user that sends a request, with the right to act or only to read.

    Attributes:
        name: recorded with their actions.
        may_act: whether they may do more than read.
        teams: the teams whose groups they see; None = all groups, with a team or without.
    """

    name: str
    may_act: bool
    teams: frozenset[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Login:
    """How users are authenticated. Its secrets are never shown.

    Attributes:
        tokens: bearer token to its person.
        users: the users of the file by name.
        header: header in which a trusted proxy names the person; empty without one.
        proxies: networks of trusted proxies.
        hosts: names by which browsers reach the board, in lower case.
        actors: names in that header which may act, ``*`` for all.
        teams: names in that header to their teams, None for all groups; ``*`` for all other names.
            Where there are any, a name that has none sees no group.
    """

    tokens: Mapping[str, Person] = field(default_factory=dict, repr=False)
    users: Mapping[str, User] = field(default_factory=dict, repr=False)
    header: str = ""
    proxies: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()
    actors: frozenset[str] = frozenset()
    teams: Mapping[str, frozenset[str] | None] = field(default_factory=dict)

    @property
    def is_configured(self) -> bool:
        """Whether there is any way to log in."""
        return bool(self.tokens or self.users or self.header)

    def named(self, headers: Headers, client: str) -> Person | None:
        """Return the person that a trusted proxy at an address names, None without one."""
        if not self.header or not _is_of(client, self.proxies):
            return None
        name = _text(headers, self.header)
        if not name:
            return None
        others = self.teams.get("*", frozenset()) if self.teams else None
        return Person(name, bool(self.actors & {"*", name}), self.teams.get(name, others))

    def having(self, token: str) -> Person | None:
        """Return the person of a token, None without one."""
        result = None
        for known, person in self.tokens.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                result = person
        return result


def networks(text: str) -> tuple[Network, ...]:
    """Return the addresses and networks of a setting.

    Raises:
        ValueError: a word is neither.
    """
    return tuple(ipaddress.ip_network(word, strict=False) for word in words(text))


def _is_of(address: str, networks: Iterable[Network]) -> bool:
    """Return whether an address lies in one of some networks."""
    try:
        ip_address = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(ip_address in network for network in networks)


def _credentials(value: str) -> tuple[str, str, str]:
    """Return token, name and password of the header ``Authorization``, empty without them."""
    kind, _, rest = value.partition(" ")
    if kind.lower() == "bearer":
        return rest.strip(), "", ""
    if kind.lower() != "basic":
        return "", "", ""
    try:
        name, _, password = base64.b64decode(rest, validate=True).decode().partition(":")
    except ValueError:
        return "", "", ""
    # A browser cannot be given a token; as the password it works there too.
    return password, name, password


def _text(headers: Headers, name: str) -> str:
    """Return the value of a header, empty without it.

    Proxies and clients send UTF-8, which Starlette reads as Latin-1 as the first HTTP had it.
    """
    value = headers.get(name, "")
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


class _RefusedError(Exception):
    """A request is not served: the status, the reason, and further headers of the response."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.response = problem(status, reason, headers)


class AccessMiddleware:
    """Refuses unknown users, actions without the right, and requests of other sites."""

    def __init__(self, app: ASGIApp, login: Login, local: Person) -> None:
        """Guard an application.

        Args:
            app: the application.
            login: how persons are known.
            local: the person where no login is configured.
        """
        self.app = app
        self.login = login
        self.local = local
        self.passwords = Passwords(login.users) if login.users else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            await self._check(scope)
        except _RefusedError as refused:
            await refused.response(scope, receive, _guarded(scope, send))
            return
        await self.app(scope, receive, _guarded(scope, send))

    async def _check(self, scope: Scope) -> None:
        """Set the person of a request.

        Raises:
            _RefusedError: it is not served.
        """
        headers, path = Headers(scope=scope), scope["path"]
        for name in (*ONCE, self.login.header):
            if len(headers.getlist(name)) > 1:
                raise _RefusedError(400, f"{name} is given more than once")
        self._check_host(headers.get("host", ""))
        is_safe = scope["method"] in SAFE
        person = Person("", False) if path in OPEN_PATHS else await self._person(scope, headers)
        scope.setdefault("state", {})["person"] = person
        if is_safe:
            page = not path.startswith("/api/") and path not in ASKING
            is_own = is_own_read(headers, page=page)
        else:
            is_own = is_own_change(headers)
        if not (is_safe or person.may_act or (scope["method"] == "POST" and path in READING)):
            raise _RefusedError(403, f"{person.name} may read and not act")
        if not is_own:
            raise _RefusedError(403, "this request comes from another site")

    def _check_host(self, host: str) -> None:
        """Refuse a host name that an attacker may have pointed at this machine (DNS rebinding).

        With a token or a password no check is needed: a browser does not send them to such a name.
        """
        if not self.login.is_configured and not is_local(host):
            raise _RefusedError(421, "this name is not one of the loopback interface")
        if self.login.header and not is_known(host, self.login.hosts):
            raise _RefusedError(
                421,
                f"{host[:100]!r} is not a name of this board: TIDEMARK_SERVE_HOSTS lists the "
                "names by which browsers reach it",
            )

    async def _person(self, scope: Scope, headers: Headers) -> Person:
        """Return the person that sends a request.

        Raises:
            _RefusedError: the person is unknown, or too many passwords were sent.
        """
        if not self.login.is_configured:
            return self.local
        client = (scope.get("client") or ("", 0))[0]
        token, name, password = _credentials(_text(headers, "authorization"))
        person = self.login.named(headers, client) or self.login.having(token)
        if person is None and self.passwords and name:
            person = await self._user(client, name, password)
        if person is None:
            ways = 'Basic realm="Tidemark", charset="UTF-8", Bearer realm="Tidemark"'
            raise _RefusedError(401, "log in first", {"WWW-Authenticate": ways})
        return person

    async def _user(self, client: str, name: str, password: str) -> Person | None:
        """Return the user with the sent password, None without one.

        Raises:
            _RefusedError: it is not compared now.
        """
        assert self.passwords is not None
        try:
            is_right = await self.passwords.are_right(client, name, password)
        except TooManyAttemptsError as error:
            who = "this address" if error.is_peer else "many addresses"
            raise _RefusedError(
                429 if error.is_peer else 503,
                f"too many passwords of {who}: try again in {error.seconds} s",
                {"Retry-After": str(error.seconds)},
            ) from error
        user = self.login.users.get(name) if is_right else None
        return Person(name, user.may_act, user.teams) if user else None


def _guarded(scope: Scope, send: Send) -> Send:
    async def guarded(message: Any) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *(
                    (name.encode(), value.encode())
                    for name, value in strict_headers(scope["path"]).items()
                    if name.encode() not in names
                ),
            ]
        await send(message)

    return guarded


def words(text: str) -> Iterable[str]:
    """Return the words of a setting, separated by blanks or commas."""
    return text.replace(",", " ").split()
