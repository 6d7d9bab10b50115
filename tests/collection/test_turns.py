"""One process at a time collects a cluster, and no other waits for one that hangs."""

import asyncio
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.cluster_history import Minute, snapshot
from tests.support.homes import environment
from tidemark.collection import snapshots
from tidemark.collection.continuous import watch
from tidemark.collection.memory import Memory, name_of
from tidemark.collection.snapshots import Collector, take_snapshot, take_snapshots
from tidemark.collection.turns import CollectedElsewhereError
from tidemark.host.leases import FileLeases, LostError, UnreachableError
from tidemark.host.shared import Shared
from tidemark.host.state import FileState, KeptState, StateError
from tidemark.settings.clusters import Cluster
from tidemark.settings.home import Home

GONE = Cluster(namesrv=("127.0.0.1:1",), name="lab")

HOLD = """
import sys
from tidemark.host.leases import FileLeases
from tidemark.settings.home import Home
lease = FileLeases(Home.of(sys.argv[1])).attempt(sys.argv[2])
assert lease
print(flush=True)
input()
"""


@pytest.fixture
def home(tmp_path):
    return Home.of(tmp_path / "home")


@pytest.fixture
def shared(home):
    return Shared.of_home(home)


@pytest.fixture
def holder(home):
    """Another process that holds the lease of the cluster until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home.path), name_of(GONE.key)],
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def remember(shared, age, every=None):
    """The cluster was collected by another process that many seconds ago."""
    at, memory = datetime.now(UTC) - timedelta(seconds=age), Memory.of(shared.state, GONE.key)
    memory.learn(snapshot(at, Minute(at=0)), every=every)
    known = json.loads(shared.state.read(memory.name) or "")
    shared.state.write(memory.name, json.dumps(known | {"collector": "another"}))


@pytest.mark.slow
def test_a_snapshot_waits_for_that_of_another_process(shared, holder):
    async def both():
        taken = asyncio.create_task(take_snapshot(shared, GONE))
        done, _ = await asyncio.wait([taken], timeout=0.5)
        assert not done
        holder.kill()
        return await taken

    assert asyncio.run(both()).status == "FAILED"


def test_a_fresh_snapshot_of_the_holder_serves_both(shared, holder):
    remember(shared, age=5)
    printed = []
    assert take_snapshots(shared, [GONE], report=printed.append) == []
    assert printed == [f"lab is collected by process {holder.pid} on {_host()}"]


@pytest.mark.parametrize(
    ("age", "every", "is_served"), [(70, 60, True), (130, 60, False), (-3600, 60, False)]
)
def test_a_holder_is_fresh_for_two_of_its_intervals(
    shared, holder, monkeypatch, age, every, is_served
):
    monkeypatch.setattr(snapshots, "TURN_SECONDS", 0.2)
    remember(shared, age, every)
    taken = take_snapshots(shared, [GONE])
    assert [item.status for item in taken] == ([] if is_served else ["FAILED"])


def test_a_hanging_process_is_no_longer_waited_for(shared, holder, monkeypatch):
    monkeypatch.setattr(snapshots, "TURN_SECONDS", 0.2)
    assert asyncio.run(take_snapshot(shared, GONE)).status == "FAILED"
    assert holder.poll() is None


def test_while_a_holder_hangs_another_collects_at_its_own_interval(shared, holder):
    collector = Collector(shared, GONE, 0.3)

    async def thrice():
        for _ in range(3):
            assert (await collector.take_snapshot(0.1)).status == "FAILED"

    asyncio.run(thrice())
    assert holder.poll() is None


class FreedLeases(FileLeases):
    """Leases whose holder is killed between an attempt and the question who it is."""

    attempts = 0

    def attempt(self, name):
        self.attempts += 1
        return super().attempt(name) if self.attempts > 1 else None

    def holder(self, name):
        return None


@pytest.mark.parametrize(
    ("age", "waited", "is_taken"),
    [(5, 60, False), (5, 1, True), (40, 60, True), (-3600, 60, True), (5, None, True)],
    ids=["in the meantime", "before", "long ago", "by a clock set back", "who did not wait"],
)
def test_a_run_that_waited_takes_no_snapshot_right_after_another(shared, age, waited, is_taken):
    """A run takes the snapshots of a tick that waits; the tick's own would come 0.7 s later."""
    remember(shared, age)
    since = None if waited is None else datetime.now(UTC) - timedelta(seconds=waited)
    printed = []
    taken = take_snapshots(shared, [GONE], report=printed.append, since=since)
    assert len(taken) == is_taken
    if not is_taken:
        assert printed[0].startswith("lab was collected 5.") and "meantime" in printed[0]


