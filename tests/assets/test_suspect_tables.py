"""Raw tables that a run searches for rows that it must not compute on."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from expectations.validation_results import ValidationResult, result_rows
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.tables import quality, raw
from tidemark.planning.lacking_parts import read_quarantine
from tidemark.planning.quarantine_decisions import DROPPED, Decision
from tidemark.planning.run_plan import (
    ALL_RAW,
    NOT_VALIDATED,
    RunPlan,
    outcomes_of,
    plan_run,
    suspect_tables,
    tables_with_quarantined_rows,
)

START = floor_hour(datetime.now(UTC)) - 2 * HOUR
WINDOW = Window(START, START + HOUR)
GOOD = ValidationResult(
    table="",
    expectation="key_unique",
    success=True,
    unexpected=0,
    elements=9,
    severity="quarantine",
    expected="0 rows where ...",
)


def validated(*changed):
    goods = {table.name: replace(GOOD, table=table.name) for table in raw.ALL}
    goods |= {result.table: result for result in changed}
    return goods.values()


@pytest.mark.parametrize(
    ("changed", "suspects"),
    [
        ({}, set()),
        ({"success": False, "unexpected": 1}, {"raw.topics"}),
        ({"success": True, "unexpected": 1, "mostly": 0.5}, {"raw.topics"}),
        ({"success": False, "unexpected": None, "elements": None}, {"raw.topics"}),
        ({"success": False, "unexpected": 1, "severity": "warn"}, set()),
    ],
    ids=["valid", "violated", "tolerated", "not validated", "only a warning"],
)
def test_quarantined_rows_make_a_table_suspect_despite_tolerance(changed, suspects):
    results = validated(replace(GOOD, table="raw.topics", **changed))
    assert suspect_tables(results, RunPlan(window=WINDOW)) == suspects


def test_without_validation_every_table_is_suspect():
    everything = {table.name for table in raw.ALL}
    assert (
        suspect_tables([], RunPlan(window=WINDOW))
        == NOT_VALIDATED.suspects
        == ALL_RAW
        == everything
    )


def test_tables_quarantined_or_decided_on_before_are_suspect(lake):
    before = START - timedelta(minutes=5)
    row = {"reason": "key_unique", "row": "{}", "snapshot_id": "s", "observed_at": before}
    lake.append(quality.QUARANTINE, [row | {"table": "raw.topics"}])
    decided = row | {"table": "raw.clients", "decided_at": START, "decision": DROPPED}
    lake.append(quality.DECISIONS, [decided | {"author": "eve", "comment": None}])
    plan = plan_run(lake, WINDOW)
    assert [type(decision) for decision in plan.decisions] == [Decision]
    assert suspect_tables(validated(), plan) == {"raw.topics", "raw.clients"}


def test_after_the_quarantine_only_its_tables_are_suspect(lake):
    row = {"reason": "key_unique", "row": "{}", "snapshot_id": "s", "table": "raw.topics"}
    instants = (START, START + HOUR)  # the second one is of another window
    names = ("raw.topics", "raw.clients")
    for name, at in zip(names, instants, strict=True):
        lake.append(quality.QUARANTINE, [row | {"table": name, "observed_at": at}])
    plan = plan_run(lake, WINDOW)
    quarantined = read_quarantine(lake, WINDOW, plan.decisions)
    assert tables_with_quarantined_rows(quarantined, plan) == {"raw.topics"}


def test_outcomes_are_those_that_the_run_has_stored(lake):
    """A step of another process reads them, as the step that validated has ended."""
    violated = replace(GOOD, table="raw.topics", success=False, unexpected=1)
    for run_id, results in (("run", validated(violated)), ("other", validated())):
        rows = result_rows(list(results), WINDOW, run_id, datetime.now(UTC), None)
        lake.append(quality.RESULTS, rows)
    assert suspect_tables(outcomes_of(lake, "run"), RunPlan(window=WINDOW)) == {"raw.topics"}
    assert suspect_tables(outcomes_of(lake, "other"), RunPlan(window=WINDOW)) == set()
    assert suspect_tables(outcomes_of(lake, "third"), RunPlan(window=WINDOW)) == ALL_RAW
