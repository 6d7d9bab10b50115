"""`tidemark collect` of files: landed snapshots, output and exit code."""

import shutil
import subprocess
import time

import pyarrow.parquet as pq
import pytest

from tests.rocketmq.files.conftest import StoreBuilder
from tests.support.homes import TIDEMARK, environment, run
from tests.support.recorded import FIXTURES
from tests.support.servers import free_port
from tidemark.lake.catalog import Lake
from tidemark.lake.landing import landed
from tidemark.lake.loading import load, read_landed
from tidemark.lake.tables import raw
from tidemark.rocketmq.files.store_snapshot import read_store
from tidemark.settings.home import Home

pytestmark = pytest.mark.slow

LOG = FIXTURES / "stores" / "4.9.7" / "stats.log"
CLIENTS = FIXTURES / "stores" / "5.3.3" / "rocketmq_offsets"


@pytest.fixture
def home(tmp_path):
    return Home.of(tmp_path / "home")


@pytest.fixture
def store(tmp_path):
    made = StoreBuilder(tmp_path / "store")
    for _ in range(3):
        made.put("t")
    made.write()
    made.configure({"t": 2}, {"t@g": {0: 1}})
    return made


def collect(home, *arguments):
    return run(home, ["collect", *map(str, arguments)], timeout=60)


def test_a_store(home, store):
    done = collect(home, "--store", store.root)
    assert (done.returncode, done.stderr) == (0, "")
    (item,) = landed(home)
    assert done.stdout.startswith(f"{item.snapshot_id}: COMPLETE, 1 brokers, 2 queue_offsets")
    assert len(done.stdout.splitlines()) == 1
    rows = pq.read_table(item.path / "queue_offsets.parquet").to_pylist()
    assert [(row["queue_id"], row["max_offset"]) for row in rows] == [(0, 3), (1, 0)]
    (header,) = pq.read_table(item.path / "snapshots.parquet").to_pylist()
    assert (header["source"], header["cluster"]) == ("store", "lab")
    lake = Lake(home)
    assert load(lake).snapshots == [item.snapshot_id]
    assert lake.read(raw.QUEUE_OFFSETS).num_rows == 2


def test_a_store_with_a_broken_file(home, store):
    path = store.root / "config" / "subscriptionGroup.json"
    path.write_text("{")
    done = collect(home, "--store", store.root, "--cluster", "mine", "--broker", "b")
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"PARTIAL: {path}: GET_ALL_SUBSCRIPTIONGROUP_CONFIG: ")
    (item,) = landed(home)
    assert item.cluster == "mine" and item.snapshot_id.endswith("Z-mine")


@pytest.mark.parametrize(("lost", "read"), [("consumerOffset.json", []), ("nothing", ["broker-a"])])
def test_a_store_without_progress_counts_as_unreachable(home, store, lost, read):
    """Else its groups would be gone instead of unknown."""
    (store.root / "config" / lost).unlink(missing_ok=True)
    assert read_store(store.root).queue_offsets
    assert collect(home, "--store", store.root).returncode == 0
    (item,) = landed(home)
    assert read_landed(item)["raw.snapshots"]["brokers_read"].to_pylist() == [read]


def test_local_offsets(home, tmp_path):
    clients = tmp_path / "clients"
    shutil.copytree(CLIENTS, clients)
    (bad,) = clients.glob("*-1/*/offsets.json")
    bad.write_text("tampered")
    done = collect(home, "--local-offsets", clients, "--cluster", "lab")
    assert done.returncode == 0
    assert [line.startswith(f"PARTIAL: {bad}: ") for line in done.stderr.splitlines()] == [True]
    (item,) = landed(home)
    rows = pq.read_table(item.path / "consumer_offsets.parquet").to_pylist()
    assert len(rows) == 16 and {row["offset_store"] for row in rows} == {"client_file"}


def test_stats_log_twice(home):
    for line in ("COMPLETE, 130 broker_stats", "landed before"):
        done = collect(home, "--cluster", "lab", "--broker", "broker-a", "--stats-log", LOG, LOG)
        assert (done.returncode, done.stderr) == (0, "")
        first, second = done.stdout.splitlines()
        assert first == f"20261121T093200000Z-lab-broker-a: {line}"
        assert second.startswith("20261121T093300000Z-lab-broker-a: ")
    collect(home, "--cluster", "lab", "--broker", "broker-b", "--stats-log", LOG)
    result = sorted(landed(home))
    assert [item.cluster for item in result] == ["lab"] * 4
    lake = Lake(home)
    assert len(load(lake).snapshots) == 4
    assert lake.read(raw.BROKER_STATS).num_rows == 2 * (130 + 170)


