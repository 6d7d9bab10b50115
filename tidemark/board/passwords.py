"""Passwords of the file of users: their hashes, and limits on the cost of comparisons.

A hash is slow on purpose. It is made in a thread of its own, for few requests at a time, and a peer
that has sent many wrong passwords has to wait. A password that was right once costs nothing again.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import math
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tidemark.settings.basics import SettingsError

_COST = {"n": 2**14, "r": 8, "p": 1}
"""Parameters of scrypt, which make a guess cost some 50 ms and 16 MB."""

WRONG = 10
"""Wrong passwords that a peer may send at once."""

RECOVERY_SECONDS = 5.0
"""Seconds after which a peer may send one more wrong password."""

AT_ONCE = 2
"""Comparisons of one peer that wait or run."""

WAITING = 32
"""Comparisons of all peers that wait or run."""

PEERS = 10_000
"""Peers that are remembered; the one that was quiet longest is forgotten first."""

_NETWORK = 64
"""Bits that name a network of IPv6: each host has all addresses of one."""


class TooManyAttemptsError(Exception):
    """A password is not compared now.

    Attributes:
        seconds: after which it may be sent again.
        is_peer: whether this peer sent too many; otherwise all peers together did.
    """

    def __init__(self, seconds: float, *, is_peer: bool) -> None:
        super().__init__("too many passwords")
        self.seconds = max(1, math.ceil(seconds))
        self.is_peer = is_peer


@dataclass
class _Peer:
    """State of a peer: wrong passwords left as of an instant, and running comparisons."""

    left: float
    at: float
    running: int = 0


class Passwords:
    """Compares passwords with those of the users."""

    def __init__(
        self,
        users: Mapping[str, "User"],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Know the users.

        Args:
            users: the users by name.
            clock: seconds that only grow.
        """
        self._users = users
        self._clock = clock
        self._pool = ThreadPoolExecutor(1, "board-passwords")
        # Compared with where there is no such user, so that the refusal takes as long.
        self._nobody = password_hash(secrets.token_hex())
        self._right: set[bytes] = set()
        self._running: dict[bytes, Future[bool]] = {}
        self._peers: OrderedDict[str, _Peer] = OrderedDict()
        self._lock = threading.Lock()

    async def are_right(self, address: str, name: str, password: str) -> bool:
        """Return whether a user has this password.

        Args:
            address: the address of the sender.
            name: of the user, who need not exist.
            password: as it was sent.

        Raises:
            TooManyAttemptsError: this peer, or all peers together, sent too many.
        """
        kept = self._users[name].password if name in self._users else self._nobody
        # Every request brings the password; hashing it again each time would take 50 ms of each.
        seen = hashlib.sha256(f"{kept}\0{password}".encode()).digest()
        with self._lock:
            if seen in self._right:
                return True
            running = self._running.get(seen)
            if running is None:
                running = self._started(peer_of(address), seen, password, kept)
        return await asyncio.shield(asyncio.wrap_future(running))

    def _started(self, name: str, seen: bytes, password: str, kept: str) -> Future[bool]:
        """Start a comparison, which counts as a wrong password until it proves right."""
        now = self._clock()
        peer = self._peers.setdefault(name, _Peer(WRONG, now))
        self._peers.move_to_end(name)
        peer.left = min(WRONG, peer.left + (now - peer.at) / RECOVERY_SECONDS)
        peer.at = now
        if peer.left < 1:
            raise TooManyAttemptsError((1 - peer.left) * RECOVERY_SECONDS, is_peer=True)
        if peer.running >= AT_ONCE:
            raise TooManyAttemptsError(1, is_peer=True)
        if len(self._running) >= WAITING:
            raise TooManyAttemptsError(1, is_peer=False)
        peer.left -= 1
        peer.running += 1
        if len(self._peers) > PEERS:
            self._peers.popitem(last=False)

        def compared() -> bool:
            is_right = False
            try:
                is_right = is_password(password, kept)
            finally:
                with self._lock:
                    del self._running[seen]
                    peer.running -= 1
                    if is_right:
                        peer.left += 1
                        self._right.add(seen)
            return is_right

        self._running[seen] = started = self._pool.submit(compared)
        return started


def peer_of(address: str) -> str:
    """Return the peer of an address: the address of IPv4, or the network of IPv6."""
    try:
        ip_address = ipaddress.ip_address(address)
    except ValueError:
        return address
    if ip_address.version == 4:
        return str(ip_address)
    return str(ipaddress.ip_network((ip_address, _NETWORK), strict=False))


def password_hash(password: str) -> str:
    """Return the hash of a password for the file of users."""
    salt = secrets.token_bytes(16)
    digest = hashlib.scrypt(password.encode(), salt=salt, **_COST)
    return f"scrypt${salt.hex()}${digest.hex()}"


def is_password(password: str, kept: str) -> bool:
    """Return whether a password is the one that a hash was made of; slow on purpose."""
    _, salt, digest = kept.split("$")
    made = hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), **_COST)
    return hmac.compare_digest(made.hex(), digest)


@dataclass(frozen=True, kw_only=True)
class User:
    """A user of the file.

    Attributes:
        password: the hash of the password.
        may_act: whether they may do more than read.
        teams: the teams whose groups they see; None = all groups.
    """

    password: str = field(repr=False)
    may_act: bool = False
    teams: frozenset[str] | None = None


_LINE = re.compile(
    r"(?P<name>[^:]+):(?P<password>[^:$]*\$[^:$]*\$[^:$]*):(?P<right>read|act)(:(?P<teams>[^:]+))?"
)


def read_users(path: Path) -> dict[str, User]:
    """Return the users of a file: lines of ``NAME:HASH:read`` or ``NAME:HASH:act``.

    A fourth part names the teams of a user, with ``+`` between them.

    Raises:
        SettingsError: the file cannot be read, or a line is not of that form.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"TIDEMARK_SERVE_USERS: {path} cannot be read: {error}"]) from error
    users: dict[str, User] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise SettingsError(
                [f"{path}:{number}: NAME:HASH:read or NAME:HASH:act is wanted, and :TEAM for a "
                 "user of a team; tidemark serve --hash-password makes a hash"]
            )  # fmt: skip
        users[match["name"]] = User(
            password=match["password"],
            may_act=match["right"] == "act",
            teams=teams_of(match["teams"]) if match["teams"] else None,
        )
    return users


def teams_of(text: str) -> frozenset[str] | None:
    """Return the teams of a text with ``+`` between them; None for ``*``, which is all groups."""
    return None if text == "*" else frozenset(text.split("+"))
