"""`tidemark quarantine`, as people use it."""

import json

import pytest

from tests.support import commands
from tests.support.table_rows import NOON, arrow, minute, snapshot_id
from tidemark.cli.commands.quarantine import _one
from tidemark.cli.invocation import CommandError
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.tables import quality, raw
from tidemark.planning.quarantine_decisions import decisions, quarantined_rows
from tidemark.settings.home import Home

HOUR_OF_ROWS = Window(NOON, NOON + HOUR)


def raw_row(queue_id, high, **more):
    return {"at": 0, "topic": "orders", "queue_id": queue_id, "max_offset": high, **more}


def quarantined(reason, table=raw.QUEUE_OFFSETS, **columns):
    (made,) = arrow(table, [{"at": 0, **columns}]).to_pylist()
    return {
        "observed_at": minute(0),
        "table": table.name,
        "reason": reason,
        "row": json.dumps(made, default=lambda instant: instant.isoformat()),
        "snapshot_id": snapshot_id(0),
    }


def filled(lake: Lake) -> Lake:
    """Queue 0 twice the same, queue 1 as 8 and as 9, queue 2 below zero, and one without number."""
    rows = [raw_row(0, 5), raw_row(0, 5), raw_row(1, 8), raw_row(1, 9), raw_row(2, -1)]
    lake.append(raw.QUEUE_OFFSETS, arrow(raw.QUEUE_OFFSETS, [*rows, raw_row(None, 7)]))
    headers = [
        {"snapshot_id": snapshot_id(at), "observed_at": minute(at), "cluster": cluster}
        for at, cluster in ((0, "lab"), (70, "lab"), (130, "other"))
    ]
    lake.append(raw.SNAPSHOTS, headers)
    lake.append(
        quality.QUARANTINE,
        [
            quarantined("key_unique", topic="orders", queue_id=0, max_offset=5),
            quarantined("key_unique", topic="orders", queue_id=1, max_offset=8),
            quarantined("key_unique", topic="orders", queue_id=1, max_offset=9),
            quarantined("max_offset_ge_0", topic="orders", queue_id=2, max_offset=-1),
            quarantined("queue_id_not_null", topic="orders", queue_id=None, max_offset=7),
            quarantined("read_queues_ge_0", raw.TOPICS, topic="gone", read_queues=-1),
        ],
    )
    return lake


