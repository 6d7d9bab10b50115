"""`tidemark collect`, once and again and again, where nothing responds and where landing fails.

That it lands what real brokers report is in tests/e2e/test_collect.py.
"""

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import threading
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from bench import standin
from tests.support.cluster_history import Minute, snapshot
from tests.support.commands import output_of
from tests.support.homes import TIDEMARK, environment, run
from tests.support.servers import free_port
from tidemark.collection import continuous, snapshots
from tidemark.collection.continuous import clock_line, next_multiple, watch
from tidemark.host.shared import Shared
from tidemark.lab.large import Large
from tidemark.lake.landing import land, landed
from tidemark.lake.landing_places import Disk
from tidemark.lake.loading import read_landed
from tidemark.rocketmq.records import Broker, Snapshot
from tidemark.rocketmq.snapshot.target import DeepOptions
from tidemark.settings.clusters import Account, Cluster
from tidemark.settings.home import Home

GONE = "127.0.0.1:1"


@pytest.fixture
def home(tmp_path):
    home = Home.of(tmp_path / "home")
    home.path.mkdir()
    return home


def headers(home):
    return [read_landed(item)["raw.snapshots"].to_pylist()[0] for item in sorted(landed(home))]


def watching(home, clusters, every, until):
    """Watch clusters until ``until(reported, complained)``; return both lists of lines."""
    reported, complained = [], []
    shared = Shared.of_home(home)

    async def main():
        stop = asyncio.Event()
        tasks = [
            asyncio.create_task(
                watch(home, shared, it, it.every or every, stop, reported.append, complained.append)
            )
            for it in clusters
        ]
        async with asyncio.timeout(30):
            while not until(reported, complained):
                await asyncio.sleep(0.02)
        stop.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    return reported, complained


@pytest.mark.slow
def test_each_cluster_at_its_own_interval(home):
    often = Cluster(namesrv=(GONE,), name="often", every=0.3)
    seldom = Cluster(namesrv=(GONE,), name="seldom", every=60)
    reported, complained = watching(
        home, [often, seldom], 1, lambda reported, _: len(reported) >= 8
    )
    # On a busy machine the quick one may be late; the slow one has no reason to.
    assert not [line for line in complained if "seldom" in line]
    names = [line.split()[1] for line in reported]
    assert names.count("seldom") == 1 and names.count("often") == len(reported) - 1
    assert all("FAILED" in line and "connection refused" in line for line in reported)
    assert [row["snapshot_id"] for row in headers(home)] == sorted(
        item.snapshot_id for item in landed(home)
    )
    assert len(headers(home)) == len(reported)


@pytest.fixture
def scheduled(monkeypatch):
    """Snapshots that only take as long as given; when each began, as multiples of a start."""
    began, lasting, under_way = [], [], []

    class Collector:
        def __init__(self, shared, cluster, every, read):
            self.cluster = cluster

        async def take_snapshot(self, seconds):
            assert not under_way, "snapshots of one cluster overlap"
            under_way.append(1)
            began.append(asyncio.get_running_loop().time())
            await asyncio.sleep(lasting.pop(0) if lasting else 0)
            under_way.clear()
            now = datetime.now(UTC)
            return Snapshot(
                cluster=self.cluster.name, source="remote", observed_at=now, finished_at=now
            )

        def end(self):
            pass

    monkeypatch.setattr("tidemark.collection.continuous.Collector", Collector)
    return began, lasting


@pytest.mark.slow
def test_snapshots_begin_at_multiples_and_never_overlap(home, scheduled):
    began, lasting = scheduled
    every = 0.2
    lasting += [0.05, 0.5]
    cluster = Cluster(namesrv=(GONE,), name="a")
    _, complained = watching(home, [cluster], every, lambda *_: len(began) >= 5)
    multiples = [(at - began[0]) / every for at in began]
    # No snapshot begins before its multiple, however late the one before was: no drift.
    assert all(at >= number - 0.01 for number, at in enumerate(multiples))
    assert multiples[2] >= 3.99, "1 + 0.5 / 0.2 is beyond 3"
    assert "a: left out " in complained[0]


