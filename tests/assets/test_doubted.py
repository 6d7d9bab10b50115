"""Which raw tables a run searches for rows that it must not compute on."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from assets.frames import doubted
from expectations.adapter import Verdict, result_rows
from lake.decisions import DROPPED, Decision
from lake.history import Plan
from lake.tables import quality, raw
from lake.window import HOUR, Window, floor_hour

START = floor_hour(datetime.now(UTC)) - 2 * HOUR
WINDOW = Window(START, START + HOUR)
GOOD = Verdict("", "key_unique", True, 0, 9, "quarantine", "0 rows where ...")


def judged(lake, *changed):
    found = {table.name: replace(GOOD, table=table.name) for table in raw.ALL}
    found |= {verdict.table: verdict for verdict in changed}
    now = datetime.now(UTC)
    lake.append(quality.RESULTS, result_rows(list(found.values()), WINDOW, "run", now))


@pytest.mark.parametrize(
    ("changed", "doubts"),
    [
        ({}, set()),
        ({"success": False, "unexpected": 1}, {"raw.topics"}),
        ({"success": True, "unexpected": 1, "mostly": 0.5}, {"raw.topics"}),
        ({"success": False, "unexpected": None, "elements": None}, {"raw.topics"}),
        ({"success": False, "unexpected": 1, "severity": "warn"}, set()),
    ],
    ids=["nothing broken", "broken", "tolerated", "not judged", "only warned of"],
)
def test_a_table_is_doubted_when_rows_are_set_aside_whatever_is_tolerated(lake, changed, doubts):
    judged(lake, replace(GOOD, table="raw.topics", **changed))
    assert doubted(lake, "run", Plan(WINDOW)) == doubts


def test_without_verdicts_every_table_is_doubted(lake):
    judged(lake)
    assert doubted(lake, "another run", Plan(WINDOW)) == {table.name for table in raw.ALL}


def test_what_was_set_aside_or_decided_on_before_is_looked_for(lake):
    judged(lake)
    before = START - timedelta(minutes=5)
    row = {"reason": "key_unique", "row": "{}", "snapshot_id": "s", "observed_at": before}
    lake.append(quality.QUARANTINE, [row | {"table": "raw.topics"}])
    dropped = Decision(
        **row, table="raw.clients", decided_at=START, decision=DROPPED, author="eve", comment=None
    )
    plan = Plan(WINDOW, decisions=(dropped,))
    assert doubted(lake, "run", plan) == {"raw.topics", "raw.clients"}
