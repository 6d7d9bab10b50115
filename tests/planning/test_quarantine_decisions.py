"""Decisions of people on quarantined rows, as they are read."""

from dataclasses import asdict, replace
from datetime import timedelta

from tests.support.table_rows import NOON
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.tables.quality import DECISIONS, QUARANTINE
from tidemark.planning.quarantine_decisions import (
    DROPPED,
    RELEASED,
    UNDONE,
    Decision,
    decisions,
    quarantined_rows,
)

ROW = Decision(
    observed_at=NOON,
    table="raw.queue_offsets",
    reason="key_unique",
    row='{"queue_id":0}',
    snapshot_id="s",
    decided_at=NOON + HOUR,
    decision=RELEASED,
    author="eve",
    comment=None,
)


def decided(lake, *value):
    lake.append(DECISIONS, [asdict(item) for item in value])


def later(decision, minutes, **changed):
    return replace(ROW, decision=decision, decided_at=NOON + timedelta(minutes=minutes), **changed)


def test_the_last_decision_on_a_row_counts(lake):
    assert decisions(lake) == ()
    dropped = later(DROPPED, 90)
    decided(lake, dropped, ROW)
    assert decisions(lake) == (dropped,)
    decided(lake, later(UNDONE, 91))
    assert decisions(lake) == ()


def test_a_decision_is_about_one_row_of_one_snapshot(lake):
    others = [later(DROPPED, 1, snapshot_id=name) for name in ("t", None)]
    decided(lake, ROW, *others, later(DROPPED, 1, row="{}"), later(DROPPED, 1, table="raw.topics"))
    result = decisions(lake)
    assert len({decision.row_id for decision in result}) == 5
    assert {decision.decision for decision in result if decision.row_id == ROW.row_id} == {RELEASED}


def test_decisions_are_found_in_the_window_of_their_rows(lake):
    decided(lake, ROW)
    hour = floor_hour(NOON)
    assert decisions(lake, Window(hour, hour + HOUR)) == (ROW,)
    assert decisions(lake, Window(hour + HOUR, hour + 2 * HOUR)) == ()


def test_identical_copies_are_one_row_with_all_reasons(lake):
    row = {
        "observed_at": NOON,
        "table": "raw.queue_offsets",
        "row": '{"queue_id":0}',
        "snapshot_id": "s",
    }
    reasons = ("max_offset_ge_0, key_unique", "max_offset_ge_0")
    lake.append(QUARANTINE, [row | {"reason": reason} for reason in reasons])
    (quarantined_row,) = quarantined_rows(lake)
    assert quarantined_row.rules == ["max_offset_ge_0"]
    assert quarantined_row.row_id == ROW.row_id, "as it is named in a decision"
    assert quarantined_row.key == {
        "snapshot_id": None,
        "broker": None,
        "topic": None,
        "queue_id": 0,
    }
