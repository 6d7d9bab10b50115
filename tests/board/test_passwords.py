"""The cost of wrong passwords: a hash is made outside of the event loop, for few at a time.

The hash of these tests waits until it is allowed to end, so that nothing depends on seconds: a
server that hashes in its event loop responds to nobody meanwhile.
"""

import asyncio
import base64
import hashlib
import http.client
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.served import served
from tidemark.board import passwords
from tidemark.board.access import Login, Person
from tidemark.board.application import application
from tidemark.board.passwords import Passwords, TooManyAttemptsError, User, password_hash, peer_of
from tidemark.board.store import Store

USERS = {"ann": User(password=password_hash("right"), may_act=True)}
ATTACKER, COLLEAGUE = "127.0.0.2", "127.0.0.3"


class Hashing:
    """Replaces scrypt: counts its calls, and lets them end when the test releases it."""

    def __init__(self) -> None:
        self.scrypt: Callable[..., bytes] = hashlib.scrypt
        self.calls = 0
        self.may_end = threading.Event()

    def __call__(self, *args: Any, **options: Any) -> bytes:
        self.calls += 1
        assert self.may_end.wait(120)
        return self.scrypt(*args, **options)


@pytest.fixture
def hashing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hashing]:
    made = Hashing()
    monkeypatch.setattr(hashlib, "scrypt", made)
    yield made
    made.may_end.set()


def status(
    address: str, path: str, source: str, password: str = "", name: str = "ann"
) -> tuple[int, str | None]:
    """Request a page from a source address; return the status, and when to try again."""
    host, _, port = address.partition(":")
    connection = http.client.HTTPConnection(host, int(port), 60, source_address=(source, 0))
    text = base64.b64encode(f"{name}:{password}".encode()).decode()
    headers = {"Host": "127.0.0.1"} | ({"Authorization": f"Basic {text}"} if password else {})
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.getheader("Retry-After")
    finally:
        connection.close()


@pytest.mark.slow
def test_wrong_passwords_hold_up_nobody_else(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    app = application(store, login=Login(users=USERS))
    with served(app) as address, ThreadPoolExecutor(20) as clients:
        status(address, "/healthz", ATTACKER)
        hashing = Hashing()
        monkeypatch.setattr(hashlib, "scrypt", hashing)
        try:
            wrong = [
                clients.submit(status, address, "/groups", ATTACKER, f"wrong {number}")
                for number in range(16)
            ]
            assert status(address, "/healthz", ATTACKER)[0] == 200
            assert status(address, "/groups", COLLEAGUE)[0] == 401, "no password, no hash"
            colleague = clients.submit(status, address, "/groups", COLLEAGUE, "right")
        finally:
            hashing.may_end.set()
        refused = [future.result() for future in wrong]
        assert colleague.result()[0] == 200
        assert {code for code, _ in refused} == {401, 429}
        assert all(after for code, after in refused if code == 429)
        assert hashing.calls <= passwords.AT_ONCE + 1


def test_where_only_tokens_are_configured_nothing_is_hashed(store: Store, hashing: Hashing) -> None:
    login = Login(tokens={"t": Person("token", may_act=True)})
    with TestClient(application(store, login=login), "http://127.0.0.1") as client:
        assert client.get("/groups", auth=("ann", "wrong")).status_code == 401
        assert client.get("/groups", auth=("ann", "t")).status_code == 200
    assert hashing.calls == 0


def compared(made: Passwords, address: str, password: str) -> bool:
    return asyncio.run(made.are_right(address, "ann", password))


def test_a_peer_has_to_wait_after_many_wrong_passwords() -> None:
    now = [0.0]
    made = Passwords(USERS, clock=lambda: now[0])
    for number in range(passwords.WRONG):
        assert not compared(made, ATTACKER, f"wrong {number}")
    with pytest.raises(TooManyAttemptsError) as refused:
        compared(made, ATTACKER, "right")
    assert refused.value.is_peer and refused.value.seconds == passwords.RECOVERY_SECONDS
    assert compared(made, COLLEAGUE, "right")
    assert compared(made, ATTACKER, "right"), "what is known to be right is compared with no hash"
    now[0] += passwords.RECOVERY_SECONDS
    assert not compared(made, ATTACKER, "another")
    with pytest.raises(TooManyAttemptsError):
        compared(made, ATTACKER, "a third")


def test_right_passwords_are_not_counted() -> None:
    users = {f"user {number}": User(password=password_hash("pw")) for number in range(12)}
    made = Passwords(users, clock=lambda: 0.0)
    for name in users:
        assert asyncio.run(made.are_right(COLLEAGUE, name, "pw"))


@pytest.mark.slow
def test_comparisons_of_all_peers_are_bounded(hashing: Hashing) -> None:
    hashing.may_end.set()
    made = Passwords(USERS)
    hashing.may_end.clear()

    async def many() -> None:
        tasks = [
            asyncio.create_task(made.are_right(f"10.0.0.{number}", "ann", f"wrong {number}"))
            for number in range(passwords.WAITING)
        ]
        await asyncio.sleep(0)
        with pytest.raises(TooManyAttemptsError) as refused:
            await made.are_right("10.1.0.0", "ann", "wrong")
        assert not refused.value.is_peer
        # A browser sends the same password with each of its requests: one hash serves them.
        again = asyncio.create_task(made.are_right("10.1.0.0", "ann", "wrong 1"))
        hashing.may_end.set()
        assert await asyncio.gather(*tasks, again) == [False] * (passwords.WAITING + 1)

    asyncio.run(many())
    assert hashing.calls == passwords.WAITING + 1


def test_peers_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "is_password", lambda password, kept: False)
    made = Passwords(USERS)

    async def all_of_them() -> None:
        for number in range(passwords.PEERS + 50):
            await made.are_right(f"10.0.{number // 256}.{number % 256}", "ann", "wrong")

    asyncio.run(all_of_them())
    assert len(made._peers) == passwords.PEERS


def test_all_addresses_of_a_host_are_one_peer() -> None:
    assert peer_of("2001:db8::1") == peer_of("2001:db8::ffff:2") != peer_of("2001:db8:0:1::1")
    assert peer_of("10.0.0.1") != peer_of("10.0.0.2")