@pytest.mark.parametrize(
    ("number", "seconds", "expected"),
    [(0, 0.1, 1), (0, 10.0, 1), (0, 10.1, 2), (4, 41.0, 5), (4, 40.0, 5), (4, 95.0, 10)],
)
def test_the_next_multiple_is_the_first_ahead(number, seconds, expected):
    assert next_multiple(number, seconds, every=10.0) == expected


def test_a_snapshot_has_less_time_than_its_interval(home, monkeypatch):
    given = []

    async def collect(target):
        given.append((target.total_timeout, target.deep and target.deep.total_timeout))
        raise ValueError("enough")

    monkeypatch.setattr(snapshots, "collect", collect)
    for every, deep_every in ((2.0, 0), (60.0, 0), (2.0, 300), (60.0, 300)):
        cluster = Cluster(namesrv=(GONE,), name="a", deep_every=deep_every)
        watching(home, [cluster], every, lambda reported, _: reported)
    assert given == [(1.8, None), (8.0, None), (0.9, 0.9), (8.0, 27.0)]


def test_every_few_snapshots_one_is_deep(home, monkeypatch):
    """The memory decides, so also from process to process; a failed one is tried again."""
    given = []

    async def collect(target):
        given.append(target.deep)
        taken = snapshot(start, Minute(at=len(given) - 1))
        if len(given) == 1:
            taken.brokers, taken.status = [], "FAILED"
        return taken

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return start + timedelta(minutes=len(given), milliseconds=-300 * len(given))

    start = datetime(2026, 11, 19, 12, tzinfo=UTC)
    monkeypatch.setattr(snapshots, "collect", collect)
    monkeypatch.setattr(snapshots, "datetime", Clock)
    cluster = Cluster(namesrv=(GONE,), name="past", deep_every=180, client_reports=False)
    for _ in range(8):
        snapshots.take_snapshots(Shared.of_home(home), [cluster])
    depth = DeepOptions(client_reports=False)
    without_turns = [item and replace(item, turn=0) for item in given]
    assert without_turns == [depth, depth, None, None, depth, None, None, depth]


def unhurried(lines):
    """Without those about a snapshot that took too long: the machine may be busy."""
    return [line for line in lines if ": left out " not in line]


def test_landing_that_fails_goes_on_by_itself(home):
    home.landing.write_text("in the way")

    def until(reported, complained):
        if len(complained) >= 3 and home.landing.is_file():
            home.landing.unlink()
        return len(reported) >= 2

    reported, complained = watching(home, [Cluster(namesrv=(GONE,), name="a")], 0.05, until)
    for line in unhurried(complained):
        assert line.startswith(f"a: a snapshot could not be landed in {home.landing}: ")
        assert "Not a directory" in line or "File exists" in line
        assert "\n" not in line
    assert len(headers(home)) == len(reported) >= 2


@pytest.mark.slow
def test_snapshots_are_complete_again_when_the_name_server_is_back(home):
    port, large = free_port(), Large(topics=1, queues=1, groups=1, topics_per_group=1)
    with ExitStack() as servers:
        serving = []

        def until(reported, complained):
            if len(reported) > 1 and not serving:
                serving.append(servers.enter_context(standin.serve(large, brokers=1, port=port)))
            return len(headers(home)) > 2 and headers(home)[-1]["status"] == "COMPLETE"

        watching(home, [Cluster(namesrv=(f"127.0.0.1:{port}",), name="lab")], 0.5, until)
    statuses = [header["status"] for header in headers(home)]
    assert statuses[:2] == ["FAILED", "FAILED"] and statuses[-1] == "COMPLETE"