def test_a_lease_that_is_freed_after_the_attempt_is_taken(home, shared):
    remember(shared, age=5)
    freed = Shared(FreedLeases(home), shared.state)
    assert [item.status for item in take_snapshots(freed, [GONE])] == ["FAILED"]


def test_a_lease_ends_with_its_snapshot(shared):
    async def twice():
        for _ in range(2):
            await take_snapshot(shared, GONE)

    asyncio.run(twice())
    lease = shared.leases.attempt(name_of(GONE.key))
    assert lease is not None
    lease.release()


@pytest.mark.slow
def test_the_second_collector_stands_by(home, shared):
    printed = {"a": [], "b": []}
    warned = {"a": [], "b": []}

    async def main():
        stops = {name: asyncio.Event() for name in printed}
        tasks = {}
        for name in printed:
            report, warn = printed[name].append, warned[name].append
            one = watch(home, shared, GONE, 0.2, stops[name], report, warn)
            tasks[name] = asyncio.create_task(one)
            while name == "a" and not printed["a"]:
                await asyncio.sleep(0.01)
        async with asyncio.timeout(20):
            while len(printed["a"]) < 4 or not warned["b"]:
                await asyncio.sleep(0.01)
        assert not printed["b"]
        stops["a"].set()
        await tasks["a"]
        async with asyncio.timeout(20):
            while not printed["b"]:
                await asyncio.sleep(0.01)
        stops["b"].set()
        await tasks["b"]

    asyncio.run(main())
    standing_by = [line for line in warned["b"] if "standing by" in line]
    assert len(standing_by) == 1 and standing_by[0].startswith("lab is collected by process ")


class AwayLeases(FileLeases):
    """Leases of a server that can be made to go away."""

    is_away = False

    def attempt(self, name):
        if self.is_away:
            raise UnreachableError("leases cannot be had: gone")
        lease = super().attempt(name)
        if lease:
            lease.confirm = lambda: self._confirm()  # pyright: ignore
        return lease

    def _confirm(self):
        if self.is_away:
            raise LostError("lost")


class AwayState(FileState):
    is_away = False

    def read(self, name):
        if self.is_away:
            raise StateError("shared state cannot be used: gone")
        return super().read(name)

    def write(self, name, text):
        if self.is_away:
            raise StateError("shared state cannot be used: gone")
        super().write(name, text)


def test_without_the_server_only_the_current_collector_goes_on(home):
    leases, state, warned = AwayLeases(home), AwayState(home), []
    kept = Shared(leases, KeptState(state, warned.append))
    collector, other = Collector(kept, GONE, 1.0), Collector(kept, GONE, 1.0)

    async def main():
        await collector.take_snapshot(1.0)
        leases.is_away = state.is_away = True
        for _ in range(2):
            assert (await collector.take_snapshot(1.0)).status == "FAILED"
        with pytest.raises(UnreachableError):
            await other.take_snapshot(1.0)
        leases.is_away = state.is_away = False
        await collector.take_snapshot(1.0)
        with pytest.raises(CollectedElsewhereError):
            await other.take_snapshot(1.0)
        collector.end()
        await other.take_snapshot(1.0)
        other.end()

    asyncio.run(main())
    assert warned == [
        "shared state cannot be used: gone; going on with what this process remembers"
    ]


def _host():
    import socket

    return socket.gethostname()