@pytest.fixture
def home(lake: Lake):
    """The home of a lake with these rows."""
    return filled(lake).home


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The same for those who change nothing."""
    return filled(Lake(Home.of(tmp_path_factory.mktemp("home"))))


def output_of(home, *arguments: str, code: int = 0) -> str:
    return commands.output_of(home, "quarantine", *arguments, code=code)


def row_id(lake, **wanted):
    """The id of the one quarantined row of orders with these columns."""
    wanted = {"topic": "orders"} | wanted
    (quarantined_row,) = (
        quarantined_row
        for quarantined_row in quarantined_rows(lake)
        if quarantined_row.columns.items() >= wanted.items()
    )
    return quarantined_row.row_id


def listed(home, *arguments):
    return json.loads(output_of(home, "list", "--format", "json", *arguments))


def test_quarantined_rows_are_listed_with_their_reasons(standing):
    home, lake = standing.home, standing
    assert len(listed(home)) == 6
    assert len(listed(home, "--limit", "2")) == 2
    (topic,) = listed(home, "--table", "raw.topics")
    assert (topic["reason"], topic["key"]) == ("read_queues_ge_0", "broker=broker-a, topic=gone")
    assert topic["row_id"] in output_of(home, "list")

    shown = output_of(home, "show", row_id(lake, queue_id=2)[:6])
    assert (
        "Violates max_offset_ge_0 (quarantine): expected are 0 rows where max_offset < 0\n" in shown
    )
    assert '  "max_offset": -1,\n' in shown
    conflict = json.loads(output_of(home, "show", row_id(lake, max_offset=9), "--format", "json"))
    assert sorted(row["max_offset"] for row in conflict["same_key"]) == [8, 9]
    assert conflict["row"]["max_offset"] == 9


def test_a_decision_hides_the_row_until_it_is_undone(home, lake):
    chosen = row_id(lake, max_offset=9)
    printed = output_of(
        home, "release", chosen, "--comment", "as the broker says", "--author", "eve"
    )
    assert printed == (
        f"{chosen} raw.queue_offsets broker=broker-a, topic=orders, queue_id=1: "
        "released by eve: as the broker says\n"
        # The last snapshot of this cluster is at 13:10.
        "Then compute again: tidemark recompute --from 2026-11-19T12:00Z --to 2026-11-19T14:00Z\n"
    )
    (decision,) = decisions(lake)
    assert (decision.row_id, decision.decision, decision.author) == (chosen, "released", "eve")
    assert (decision.observed_at, decision.comment) == (NOON, "as the broker says")
    assert chosen not in {row["row_id"] for row in listed(home)}
    assert "Released by eve: as the broker says\n" in output_of(home, "show", chosen)

    assert "recompute" in output_of(home, "drop", chosen), "it was computed on"
    (row,) = listed(home, "--decided")
    assert (row["row_id"], row["decision"]) == (chosen, "dropped")
    assert "recompute" in output_of(home, "undo", chosen)
    assert listed(home, "--decided") == []
    assert chosen in {row["row_id"] for row in listed(home)}


def test_decisions_can_change_after_rows_left_the_quarantine(home, lake):
    chosen = row_id(lake, queue_id=2)
    assert "recompute" not in output_of(home, "drop", chosen), "no number changes"
    lake.replace(quality.QUARANTINE, HOUR_OF_ROWS, [])
    output_of(home, "release", chosen, "--comment", "after all")
    (decision,) = decisions(lake)
    assert (decision.decision, decision.reason) == ("released", "max_offset_ge_0")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("show", "zzz"), 1, "no quarantined row with id 'zzz': `tidemark quarantine list`"),
        (("drop", ""), 1, "no quarantined row with id ''"),
        (("undo", "zzz"), 1, "no decided row with id 'zzz': `tidemark quarantine list --decided`"),
        (("release", "zzz"), 2, "--comment"),
        (("list", "--table", "raw.topic"), 2, "no table 'raw.topic'"),
    ],
)
def test_bad_use_is_one_line(standing, arguments, code, line):
    assert line in " ".join(
        output_of(standing.home, *arguments, code=code).replace("│", " ").split()
    )


@pytest.mark.parametrize(
    ("chosen", "line"),
    [
        ([{"queue_id": 0}], "a row with the same content is computed on already"),
        ([{"queue_id": None}], "without queue_id nothing can be computed on it"),
        ([{"max_offset": 8}, {"max_offset": 9}], " of the same key is released, undo that first"),
    ],
    ids=["a copy", "no key", "two with one key"],
)
def test_no_release_makes_a_key_double(standing, chosen, line):
    ids = [row_id(standing, **columns) for columns in chosen]
    printed = output_of(standing.home, "release", *ids, "--comment", "why", code=1)
    assert printed.startswith(f"tidemark: {ids[-1]} cannot be released: ")
    assert printed.endswith(f"{line}\n")
    assert decisions(standing) == (), "all of them or none"


def test_rows_without_raw_rows_cannot_be_released(home, lake):
    lake.replace(raw.QUEUE_OFFSETS, HOUR_OF_ROWS, [])
    printed = output_of(home, "release", row_id(lake, queue_id=2), "--comment", "why", code=1)
    assert "its raw rows have been removed" in printed


def test_one_copy_is_released_when_another_is_undone(home, lake):
    first, second = (row_id(lake, max_offset=high) for high in (8, 9))
    output_of(home, "release", first, "--comment", "why")
    assert f"{first} of the same key" in output_of(
        home, "release", second, "--comment", "w", code=1
    )
    output_of(home, "undo", first)
    output_of(home, "release", second, "--comment", "why")
    assert [decision.row_id for decision in decisions(lake)] == [second]


def test_an_id_that_starts_several_is_of_none():
    rows = dict.fromkeys(("aa1", "aa2"))
    with pytest.raises(CommandError, match="2 quarantined rows with id 'aa'"):
        _one(rows, "aa")  # pyright: ignore


def test_an_empty_id_is_no_row(home, lake):
    """A variable without a value decided on the only row."""
    lake.replace(quality.QUARANTINE, HOUR_OF_ROWS, [quarantined("max_offset_ge_0", topic="t")])
    assert "no quarantined row with id ''" in output_of(
        home, "drop", "", "--comment", "why", code=1
    )
    assert decisions(lake) == ()
