"""Loading: once, whole, and one damaged snapshot keeps out only itself."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.support.cluster_history import Minute, damage, put, snapshot, text_of
from tidemark.lake import loading
from tidemark.lake.catalog import Lake
from tidemark.lake.landing import land, landed
from tidemark.lake.loading import load
from tidemark.lake.retention import remember_raw_since
from tidemark.lake.tables import progress, raw
from tidemark.settings.home import Home

pytestmark = pytest.mark.slow

START = datetime(2026, 11, 19, 12, tzinfo=UTC)
THREE = (Minute(at=2), Minute(at=5), Minute(at=9, unreachable="broker-b"))


def contents(lake: Lake) -> dict[str, list[str]]:
    return {table.name: text_of(lake.read(table)) for table in raw.ALL}


def headers(lake: Lake) -> dict[datetime, dict]:
    return {row["observed_at"]: row for row in lake.read(raw.SNAPSHOTS).to_pylist()}


def rewrite(file, change):
    """Writes a landed file again as `change` makes it of its table."""
    pq.write_table(change(pq.ParquetFile(file).read()), file)


def with_column(name, column):
    """A change that puts a column in place of the one of that name."""

    def change(table):
        at = table.column_names.index(name)
        made = column(table[name])
        return table.set_column(at, name, made)

    return change


@pytest.mark.parametrize("name", ["prod/eu", ".x", "../../outside"])
def test_a_cluster_of_any_name_is_loaded_once(lake, name):
    put(lake.home, START, [Minute(at=2)], cluster=name)
    put(lake.home, START, [Minute(at=2)], cluster="other")
    wanted = snapshot(START, Minute(at=2), cluster=name).snapshot_id
    assert wanted in load(lake).snapshots
    assert load(lake).snapshots == []
    for table in raw.ALL:
        rows = [row for row in lake.read(table).to_pylist() if row["cluster"] == name]
        assert {row["snapshot_id"] for row in rows} == {wanted}, table.name


def test_a_damaged_snapshot_is_rejected_under_its_cluster(lake):
    put(lake.home, START, [Minute(at=2, corrupt=True)], cluster="prod/eu")
    wanted = snapshot(START, Minute(at=2), cluster="prod/eu").snapshot_id
    assert list(load(lake).rejected) == [wanted]
    assert [(row["cluster"], row["snapshot_id"]) for row in headers(lake).values()] == [
        ("prod/eu", wanted)
    ]


def test_every_row_is_loaded(lake):
    put(lake.home, START, THREE)
    loaded = load(lake)
    taken = [snapshot(START, minute) for minute in THREE]
    assert loaded.snapshots == [item.snapshot_id for item in taken]
    assert loaded.rejected == {}
    for table in raw.ALL[1:]:
        expected = sum(len(getattr(item, table.short_name)) for item in taken)
        assert loaded.rows[table.name] == expected == lake.read(table).num_rows
    rows = lake.read(raw.QUEUE_OFFSETS).to_pylist()
    assert {(row["snapshot_id"], row["broker"], row["topic"], row["queue_id"]) for row in rows} == {
        (item.snapshot_id, row.broker, row.topic, row.queue_id)
        for item in taken
        for row in item.queue_offsets
    }


def test_a_header_names_the_brokers_that_were_read(lake):
    put(lake.home, START, THREE)
    load(lake)
    read = [row["brokers_read"] for _, row in sorted(headers(lake).items())]
    assert read == [["broker-a", "broker-b"], ["broker-a", "broker-b"], ["broker-a"]]


def test_a_broker_without_readable_commits_was_not_read(lake):
    taken = snapshot(START, Minute(at=2))
    taken.problems = snapshot(START, Minute(at=2, unreachable="broker-b")).problems
    taken.consumer_offsets = [row for row in taken.consumer_offsets if row.broker == "broker-a"]
    land(lake.home, taken)
    load(lake)
    (header,) = headers(lake).values()
    assert header["brokers_read"] == ["broker-a"]


def test_a_broker_that_reported_commits_was_read(lake):
    """One impossible offset, or an unreachable slave, concerns none of the others."""
    taken = snapshot(START, Minute(at=2))
    taken.problems = snapshot(START, Minute(at=2, unreachable="broker-b")).problems
    land(lake.home, taken)
    load(lake)
    (header,) = headers(lake).values()
    assert header["brokers_read"] == ["broker-a", "broker-b"]


def test_client_reports_are_no_response_of_their_broker(lake):
    taken = snapshot(START, Minute(at=2))
    taken.problems = snapshot(START, Minute(at=2, unreachable="broker-b")).problems
    taken.consumer_offsets = [
        row if row.broker == "broker-a" else replace(row, offset_store="client_file")
        for row in taken.consumer_offsets
    ]
    land(lake.home, taken)
    load(lake)
    (header,) = headers(lake).values()
    assert header["brokers_read"] == ["broker-a"]


def test_a_header_marks_added_and_removed_queues_and_groups(lake):
    """The offsets themselves do not matter."""
    first, second, third = (snapshot(START, Minute(at=minute)) for minute in range(3))
    third.consumer_offsets = third.consumer_offsets[1:]
    for taken in (first, second, third):
        land(lake.home, taken)
    load(lake)
    same, again, other = (row["keys_read"] for _, row in sorted(headers(lake).items()))
    assert same == again != other


def test_loading_twice_changes_nothing(lake):
    put(lake.home, START, THREE)
    load(lake)
    before = contents(lake)
    again = load(lake)
    assert (again.snapshots, again.rejected) == ([], {})
    assert set(again.rows.values()) == {0}
    assert contents(lake) == before


def test_what_lands_later_is_added(lake):
    put(lake.home, START, THREE[1:])
    load(lake)
    put(lake.home, START, THREE[:1])
    assert len(load(lake).snapshots) == 1
    assert sorted(headers(lake)) == [START + timedelta(minutes=m.at) for m in THREE]


def test_nothing_landed_is_nothing_loaded(lake):
    assert load(lake).snapshots == []


def test_more_than_a_batch(lake, monkeypatch):
    monkeypatch.setattr(loading, "BATCH", 2)
    put(lake.home, START, [Minute(at=number) for number in range(5)])
    assert len(load(lake).snapshots) == 5
    before = contents(lake)
    load(lake)
    assert contents(lake) == before


def test_a_batch_is_bounded_by_rows(lake, monkeypatch):
    """Finding C13: snapshots of a large cluster do not fit into memory by the hundred."""
    put(lake.home, START, [Minute(at=number) for number in range(5)])
    of_one = sum(len(getattr(snapshot(START, Minute(at=0)), t.short_name)) for t in raw.ALL[1:]) + 1
    monkeypatch.setattr(loading, "BATCH_ROWS", 2 * of_one)
    appended = []
    append = Lake.append

    def counted(lake, table, rows, missing):
        appended.append((table.name, len(set(rows["snapshot_id"].to_pylist()))))
        return append(lake, table, rows, missing)

    monkeypatch.setattr(Lake, "append", counted)
    assert len(load(lake).snapshots) == 5
    batches = [count for name, count in appended if name == raw.QUEUE_OFFSETS.name]
    assert batches == [2, 2, 1]
    monkeypatch.setattr(loading, "BATCH_ROWS", 1)
    put(lake.home, START, [Minute(at=10)])
    assert len(load(lake).snapshots) == 1, "a snapshot is loaded however large it is"


def test_what_no_tick_computes_is_not_loaded(lake):
    """Finding C14: retention removed it, and the next tick loaded it again, for ever."""
    put(lake.home, START, [Minute(at=0), Minute(at=60)])
    since = START + timedelta(minutes=30)
    loaded = load(lake, since)
    assert loaded.too_old == [snapshot(START, Minute(at=0)).snapshot_id]
    assert list(headers(lake)) == [START + timedelta(minutes=60)]
    assert load(lake, since).snapshots == []


def test_snapshots_older_than_raw_retention_are_not_loaded(lake):
    """To compute it would replace later rows, whose raw rows are gone, by nothing."""
    for cluster in ("old", "new"):
        put(lake.home, START, [Minute(at=0), Minute(at=90)], cluster)
    mark = {"snapshot_id": "x", "cluster": "old", "observed_at": START + timedelta(minutes=30)}
    lake.append(progress.SNAPSHOTS, [mark])
    remember_raw_since(lake.shared.state, START + timedelta(minutes=60))
    loaded = load(lake)
    assert loaded.too_old == [snapshot(START, Minute(at=0), "old").snapshot_id]
    assert len(loaded.snapshots) == 3


# Files whose structure is wrong

WRONG = {
    "corrupt": ("queue_offsets", damage, "queue_offsets.parquet is not readable Parquet"),
    "empty file": ("topics", lambda file: file.write_bytes(b""), "is not readable Parquet"),
    "no key column": (
        "queue_offsets",
        lambda file: rewrite(file, lambda table: table.drop_columns(["queue_id"])),
        "queue_offsets.parquet has no column queue_id",
    ),
    "text for a bigint": (
        "consumer_offsets",
        lambda file: rewrite(
            file,
            with_column("consumer_offset", lambda old: pa.array(["many"] * len(old))),
        ),
        "column consumer_offset is string, not bigint",
    ),
    "a number for text": (
        "queue_offsets",
        lambda file: rewrite(file, with_column("topic", lambda old: pa.array([1] * len(old)))),
        "column topic is int64, not string",
    ),
    "a number for an instant": (
        "queue_offsets",
        lambda file: rewrite(
            file, with_column("observed_at", lambda old: pa.array([1] * len(old)))
        ),
        "column observed_at is int64, not timestamp",
    ),
    "a queue id past int": (
        "queue_offsets",
        lambda file: rewrite(
            file, with_column("queue_id", lambda old: pa.array([2**40] * len(old)))
        ),
        "column queue_id is int64, not int",
    ),
    "a fraction for a count": (
        "queue_offsets",
        lambda file: rewrite(
            file, with_column("max_offset", lambda old: pa.array([1.5] * len(old)))
        ),
        "column max_offset is double, not bigint",
    ),
    "another snapshot's rows": (
        "topics",
        lambda file: rewrite(
            file,
            with_column("snapshot_id", lambda old: pa.array(["20200101T000000000Z-x"] * len(old))),
        ),
        "topics.parquet holds rows of 20200101T000000000Z-x",
    ),
    "two headers": (
        "snapshots",
        lambda file: rewrite(file, lambda table: pa.concat_tables([table, table])),
        "snapshots.parquet has 2 rows",
    ),
}


def test_a_wrong_snapshot_keeps_out_only_itself(lake):
    """One snapshot of each fault among valid ones, all in one load."""
    put(lake.home, START, [Minute(at=number) for number in range(len(WRONG) + 2)])
    first, *middle, last = sorted(landed(lake.home))
    for item, (name, spoil, _) in zip(middle, WRONG.values(), strict=True):
        spoil(item.path / f"{name}.parquet")
    loaded = load(lake)
    assert list(loaded.rejected) == [item.snapshot_id for item in middle]
    loadable = {first.snapshot_id, last.snapshot_id}
    for table in raw.ALL[1:]:
        assert set(lake.read(table)["snapshot_id"].to_pylist()) == loadable
    mapping = headers(lake)
    assert mapping[first.observed_at]["status"] == mapping[last.observed_at]["status"] == "COMPLETE"
    for item, (fault, (_, _, reason)) in zip(middle, WRONG.items(), strict=True):
        header = mapping[item.observed_at]
        (problem,) = header["problems"]
        assert reason in problem["message"], fault
        assert (problem["operation"], problem["code"]) == ("LOAD", None)
        assert (header["status"], header["brokers_read"]) == ("FAILED", [])
        assert header["brokers_answered"] is None
    before = contents(lake)
    assert load(lake).rejected == {}
    assert contents(lake) == before


def test_a_snapshot_is_taken_when_its_header_is_there(lake):
    """Whoever copies a snapshot file by file writes the header last."""
    put(lake.home, START, [Minute(at=0)])
    (item,) = landed(lake.home)
    header = item.path / "snapshots.parquet"
    hidden = header.rename(item.path.parent / "hidden.parquet")
    assert load(lake).snapshots == [] and headers(lake) == {}
    hidden.rename(header)
    assert load(lake).snapshots == [item.snapshot_id]
    assert headers(lake)[item.observed_at]["status"] == "COMPLETE"


def test_a_row_without_an_instant_has_that_of_its_snapshot(lake):
    put(lake.home, START, [Minute(at=0)])
    (item,) = landed(lake.home)
    missing = with_column("observed_at", lambda old: pa.nulls(len(old), old.type))
    for name in ("queue_offsets", "snapshots"):
        rewrite(item.path / f"{name}.parquet", missing)
    assert load(lake).rejected == {}
    result = lake.read(raw.QUEUE_OFFSETS)
    assert set(result["observed_at"].to_pylist()) == {item.observed_at}
    assert result.num_rows == pq.read_metadata(item.path / "queue_offsets.parquet").num_rows


# Files of other writers that are valid

NANOSECONDS = pa.timestamp("ns", tz="UTC")
RIGHT = {
    "nanoseconds": with_column("observed_at", lambda old: old.cast(NANOSECONDS)),
    "no zone": with_column("observed_at", lambda old: old.cast(pa.timestamp("us"))),
    "another zone": with_column(
        "observed_at", lambda old: old.cast(pa.timestamp("ms", tz="Asia/Shanghai"))
    ),
    "more digits than microseconds": with_column(
        "newest_stored_at",
        lambda old: pc.add(old.cast(NANOSECONDS).cast("int64"), 7).cast(NANOSECONDS),
    ),
    "wide queue id": with_column("queue_id", lambda old: old.cast("int64")),
    "large text": with_column("topic", lambda old: old.cast(pa.large_string())),
    "dictionary": with_column("broker", lambda old: old.dictionary_encode()),
    "another column": lambda table: table.append_column("mood", pa.array(["ok"] * len(table))),
    "another order": lambda table: table.select(table.column_names[::-1]),
}


def test_what_other_writers_do_is_taken(lake):
    minutes = [Minute(at=number) for number in range(len(RIGHT))]
    put(lake.home, START, minutes)
    for item, change in zip(sorted(landed(lake.home)), RIGHT.values(), strict=True):
        rewrite(item.path / "queue_offsets.parquet", change)
    assert load(lake).rejected == {}
    result = lake.read(raw.QUEUE_OFFSETS)
    assert result.column_names == raw.QUEUE_OFFSETS.column_names
    for minute, change in zip(minutes, RIGHT, strict=True):
        made = snapshot(START, minute)
        mine = result.filter(pc.field("snapshot_id") == made.snapshot_id)
        expected = pa.Table.from_pylist(list(made.records("queue_offsets")), schema=result.schema)
        assert text_of(mine) == text_of(expected), change


def test_columns_that_are_absent_are_not_known(lake):
    put(lake.home, START, THREE[:1])
    (item,) = landed(lake.home)
    rewrite(
        item.path / "queue_offsets.parquet", lambda table: table.drop_columns(["newest_stored_at"])
    )
    load(lake)
    assert set(lake.read(raw.QUEUE_OFFSETS)["newest_stored_at"].to_pylist()) == {None}


def test_a_table_without_a_file_has_no_rows(lake):
    put(lake.home, START, THREE[:1])
    (item,) = landed(lake.home)
    (item.path / "clients.parquet").unlink()
    assert load(lake).rejected == {}
    assert lake.read(raw.CLIENTS).num_rows == 0
    assert lake.read(raw.TOPICS).num_rows > 0


# Killed half-way

COMMITS = len(raw.ALL)


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it and tidy up."""


