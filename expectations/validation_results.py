"""Validation results: the outcome of each expectation, also as rows of ``quality.results``."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from expectations.brought_suites import USABLE, Brought, Suite
from expectations.declarations import Severity
from tidemark.lake.clocks import Window
from tidemark.lake.tables.quality import RESULTS


@dataclass(frozen=True, kw_only=True)
class ValidationResult:
    """The outcome of one expectation on the rows of a table.

    Attributes:
        table: full name of the table.
        expectation: name of the expectation.
        success: whether a large enough share of the rows meets it (`mostly`; all rows, unless
            configured). False also when it could not be validated; None where it applies to no
            row, so that there was nothing to validate.
        unexpected: number of rows that violate it; None when it could not be validated.
        elements: number of rows to which it applies; None when it could not be validated.
        severity: ``block`` | ``quarantine`` | ``warn``.
        expected: the expectation in one line for people.
        sample: up to `expectations.adapter.SAMPLE_ROWS` violating rows: their key and the columns
            of the expectation as JSON values (instants as ISO 8601). Empty after a success.
        problem: why it could not be validated, in one line, or in one for each mistake of a suite;
            None when it was.
        mostly: share of the rows to which it applies that had to meet it.
    """

    table: str
    expectation: str
    success: bool | None
    unexpected: int | None
    elements: int | None
    severity: Severity
    expected: str
    sample: list[dict[str, Any]] = field(default_factory=list)
    problem: str | None = None
    mostly: float = 1.0


def outcome(*, success: bool, elements: int | None) -> bool | None:
    """Return whether an expectation is met; None where it applies to no row.

    Great Expectations calls that a success. A failure remains one, as a suite may demand rows.
    """
    return None if success and elements == 0 else success


def results_without_rows(table: str, expectations: Suite) -> list[ValidationResult]:
    """Return the validation results of a table without rows: there was nothing to validate."""
    return [
        ValidationResult(
            table=table,
            expectation=expectation.name,
            success=None,
            unexpected=0,
            elements=0,
            severity=expectation.severity,
            expected=expectation.expected,
            mostly=expectation.mostly,
        )
        for expectation in expectations
    ]


def usable_suites(brought: Brought, mistakes: Sequence[str]) -> list[ValidationResult]:
    """Return the result of `USABLE`: every suite that people bring can be used; none without any.

    A broken suite validates nothing, so without this result it would count as success.
    """
    if not brought and not mistakes:
        return []
    result = ValidationResult(
        table=RESULTS.name,
        expectation=USABLE,
        success=not mistakes,
        unexpected=len(mistakes),
        elements=None,
        severity="warn",
        expected="every file and expectation in the folder of suites can be used",
        problem="\n".join(mistakes) or None,
    )
    return [result]


def result_rows(
    results: Sequence[ValidationResult],
    window: Window,
    run_id: str,
    validated_at: datetime,
    judged_until: datetime | None,
) -> list[dict[str, Any]]:
    """Return validation results as rows of ``quality.results``.

    Args:
        results: of any number of tables.
        window: the window whose rows were validated.
        run_id: the Dagster run.
        validated_at: when, UTC.
        judged_until: up to which instant rows were validated for the first time; None where all
            had been validated before, as in a backfill.
    """
    return [
        {
            "observed_at": validated_at,
            "table": result.table,
            "expectation": result.expectation,
            "success": result.success,
            "unexpected": result.unexpected,
            "elements": result.elements,
            "severity": result.severity,
            "mostly": result.mostly,
            "window_start": window.start,
            "window_end": window.end,
            "run_id": run_id,
            "judged_until": judged_until,
            "expected": None if result.success is not False else result.expected,
            "problem": result.problem,
            "sample": json.dumps(result.sample, default=str) if result.sample else None,
        }
        for result in results
    ]
