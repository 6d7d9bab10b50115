"""A cluster that does not respond delays only requests for its own snapshot."""

import asyncio
import http.client
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice

import pytest
from fastapi.testclient import TestClient

from tests.support.served import served
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.board.views import live
from tidemark.board.views.live import WAITING
from tidemark.rocketmq.records import Broker, ConsumerOffset, QueueOffset, Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.settings.clusters import Cluster

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)
READERS = 45
"""More than the threads in which requests are served."""


class UnreachableNameServer:
    """Accepts connections and sends nothing until it ends them."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        self.connections: list[socket.socket] = []
        self.was_requested = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.connections.append(self.listening.accept()[0])
            except OSError:
                return
            self.was_requested.set()

    def end(self) -> None:
        self.listening.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture
def unreachable() -> Iterator[UnreachableNameServer]:
    made = UnreachableNameServer()
    yield made
    made.end()


def request(address: str, path: str) -> tuple[int, str | None, bytes]:
    connection = http.client.HTTPConnection(address, timeout=120)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.getheader("Retry-After"), response.read()
    finally:
        connection.close()


@pytest.mark.slow
def test_readers_of_a_silent_cluster_hold_up_nobody_else(
    store: Store, unreachable: UnreachableNameServer
) -> None:
    limits = {"request_timeout": 300.0, "total_timeout": 300.0}
    clusters = [Cluster(namesrv=(f"127.0.0.1:{unreachable.port}",), name="quiet", limits=limits)]
    app = application(store, configured=lambda: clusters)
    with served(app) as address, ThreadPoolExecutor(READERS) as clients:
        reading = [
            clients.submit(request, address, f"{path}quiet")
            for path in islice(cycle(("/api/v1/live/", "/live?cluster=")), READERS)
        ]
        refused = list(islice(as_completed(reading), READERS - WAITING))
        assert unreachable.was_requested.wait(60)
        for path in ("/healthz", "/readyz", "/groups", "/metrics"):
            assert request(address, path)[0] == 200, path
        waiting = [future for future in reading if future not in refused]
        assert not any(future.done() for future in waiting), "the cluster is still unreachable"
        unreachable.end()
        for future in refused:
            status, after, body = future.result()
            assert (status, after) == (503, "5") and b"requests wait for a snapshot" in body
        for future in waiting:
            status, after, body = future.result()
            assert (status, after) == (503, None) and b"cannot be read now" in body


@pytest.mark.parametrize("ahead", [timedelta(minutes=-5), timedelta(0), timedelta(minutes=5)])
def test_delays_are_by_our_clock(
    store: Store, monkeypatch: pytest.MonkeyPatch, ahead: timedelta
) -> None:
    """The clock of a broker that is off moves no delay, as in `tidemark lag`."""
    taken = Snapshot(cluster="lab", source="remote", observed_at=NOON, status="COMPLETE")
    taken.brokers = [
        Broker(
            broker="broker-a",
            broker_id=0,
            address="a:1",
            clock_skew_ms=ahead // timedelta(milliseconds=1),
        )
    ]
    stored_at = NOON + ahead - timedelta(seconds=90)
    taken.queue_offsets = [
        QueueOffset(
            broker="broker-a",
            topic="orders",
            queue_id=0,
            min_offset=0,
            max_offset=10,
            newest_stored_at=stored_at,
        )
    ]
    taken.consumer_offsets = [
        ConsumerOffset(
            broker="broker-a",
            consumer_group="billing",
            topic="orders",
            queue_id=0,
            client_id=None,
            consumer_offset=9,
        )
    ]
    monkeypatch.setattr(live, "collect_snapshot", lambda _: taken)
    app = application(store, configured=lambda: [Cluster(namesrv=("a:9876",), name="lab")])
    client = TestClient(app, "http://127.0.0.1")
    (row,) = client.get("/api/v1/live/lab").json()["items"]
    assert (row["delay_ms"], row["delay_source"]) == (90_000, "exact")
    assert "1 m 30 s" in client.get("/live?cluster=lab", headers={"Accept": "text/html"}).text


def test_one_snapshot_serves_all_who_ask_within_seconds(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Snapshot] = []
    last = Snapshot(cluster="lab", source="remote", observed_at=NOON, status="COMPLETE")
    monkeypatch.setattr(live, "collect_snapshot", lambda _: taken.append(last) or last)
    app = application(store, configured=lambda: [Cluster(namesrv=("a:9876",), name="lab")])
    client = TestClient(app, "http://127.0.0.1")
    for _ in range(3):
        assert client.get("/api/v1/live/lab").status_code == 200
    assert len(taken) == 1
    monkeypatch.setattr(live, "SECONDS", 0.0)
    assert client.get("/api/v1/live/lab").status_code == 200
    assert len(taken) == 2


@pytest.mark.slow
def test_few_clusters_are_read_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = [
        Cluster(namesrv=("a:9876",), name=f"lab-{number}") for number in range(live.THREADS + 1)
    ]
    begun, may_end = threading.Semaphore(0), threading.Event()

    def collect(target: ClusterTarget) -> Snapshot:
        begun.release()
        may_end.wait(60)
        return Snapshot(
            cluster=target.name or "", source="remote", observed_at=NOON, status="COMPLETE"
        )

    monkeypatch.setattr(live, "collect_snapshot", collect)
    made = live.LiveSnapshots(store.lake.shared.state, lambda: clusters)

    async def all_of_them() -> list[str]:
        tasks = [asyncio.create_task(made.of(cluster.key)) for cluster in clusters]
        for _ in range(live.THREADS):
            assert await asyncio.to_thread(begun.acquire, timeout=60)
        assert not await asyncio.to_thread(begun.acquire, timeout=0.5)
        may_end.set()
        return [snapshot.cluster for snapshot in await asyncio.gather(*tasks)]

    assert asyncio.run(all_of_them()) == [cluster.key for cluster in clusters]


def test_a_probe_waits_for_no_rows(store: Store) -> None:
    client = TestClient(application(Store(store.lake)), "http://127.0.0.1")  # nothing reads rows
    assert client.get("/healthz").status_code == 200
    response = client.get("/readyz")
    assert response.status_code == 503 and "first time" in response.json()["reasons"][0]