def fail_at(monkeypatch, position, after):
    """Lets the commit of that position die, before or after it is made."""
    count = iter(range(100))

    def dying(method):
        def commit(self, *arguments):
            mine = next(count) == position
            if mine and not after:
                raise Killed
            done = method(self, *arguments)
            if mine:
                raise Killed
            return done

        return commit

    monkeypatch.setattr(Lake, "append", dying(Lake.append))
    monkeypatch.setattr(Lake, "upsert", dying(Lake.upsert))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The contents of a home whose loads were not killed."""
    lake = Lake(Home.of(tmp_path_factory.mktemp("undisturbed")))
    put(lake.home, START, [*THREE, Minute(at=20)])
    damage(sorted(landed(lake.home))[0].path / "brokers.parquet")
    load(lake)
    return contents(lake)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("position", range(COMMITS))
def test_a_load_that_was_killed_is_finished_next(lake, undisturbed, position, after):
    put(lake.home, START, THREE)
    damage(sorted(landed(lake.home))[0].path / "brokers.parquet")
    with pytest.MonkeyPatch.context() as patched:
        fail_at(patched, position, after)
        with pytest.raises(Killed):
            load(lake)
    if position < COMMITS - 1 or not after:
        assert lake.read(raw.SNAPSHOTS).num_rows == 0, "counted as loaded before it is"
    put(lake.home, START, [Minute(at=20)])
    load(lake)
    assert contents(lake) == undisturbed


def test_what_another_run_commits_meanwhile_is_not_loaded_twice(lake, monkeypatch):
    """A run that was stopped before its commit may continue without its lease."""
    put(lake.home, START, [Minute(at=1), Minute(at=2)])
    read, by_other = loading.read_landed, []

    def overtaken(item):
        if not by_other:
            by_other.append(None)
            load(Lake(lake.home))
            by_other.append(contents(lake))
        return read(item)

    monkeypatch.setattr(loading, "read_landed", overtaken)
    report = load(lake)
    assert contents(lake) == by_other[1] and len(report.snapshots) == 2
    assert not any(report.rows[table.name] for table in loading.DATA_TABLES)


def test_a_snapshot_removed_while_it_is_read_loads_when_it_lands_again(lake, monkeypatch):
    path = land(lake.home, snapshot(START, Minute(at=1)))
    read = loading.read_landed

    def removed_first(item):
        (path / "snapshots.parquet").unlink(missing_ok=True)
        return read(item)

    with monkeypatch.context() as patch:
        patch.setattr(loading, "read_landed", removed_first)
        during = load(lake)
    assert (during.snapshots, during.rejected) == ([], {})
    shutil.rmtree(path)
    put(lake.home, START, [Minute(at=1)])
    assert len(load(lake).snapshots) == 1
    assert lake.read(raw.SNAPSHOTS)["status"].to_pylist() == ["COMPLETE"]
