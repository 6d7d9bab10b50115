"""Names of clusters: the same ones are taken by settings, commands and landing."""

import asyncio
import json
from datetime import UTC, datetime
from functools import partial

import pytest

from tests.rocketmq.conftest import scripted  # noqa: F401 - a fixture
from tests.support.homes import run
from tests.support.hostile_servers import (
    GROUPS,
    MEMBERS,
    frame,
    list_brokers,
    replaced,
    sent,
    serve,
)
from tidemark.collection.snapshots import NeverReachedError, take_snapshots
from tidemark.host.shared import Shared
from tidemark.lake.landing import folder, land, landed
from tidemark.rocketmq.records import Snapshot
from tidemark.settings.basics import SettingsError
from tidemark.settings.clusters import Cluster, configured, fault_of_name
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

LONG = "c" * 230
GOOD = ["c", "prod/eu", "DefaultCluster", "a+b", "\u96c6\u7fa4", "c" * 100]
BAD = [LONG, "c" * 101, " ", "%" * 90, "\u96c6" * 90, "bad\udcff"]


@pytest.mark.parametrize("name", GOOD)
def test_a_name_lands(tmp_path, name):
    assert fault_of_name(name) is None
    snapshot = Snapshot(
        cluster=name, source="remote", observed_at=datetime(2026, 11, 1, tzinfo=UTC)
    )
    land(Home.of(tmp_path), snapshot)
    assert [item.cluster for item in landed(Home.of(tmp_path))] == [name]


@pytest.mark.parametrize("name", BAD)
def test_a_name_is_refused_wherever_it_enters(tmp_path, monkeypatch, name):
    home = Home.of(tmp_path)
    with pytest.raises(ValueError, match="name"):
        land(
            home,
            Snapshot(cluster=name, source="remote", observed_at=datetime(2026, 11, 1, tzinfo=UTC)),
        )
    with pytest.raises(SettingsError, match="TIDEMARK_CLUSTER"):
        configured(home, "127.0.0.1:1", name)
    monkeypatch.setenv("TIDEMARK_CLUSTER", name)
    with pytest.raises(SettingsError, match="TIDEMARK_CLUSTER"):
        Settings.read()
    assert not home.landing.exists()


def test_a_part_that_no_folder_can_have_is_refused(tmp_path):
    at = datetime(2026, 11, 1, tzinfo=UTC)
    for part, fits in (("b" * 200, True), ("b" * 300, False)):
        snapshot = Snapshot(cluster="c", source="stats_log", observed_at=at, part=part)
        if fits:
            land(Home.of(tmp_path), snapshot)
            continue
        with pytest.raises(ValueError, match="300 characters"):
            land(Home.of(tmp_path), snapshot)
    assert len(folder(Home.of(tmp_path), "c", at, "x").parts) > 3


@pytest.mark.slow
def test_commands_refuse_the_name_before_they_land(tmp_path):
    logs = tmp_path / "stats.log"
    line = "2026-11-20 18:25:00 INFO - [TOPIC_PUT_NUMS] [T] "
    logs.write_text(f"{line}Stats In One Minute, SUM: 6 TPS: 0.10 AVGPT: 1.00\n")
    home = Home.of(tmp_path / "home")
    file = home.make() / "clusters.yaml"
    file.write_text(f"clusters:\n- {{name: {LONG}, namesrv: '127.0.0.1:1'}}\n")
    named = ["--cluster", LONG, "--broker", "b"]
    for command in (["collect", "--stats-log", str(logs), *named], ["collect"], ["snapshot"]):
        done = run(home, command)
        assert done.returncode != 0 and "100" in done.stderr, done.stderr
        assert "File name too long" not in done.stderr and "Traceback" not in done.stderr
    assert not home.landing.exists()


@pytest.mark.slow
@pytest.mark.parametrize("mark", "?#%")
def test_nothing_lands_in_a_home_that_a_tick_refuses(tmp_path, mark):
    logs = tmp_path / "stats.log"
    line = "2026-11-20 18:25:00 INFO - [TOPIC_PUT_NUMS] [T] "
    logs.write_text(f"{line}Stats In One Minute, SUM: 6 TPS: 0.10 AVGPT: 1.00\n")
    home = Home.of(tmp_path / f"home{mark}20")
    expected = "TIDEMARK_HOME takes a path without ?, # and %"
    named = ["--cluster", "c", "--broker", "b"]
    for command in (
        ["collect", "--stats-log", str(logs), *named],
        ["collect", "--namesrv", "127.0.0.1:1"],
        ["tick", "--no-collect"],
    ):
        done = run(home, command)
        assert done.returncode != 0 and expected in done.stderr, done.stderr
    assert not home.landing.exists()


def test_a_name_that_a_name_server_gives_is_refused(scripted, tmp_path):  # noqa: F811
    async def main():
        async def list_one(address, reader, writer):
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            group = f'{{"brokerName":"a","cluster":"{LONG}","brokerAddrs":{{"0":"{address}"}}}}'
            body = f'{{"brokerAddrTable":{{"a":{group}}},"clusterAddrTable":{{"{LONG}":["a"]}}}}'
            writer.write(frame(1, body.encode()))
            await reader.read()

        async with (
            scripted(partial(serve, "a", {})) as broker,
            scripted(partial(list_one, broker)) as server,
        ):
            shared = Shared.of_home(Home.of(tmp_path))
            take = partial(take_snapshots, shared, [Cluster(namesrv=(server,), deep_every=0)])
            with pytest.raises(NeverReachedError, match=r"230 characters.*TIDEMARK_CLUSTER"):
                await asyncio.to_thread(take)

    asyncio.run(main())


def test_brokers_that_respond_give_the_name_also_where_nothing_is_known(scripted, tmp_path):  # noqa: F811
    """The members of 2,500 groups are refused, more than the problems that a snapshot names."""
    groups = {f"g{number}": {"consumeEnable": True, "brokerId": 0} for number in range(2_500)}
    wrong = {
        GROUPS: replaced(b"", json.dumps({"subscriptionGroupTable": groups}).encode()),
        MEMBERS: sent(lambda opaque, _: frame(opaque, code=1, remark="busy")),
    }

    async def main():
        async with (
            scripted(partial(serve, "a", wrong)) as broker,
            scripted(partial(list_brokers, {"a": broker})) as server,
        ):
            shared = Shared.of_home(Home.of(tmp_path))
            cluster = Cluster(namesrv=(server,), deep_every=0)
            (snapshot,) = await asyncio.to_thread(take_snapshots, shared, [cluster])
        assert (snapshot.cluster, snapshot.status, snapshot.consumer_offsets) == ("c", "FAILED", [])
        assert "problems more than the 2000" in snapshot.problems[0].message

    asyncio.run(main())
