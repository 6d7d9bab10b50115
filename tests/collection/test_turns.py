"""One process at a time reads a cluster, and nobody waits for ever or for a run that computes."""

import asyncio
import subprocess
import sys

import pytest
from filelock import FileLock

from collection import snapshots
from collection.memory import Memory
from collection.snapshots import take_snapshot
from collection.turns import turn
from settings.clusters import Cluster
from settings.home import Home
from tests.support.homes import environment

GONE = Cluster(("127.0.0.1:1",), "lab")

HOLD = """
import sys
from filelock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire()
print(flush=True)
input()
"""


@pytest.fixture
def home(tmp_path):
    home = Home.of(tmp_path / "home")
    home.path.mkdir()
    return home


@pytest.fixture
def holder(home):
    """Another process that reads the cluster until its input ends."""
    path = Memory.of(home, GONE.key).path.with_suffix(".lock")
    path.parent.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_a_snapshot_waits_for_that_of_another_process(home, holder):
    async def both():
        taken = asyncio.create_task(take_snapshot(home, GONE))
        done, _ = await asyncio.wait([taken], timeout=0.5)
        assert not done
        holder.kill()
        return await taken

    assert asyncio.run(both()).status == "FAILED"


def test_a_hanging_process_is_no_longer_waited_for(home, holder, monkeypatch):
    monkeypatch.setattr(snapshots, "TURN_SECONDS", 0.2)
    assert asyncio.run(take_snapshot(home, GONE)).status == "FAILED"
    assert holder.poll() is None


def test_a_turn_ends_with_its_snapshot(home, tmp_path):
    async def twice():
        for _ in range(2):
            async with turn(tmp_path / "x.lock", 0.0):
                with pytest.raises(TimeoutError):
                    FileLock(tmp_path / "x.lock", timeout=0).acquire()

    asyncio.run(twice())