@pytest.mark.parametrize(("year", "exit_code"), [("2099", 0), ("0001", 0), ("9999", 0), ("", 1)])
def test_a_line_of_a_wrong_clock_is_left_out_and_named(home, tmp_path, year, exit_code):
    (line, *_) = (text for text in LOG.read_text().splitlines() if "Stats In One Minute" in text)
    wrong = (year or "2099") + line[4:]
    log = tmp_path / "stats.log"
    later = [f"{wrong[:14]}{minute}{wrong[16:]}" for minute in range(40, 60)]
    log.write_text("\n".join([line, wrong, *later] if year else [wrong, *later]) + "\n")
    done = collect(home, "--cluster", "lab", "--broker", "broker-a", "--stats-log", log)
    assert done.returncode == exit_code, done.stderr
    (named,) = done.stderr.splitlines()
    assert "left out, because it lies" in named and named.endswith("; so are 20 others")
    assert len(list(landed(home))) == (1 if year else 0)


def test_stats_log_of_a_slave(home):
    """Beside the master's of the same instants, not instead of it and not skipped for it."""
    of = ("--cluster", "lab", "--broker", "broker-a", "--stats-log", LOG)
    collect(home, *of)
    done = collect(home, *of, "--broker-id", 2)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == (
        "20261121T093200000Z-lab-broker-a@2: COMPLETE, 130 broker_stats"
    )
    tables = [pq.read_table(item.path / "broker_stats.parquet") for item in sorted(landed(home))]
    assert [table["broker_id"].unique().to_pylist() for table in tables] == [[0], [2], [0], [2]]


REFUSED = {
    "no store": (["--store", "DIR"], 1, "no store of a broker"),
    "no such store": (["--store", "DIR/no"], 1, "no such folder"),
    "no clients": (["--local-offsets", "DIR", "--cluster", "c"], 1, "offsets.json"),
    "no log": (["--stats-log", "DIR/no", "--cluster", "c", "--broker", "b"], 1, "No such file"),
    "no statistics": (["--stats-log", "DIR/x", "--cluster", "c", "--broker", "b"], 1, "no line"),
    "nothing": ([], 2, "which cluster?"),
    "two sources": (["--store", "DIR", "--local-offsets", "DIR"], 2, "give one of"),
    "files of what": (["DIR", "--store", "DIR"], 2, "--stats-log"),
    "no cluster": (["--local-offsets", "DIR"], 2, "--cluster NAME"),
    "an id of what": (["--broker-id", "1"], 2, "--stats-log"),
    "no id": (["--stats-log", "DIR/x", "--broker-id", "-1"], 2, "--broker-id"),
    "too large an id": (["--store", "DIR", "--broker-id", str(2**63)], 2, "--broker-id"),
    "no broker": (["--stats-log", "DIR/x", "--cluster", "c"], 2, "--broker NAME"),
}


@pytest.mark.parametrize(("arguments", "code", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(home, tmp_path, arguments, code, expected):
    (tmp_path / "x").write_text("something\n")
    done = collect(home, *(part.replace("DIR", str(tmp_path)) for part in arguments))
    assert done.returncode == code
    assert expected in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    if code == 1:
        assert len(done.stderr.splitlines()) == 1
    assert list(landed(home)) == []


def test_a_collector_that_reaches_nobody_is_alive(home, tmp_path):
    alive = tmp_path / "alive"
    options = ["--every", "1s", "--namesrv", f"127.0.0.1:{free_port()}", "--alive-file", alive]
    command = [TIDEMARK, "collect", *options]
    with subprocess.Popen(command, env=environment(home), stderr=subprocess.PIPE) as collector:
        try:
            until = time.monotonic() + 60
            while not alive.exists() and collector.poll() is None and time.monotonic() < until:
                time.sleep(0.1)
        finally:
            collector.terminate()
    assert alive.exists(), collector.stderr
    assert collector.returncode == 0


def test_only_a_continuous_collector_touches_its_file(home):
    refused = collect(home, "--alive-file", "alive")
    assert refused.returncode == 2
    assert "--alive-file is for --every" in refused.stderr


def test_a_name_in_files_obeys_no_terminal(home, store):
    """The line of a snapshot broke where the name of its cluster did."""
    done = collect(home, "--store", store.root, "--cluster", "a\n\x1b[31mb")
    (line,) = done.stdout.splitlines()
    assert done.returncode == 0 and "Z-a\\n\\x1b[31mb: COMPLETE" in line