def test_a_bucket_that_does_not_respond_delays_no_snapshot(home, tmp_path, monkeypatch):
    """Refused snapshots wait in the home, and landing may take longer than an interval."""
    refusing = Disk(tmp_path / "landing")
    refusing.root.write_text("in the way")
    responds, tried = threading.Event(), threading.Event()

    def hang(item, landing):
        tried.set()
        responds.wait(30)
        raise OSError("no response")

    monkeypatch.setattr("tidemark.collection.continuous.copy_landed", hang)
    reported, shared = [], Shared.of_home(home)

    async def main():
        stop = asyncio.Event()
        lines = reported.append, lambda line: None
        cluster = Cluster(namesrv=(GONE,), name="a")
        watched = asyncio.create_task(
            watch(refusing, shared, cluster, 0.05, stop, *lines, waiting=home)
        )
        try:
            async with asyncio.timeout(10):
                while len(reported) < 4 or not tried.is_set():
                    await asyncio.sleep(0.02)
        finally:
            responds.set()
            stop.set()
            await watched

    asyncio.run(main())


@pytest.mark.parametrize("every", [0.2, 3600])
def test_a_collector_is_alive_however_long_its_interval_is(home, monkeypatch, every):
    monkeypatch.setattr(continuous, "ALIVE_SECONDS", 0.05)
    shown = []

    async def main():
        stop = asyncio.Event()
        shared, cluster, lines = (
            Shared.of_home(home),
            Cluster(namesrv=(GONE,), name="a"),
            [[].append] * 2,
        )
        watched = asyncio.create_task(
            watch(home, shared, cluster, every, stop, *lines, alive=partial(shown.append, 1))
        )
        async with asyncio.timeout(10):
            while len(shown) < 8:
                await asyncio.sleep(0.02)
        stop.set()
        await watched

    asyncio.run(main())


def test_a_reader_receives_the_name_of_earlier_snapshots(home):
    """A name server that has just started lists no cluster; the address must not become one."""
    names = []

    async def read(cluster, target):
        names.append(target.last_name)
        return snapshot(datetime.now(UTC), Minute(at=0))

    for _ in range(2):
        snapshots.take_snapshots(Shared.of_home(home), [Cluster(namesrv=(GONE,))], read=read)
    assert names == [None, "past"]


def test_a_snapshot_that_cannot_be_written_ends_no_collection(home, caplog, monkeypatch):
    """Whatever a name server calls a cluster, and whatever Arrow makes of it."""
    caplog.set_level(logging.CRITICAL)

    def refuse(place, value):
        if value.cluster == "broken":
            raise ValueError("no such type")
        land(place, value)

    monkeypatch.setattr("tidemark.collection.continuous.land", refuse)
    clusters = [Cluster(namesrv=(GONE,), name="broken"), Cluster(namesrv=(GONE,), name="gone")]
    _, complained = watching(
        home, clusters, 0.05, lambda reported, complained: len(reported) > 2 < len(complained)
    )
    lost = "broken: a snapshot is lost: ValueError: no such type; trying again"
    assert set(unhurried(complained)) == {lost}
    assert {header["cluster"] for header in headers(home)} == {"gone"}


def test_one_cluster_never_touches_another(home, caplog, monkeypatch):
    """Faults of one cluster: no account, a mistake of ours, an unknown name."""
    caplog.set_level(logging.CRITICAL)
    real = snapshots.collect

    async def collect(target):
        if target.name == "broken":
            raise RuntimeError("a mistake")
        return await real(target)

    monkeypatch.setattr(snapshots, "collect", collect)
    clusters = [
        Cluster(
            namesrv=(GONE,),
            name="no-account",
            acl=Account(
                place="clusters.yaml:4: clusters[0].acl", access_key_env="X", secret_key_env="Y"
            ),
        ),
        Cluster(namesrv=(GONE,), name="broken"),
        Cluster(namesrv=(GONE,)),
        Cluster(namesrv=(GONE,), name="gone"),
    ]
    taken = snapshots.take_snapshots(Shared.of_home(home), clusters)
    messages = {snapshot.cluster: snapshot.problems[0].message for snapshot in taken}
    assert messages["no-account"].endswith(
        "acl.access_key_env: this environment variable is not set, or empty"
    )
    assert messages["broken"] == "RuntimeError: a mistake"
    assert "connection refused" in messages["gone"]
    assert len(messages) == 3
    assert {snapshot.status for snapshot in taken} == {"FAILED"}


