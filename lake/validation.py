"""Outcome of a window's validation: which raw tables may hold rows that are no measurements."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from lake.catalog import Lake
from lake.conditions import all_of, one_of, window_filter
from lake.hidden_queues import HiddenQueues, Quarantined
from lake.run_plan import RunPlan
from lake.tables import quality, raw
from lake.typed_rows import typed_rows
from lake.window import HOUR, Window

ALL_RAW = frozenset(table.name for table in raw.ALL)


class Outcome(Protocol):
    """The outcome of one expectation on the rows of a table; see ``quality.results``."""

    @property
    def table(self) -> str:
        """Full name of the table."""
        ...

    @property
    def severity(self) -> str:
        """``block`` | ``quarantine`` | ``warn``."""
        ...

    @property
    def unexpected(self) -> int | None:
        """Number of rows that violate it; None when it could not be validated."""
        ...


class StoredOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """An `Outcome` as ``quality.results`` holds it.

    Attributes:
        expectation: name of the expectation.
        success: whether it was met; None where it applied to no row.
    """

    table: str
    expectation: str
    severity: str
    success: bool | None = None
    unexpected: int | None = None


@dataclass(frozen=True, kw_only=True)
class Validation:
    """What a computation needs to know of the validation of its window.

    Attributes:
        suspects: names of the raw tables that may contain rows that are no measurements. Until
            expectations have validated the window these are all of them.
        hidden: queues whose rows in the window are quarantined or dropped.
    """

    suspects: frozenset[str] = ALL_RAW
    hidden: HiddenQueues = field(default_factory=dict)


NOT_VALIDATED = Validation()


def outcomes_of(lake: Lake, run_id: str) -> list[StoredOutcome]:
    """Return the outcomes that a run under way has stored so far."""
    now = datetime.now(UTC)
    last_day = window_filter(quality.RESULTS, Window(now - timedelta(days=1), now + HOUR))
    columns = StoredOutcome.__struct_fields__
    where = all_of(last_day, one_of("run_id", [run_id]))
    return typed_rows(lake.read(quality.RESULTS, where, columns=columns), StoredOutcome)


def suspect_tables(outcomes: Iterable[Outcome], plan: RunPlan) -> frozenset[str]:
    """Return names of the raw tables that may contain rows that are no measurements.

    A search for such rows takes longer than the computation on valid ones, and there are hardly
    ever any. The expectations have just validated the window. Quarantined rows of earlier snapshots
    are in the quarantine, or a person has decided on them.

    Args:
        outcomes: of the expectations on the window; a table without any is a suspect.
        plan: the plan of the run.
    """
    stored = list(outcomes)
    not_validated = ALL_RAW - {outcome.table for outcome in stored}
    # Not by success: an expectation may tolerate rows that it quarantines. None = not validated.
    violated = {
        outcome.table
        for outcome in stored
        if outcome.severity == "quarantine" and outcome.unexpected != 0
    }
    return not_validated | violated | _known_before(plan)


def tables_with_quarantined_rows(quarantined: Quarantined, plan: RunPlan) -> frozenset[str]:
    """Return names of the tables of which a row is quarantined, or has been decided on.

    All rows of the other tables are valid: nothing needs to search them for others.

    Args:
        quarantined: the quarantine of the window, made from all suspects.
        plan: the plan of the run.
    """
    return quarantined.tables | _known_before(plan)


def _known_before(plan: RunPlan) -> frozenset[str]:
    decided = frozenset(decision.table for decision in plan.decisions)
    return decided | plan.quarantined.tables
