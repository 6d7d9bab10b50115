"""Lines of stats.log: of real brokers, in other locales, in rolled files, broken."""

import gzip
import os
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.recorded import FIXTURES
from tidemark.rocketmq.files.mapped_files import FileError
from tidemark.rocketmq.files.stats_log import key_parts, parse_line, read_stats_log
from tidemark.rocketmq.records import BrokerStats


def line(at="2026-11-21 17:32:00", name="TOPIC_PUT_NUMS", key="t", window="Minute", sums="1"):
    values = f"SUM: {sums} TPS: 0.02 AVGPT: 1.00"
    return f"{at} INFO - [{name}] [{key}] Stats In One {window}, {values}\n"


def read(*files):
    return list(read_stats_log(files, cluster="lab", broker="broker-a"))


def at(hour, minute, second=0):
    return datetime(2026, 11, 21, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize(("version", "instants"), [("4.9.7", [32, 33]), ("5.3.3", [24])])
def test_real_logs(version, instants):
    path = FIXTURES / "stores" / version / "stats.log"
    snapshots = read(path)
    assert [snapshot.observed_at for snapshot in snapshots] == [
        at(9, minute) for minute in instants
    ]
    assert {snapshot.status for snapshot in snapshots} == {"COMPLETE"}
    reported = sum("Stats In One" in text for text in path.read_text().splitlines())
    assert sum(len(snapshot.broker_stats) for snapshot in snapshots) == reported > 100
    (first, *_) = [
        row for row in snapshots[0].broker_stats if row.stats_name == "GROUP_GET_LATENCY"
    ]
    assert first.sum is first.tps is None and first.avgpt is not None


def test_a_counter():
    printed = line(name="SNDBCK_PUT_NUMS", key="lab_orders@g-dlq", window="Hour", sums="38")
    expected = BrokerStats(
        broker="broker-a", broker_id=0, stats_name="SNDBCK_PUT_NUMS",
        stats_key="lab_orders@g-dlq", topic="lab_orders", consumer_group="g-dlq",
        stats_window="hour", sum=38, tps=0.02, avgpt=1.0,
    )  # fmt: skip
    assert parse_line(printed, "broker-a") == (at(9, 32), expected)


@given(
    total=st.integers(-(2**63), 2**63 - 1),
    tps=st.integers(0, 10**15),
    average=st.integers(0, 10**9),
    comma=st.sampled_from([".", ",", "\u066b"]),
)
def test_numbers_of_any_locale(total, tps, average, comma):
    numbers = [f"{value // 100}{comma}{value % 100:02d}" for value in (tps, average)]
    text = f"2026-11-21 17:32:00 INFO - [N] [k] Stats In One Day, SUM: {total} "
    pair = parse_line(text + f"TPS: {numbers[0]} AVGPT: {numbers[1]}\n", "b")
    assert pair
    row = pair[1]
    assert (row.sum, row.stats_window) == (total, "day")
    assert (row.tps, row.avgpt) == (tps / 100, average / 100)


def test_no_number_is_not_known():
    text = "2026-11-21 17:32:00 INFO - [N] [k] Stats In One Day, SUM: 0 TPS: NaN AVGPT: 0.00"
    assert parse_line(text, "b")[1].tps is None


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Shanghai"])
def test_the_zone_of_this_host_does_not_matter(zone, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert parse_line(line("2026-11-21 00:00:00"), "b")[0] == datetime(
            2026, 11, 20, 16, 0, tzinfo=UTC
        )
    finally:
        monkeypatch.undo()
        time.tzset()
    assert os.environ.get("TZ") != "America/New_York"


@given(st.text(max_size=200) | st.builds(line, at=st.text(max_size=20), sums=st.text(max_size=9)))
def test_any_line_is_read_or_left(text):
    parse_line(text, "b")


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21 17:24:00 INFO - [GROUP_GET_FALL_TIME] [0@t@g] Stats Every 5 Minutes, Value: 0",
        "2026-13-45 17:24:00 INFO - [N] [k] Stats In One Day, SUM: 0 TPS: 0.00 AVGPT: 0.00",
        line()[5:],
        line()[:-8] + "x",
        "",
    ],
)
def test_lines_without_a_counter(text):
    assert parse_line(text, "b") is None


@pytest.mark.parametrize(
    ("name", "key", "topic", "group"),
    [
        ("TOPIC_PUT_NUMS", "t", "t", None),
        ("GROUP_GET_SIZE", "%RETRY%g@g", "%RETRY%g", "g"),
        ("GROUP_GET_LATENCY", "3@t@g", "t", "g"),
        ("GROUP_GET_LATENCY", "t@g", "t", "g"),
        ("TOPIC_PUT_LATENCY", "3@t", "t", None),
        ("QUEUE_PUT_NUMS", "t@3", "t", None),
        ("QUEUE_GET_SIZE", "t@3@g", "t", "g"),
        ("BROKER_PUT_NUMS", "lab", None, None),
        ("GROUP_GET_NUMS", "odd", None, None),
    ],
)
def test_parts_of_a_counter_key(name, key, topic, group):
    assert key_parts(name, key) == (topic, group)