def test_the_only_cluster_without_a_name_is_never_landed(home):
    with pytest.raises(snapshots.NeverReachedError, match=f"{GONE}: GET_BROKER_CLUSTER_INFO"):
        snapshots.take_snapshots(Shared.of_home(home), [Cluster(namesrv=(GONE,))])


# The command -------------------------------------------------------------------------------------

TWO = f"clusters:\n- {{name: a, namesrv: '{GONE}'}}\n- {{name: b, namesrv: '{GONE}', every: 1s}}\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(home, number):
    (home.path / "clusters.yaml").write_text(TWO)
    process = subprocess.Popen(
        [str(TIDEMARK), "collect", "--every", "30s"],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        first = [process.stdout.readline() for _ in range(2)]
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, unhurried(err.splitlines())) == (0, [])
    lines = [*first, *out.splitlines()]
    assert {line.split()[1] for line in first} == {"a", "b"}
    assert len(headers(home)) == len(lines)
    assert not list(home.landing.glob("*/*/*/.*")), "something unfinished was left"


def test_once_is_one_snapshot_of_each(home):
    (home.path / "clusters.yaml").write_text(TWO)
    done = run(home, ["collect"], timeout=60)
    assert done.returncode == 1
    assert [line.split()[1:3] for line in done.stdout.splitlines()] == [
        ["a", "FAILED"],
        ["b", "FAILED"],
    ]
    assert "nothing could be read: a: " in done.stderr and done.stderr.count("\n") == 1
    assert sorted(row["cluster"] for row in headers(home)) == ["a", "b"]


def test_one_snapshot_needs_the_name_of_its_cluster(home):
    (home.path / "clusters.yaml").write_text(TWO)
    assert "TIDEMARK_CLUSTER to one of a, b" in output_of(home, "lag", code=2)
    assert "connection refused" in output_of(home, "lag", code=1, TIDEMARK_CLUSTER="b")


def test_wrong_settings_are_one_line(home):
    (home.path / "clusters.yaml").write_text("clusters:\n- name: a\n")
    for command in (["collect"], ["collect", "--every", "5s"], ["lag"], ["tick"], ["snapshot"]):
        printed = output_of(home, *command, code=1)
        assert printed.count("\n") == 1, printed
        assert f"{home.path / 'clusters.yaml'}:2: clusters[0].namesrv: missing" in printed


@pytest.mark.parametrize("every", ["often", "0.5s", "-1s"])
def test_an_interval_that_is_none(home, every):
    output_of(home, "collect", "--namesrv", GONE, f"--every={every}", code=2)


def test_a_disk_that_is_full(home):
    """A file system of one page, where this machine lets one be mounted."""
    home.landing.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(home.landing)], capture_output=True
    )
    if shutil.which("mount") is None or mounted.returncode:
        pytest.skip("no file system can be mounted here")

    def until(reported, complained):
        if len(complained) >= 2 and not reported:
            subprocess.run(["mount", "-o", "remount,size=4m", str(home.landing)], check=True)
        return len(reported) >= 2

    try:
        reported, complained = watching(home, [Cluster(namesrv=(GONE,), name="a")], 0.05, until)
        assert "No space left on device" in complained[0]
        assert len(headers(home)) == len(reported)
        assert not list(home.landing.glob("*/*/*/.*"))
    finally:
        subprocess.run(["umount", str(home.landing)], check=True)


def with_skews(*skews):
    taken = Snapshot(cluster="a", source="remote", observed_at=datetime.now(UTC))
    taken.brokers = [
        Broker(broker=f"b-{n}", broker_id=0, address="", clock_skew_ms=it)
        for n, it in enumerate(skews)
    ]
    return taken


@pytest.mark.parametrize(
    ("skews", "words"),
    [
        ((300_004, 299_950, None), "is 5 min behind those of all brokers (2)"),
        ((-61_000,), "is 1 min ahead of those of all brokers (1)"),
        ((300_000, 0), ""),
        ((20_000, 20_000), ""),
        ((None,), ""),
        ((), ""),
    ],
)
def test_only_a_clock_that_all_brokers_contradict_is_reported(skews, words):
    line = clock_line(with_skews(*skews))
    assert words in line and bool(words) == bool(line)
