"""Who may see and do what, checked before any route runs.

On the loopback interface nobody has to log in unless a login is configured. A token, a user of the
file, or the header of a trusted proxy names the person; reading and acting are separate rights.
"""

import base64
import binascii
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from board.origins import SAFE, is_local, is_own_change, is_own_read
from board.passwords import NOBODY, is_password
from board.responses import problem

OPEN_PATHS = ("/healthz",)
"""What needs no login: it states only that the process is up."""

READING = ("/preferences", "/api/v1/plan")
"""What is sent by POST and changes nothing that others see: who reads may do it."""


@dataclass(frozen=True)
class Person:
    """Who sends a request.

    Attributes:
        name: recorded with what they do.
        may_act: whether they may do more than read.
    """

    name: str
    may_act: bool


@dataclass(frozen=True)
class Login:
    """How persons are known. Secrets are kept, and never shown.

    Attributes:
        tokens: bearer token to the person who has it.
        users: name to hash of the password, and the right.
        header: header in which a trusted proxy names the person; empty without one.
        proxies: addresses of trusted proxies.
        actors: names in that header which may act, ``*`` for all.
    """

    tokens: Mapping[str, Person] = field(default_factory=dict, repr=False)
    users: Mapping[str, tuple[str, bool]] = field(default_factory=dict, repr=False)
    header: str = ""
    proxies: frozenset[str] = frozenset()
    actors: frozenset[str] = frozenset()

    @property
    def is_configured(self) -> bool:
        """Whether there is any way to log in."""
        return bool(self.tokens or self.users or self.header)

    def person(self, headers: Headers, client: str) -> Person | None:
        """Return who sends these headers from an address; None when nobody known does."""
        if self.header and client in self.proxies and (name := _text(headers, self.header)):
            return Person(name, bool(self.actors & {"*", name}))
        kind, _, value = _text(headers, "authorization").partition(" ")
        if kind.lower() == "bearer":
            return self._of_token(value.strip())
        if kind.lower() != "basic":
            return None
        try:
            name, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        # A browser cannot be given a token; as the password it works there too.
        return self._of_token(password) or self._of_password(name, password)

    def _of_token(self, token: str) -> Person | None:
        found = None
        for known, person in self.tokens.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                found = person
        return found

    def _of_password(self, name: str, password: str) -> Person | None:
        kept, may_act = self.users.get(name, (NOBODY, False))
        is_right = is_password(password, kept)
        return Person(name, may_act) if is_right and name in self.users else None


def _text(headers: Headers, name: str) -> str:
    """Return the value of a header, empty without it.

    Proxies and clients send UTF-8, which Starlette reads as Latin-1 as the first HTTP had it.
    """
    value = headers.get(name, "")
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


class AccessMiddleware:
    """Refuses whom `Login` does not know, what they may not do, and requests of other sites."""

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refused = self._refused(scope)
        if refused is not None:
            status, why, headers = refused
            await problem(status, why, headers)(scope, receive, _guarded(scope, send))
            return
        await self.app(scope, receive, _guarded(scope, send))

    def _refused(self, scope: Scope) -> tuple[int, str, dict[str, str]] | None:
        headers = Headers(scope=scope)
        client = (scope.get("client") or ("", 0))[0]
        person = self.login.person(headers, client) if self.login.is_configured else self.local
        if not self.login.is_configured and not is_local(headers.get("host", "")):
            # A page elsewhere could point a name of its own at this machine.
            return 421, "this name is not one of the loopback interface", {}
        if person is None:
            if scope["path"] in OPEN_PATHS:
                person = Person("", False)
            else:
                ways = 'Basic realm="Tidemark", charset="UTF-8", Bearer realm="Tidemark"'
                return 401, "log in first", {"WWW-Authenticate": ways}
        scope.setdefault("state", {})["person"] = person
        if scope["method"] in SAFE:
            is_own = is_own_read(headers, page=not scope["path"].startswith("/api/"))
            return None if is_own else (403, "this request comes from another site", {})
        if not (person.may_act or (scope["method"] == "POST" and scope["path"] in READING)):
            return 403, f"{person.name} may read and not act", {}
        if not is_own_change(headers):
            return 403, "this request comes from another site", {}
        return None


SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""On every response: nothing from elsewhere, no script in a page, no page in a frame."""


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


def strict_headers(path: str) -> dict[str, str]:
    """Return the headers of every response at a path."""
    return SECURITY_HEADERS | {"cache-control": _caching(path)}


def words(text: str) -> Iterable[str]:
    """Return the words of a setting, separated by blanks or commas."""
    return text.replace(",", " ").split()


def _caching(path: str) -> str:
    """Return how long a browser may keep a response: files are of a version, numbers are of now."""
    return "private, max-age=86400" if path.startswith("/static/") else "no-store"