def test_rolled_files_in_any_order(tmp_path):
    """The roll cuts through an instant; another copy of the newer file is given too."""
    older, newer, copy = tmp_path / "stats.1.log.gz", tmp_path / "stats.log", tmp_path / "copy"
    with gzip.open(older, "wt") as file:
        file.write(line("2026-11-21 17:31:00") + line(key="a"))
    newer.write_text(line(key="b") + line("2026-11-21 17:33:00"))
    copy.write_bytes(newer.read_bytes())
    snapshots = read(newer, older, copy)
    assert [snapshot.observed_at for snapshot in snapshots] == [at(9, 31), at(9, 32), at(9, 33)]
    assert [row.stats_key for row in snapshots[1].broker_stats] == ["b", "a"]
    assert {snapshot.status for snapshot in snapshots} == {"COMPLETE"}


def test_brokers_log_at_the_same_instant(tmp_path):
    path = tmp_path / "stats.log"
    path.write_text(line())
    ids = [
        snapshot.snapshot_id
        for broker in ("broker-a", "broker-b")
        for snapshot in read_stats_log([path], cluster="lab", broker=broker)
    ]
    assert ids == ["20261121T093200000Z-lab-broker-a", "20261121T093200000Z-lab-broker-b"]


def test_replicas_of_a_broker_log_at_the_same_instant(tmp_path):
    """Names may end like an id: those of slaves differ from another broker's, too."""
    path = tmp_path / "stats.log"
    path.write_text(line())
    snapshots = [
        snapshot
        for broker, number in (("broker", 0), ("broker", 1), ("broker-1", 0))
        for snapshot in read_stats_log([path], cluster="lab", broker=broker, broker_id=number)
    ]
    assert [snapshot.snapshot_id for snapshot in snapshots] == [
        "20261121T093200000Z-lab-broker",
        "20261121T093200000Z-lab-broker@1",
        "20261121T093200000Z-lab-broker-1",
    ]
    rows = [row for snapshot in snapshots for row in snapshot.broker_stats]
    assert [(row.broker, row.broker_id) for row in rows] == [
        ("broker", 0), ("broker", 1), ("broker-1", 0),
    ]  # fmt: skip


def test_logs_of_two_brokers_taken_for_one(tmp_path):
    """A master that a slave reads for counts 0; which of the two numbers holds is not known."""
    master, slave = tmp_path / "master.log", tmp_path / "slave.log"
    served = {"name": "GROUP_GET_NUMS", "key": "t@g"}
    master.write_text(line(**served, sums="0") + line(key="same"))
    slave.write_text(line(**served, sums="600") + line(key="same") + line("2026-11-21 17:33:00"))
    first, second = read(master, slave)
    assert [row.stats_key for row in first.broker_stats] == ["same"]
    assert (first.status, second.status) == ("PARTIAL", "COMPLETE")
    (problem,) = first.problems
    assert problem.endpoint == "broker-a"
    assert problem.message.startswith("1 counters have two values, such as GROUP_GET_NUMS t@g")


def test_logs_are_read_lazily(tmp_path):
    path = tmp_path / "stats.log"
    path.write_text(
        "".join(line(f"2026-11-21 {9 + n // 60:02d}:{n % 60:02d}:00") for n in range(600))
    )
    snapshots = read_stats_log([path], cluster="lab", broker="b")
    assert next(snapshots).observed_at == at(1, 0)
    path.write_text("")  # what is not in a buffer yet is not seen any more
    assert len(list(snapshots)) < 599


def test_a_rolled_file_that_breaks_off(tmp_path):
    """The rows before the break are kept, and the last instant has the problem."""
    broken, whole = tmp_path / "1.gz", tmp_path / "stats.log"
    text = "".join(line("2026-11-21 17:31:00", key=str(os.urandom(20))) for _ in range(2000))
    broken.write_bytes(gzip.compress(text.encode())[:-2000])
    whole.write_text(line())
    first, second = read(broken, whole)
    assert (first.status, second.status) == ("PARTIAL", "COMPLETE")
    assert 0 < len(first.broker_stats) < 2000
    assert [(problem.endpoint, problem.code) for problem in first.problems] == [(str(broken), None)]


@pytest.mark.parametrize("content", [b"no gzip at all", None])
def test_a_file_that_cannot_be_read_at_all(tmp_path, content):
    path = tmp_path / "1.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError, match=r"1\.gz"):
        read(path)
