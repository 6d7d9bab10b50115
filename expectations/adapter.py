"""The adapter to Great Expectations: rows and expectations in, validation results out."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from expectations.annotation_columns import DECISION
from expectations.annotations import annotate
from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.declarations import Expectation
from expectations.row_json import row_json
from expectations.validation_results import ValidationResult
from lake.decisions import Decision
from lake.tables import TABLES

SAMPLE_ROWS = 5
"""Violating rows that a validation result shows at most."""

Keep = Callable[[Any, Any], None]
"""Receives Great Expectations' suite and its validation result."""


def validate(
    frame: DataFrame,
    table: str,
    others: Mapping[str, DataFrame] | None = None,
    expectations: Sequence[Expectation] | None = None,
    decisions: Sequence[Decision] = (),
    keep: Keep = lambda suite, result: None,
) -> list[ValidationResult]:
    """Validate the rows of a table against its expectations through Great Expectations.

    Runs one Spark query when all rows meet every expectation, and one more for the sample of each
    that is violated.

    Args:
        frame: rows of the table, with the columns of its declaration.
        table: its full name.
        others: rows of other tables in the same window, by full name, that expectations need
            (`expectations.annotations.source_tables`). Without them such an expectation does not
            apply to any row.
        expectations: those to validate; all of the table's unless given.
        decisions: decisions in force on rows of these tables; decided rows are left out.
        keep: receives Great Expectations' suite, named as the table, and its validation result.

    Returns:
        One validation result per expectation, in their order. An expectation that raises fails with
        its `problem` and does not affect the others.

    Raises:
        KeyError: the table has no expectations and none are given.
    """
    suite = AUDIT_EXPECTATIONS[table] if expectations is None else tuple(expectations)
    annotated = annotate(table, {**(others or {}), table: frame}, decisions, suite)
    if any(decision.table == table for decision in decisions):
        annotated = annotated.filter(F.col(DECISION).isNull())
    outcomes = _validate(annotated, table, suite, keep)
    raised = [each for each in suite if outcomes[each.name].problem]
    if 1 < len(raised) < len(suite):
        # Great Expectations reports one reason for all that raise together: validate each alone
        # for its own. When all raised, the frame or the engine fails and one reason is right.
        for each in raised:
            outcomes |= _validate(annotated, table, (each,))
    return [_validation_result(annotated, table, each, outcomes[each.name]) for each in suite]


def great_expectations_context(stores: Any) -> Any:
    """Return a Great Expectations context with these stores, without analytics or progress bars."""
    # Imported here and below: the import takes 4-5 s, which only a run that validates should pay.
    import great_expectations as gx
    from great_expectations.data_context.types.base import DataContextConfig, ProgressBarsConfig

    return gx.get_context(
        mode="ephemeral",
        project_config=DataContextConfig(
            store_backend_defaults=stores,
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
        ),
    )


@dataclass(frozen=True)
class _Outcome:
    """What Great Expectations found for one expectation: its counts, or why there are none."""

    success: bool = False
    elements: int | None = None
    unexpected: int | None = None
    problem: str | None = None


def _validate(
    frame: DataFrame,
    table: str,
    expectations: Sequence[Expectation],
    keep: Keep = lambda suite, result: None,
) -> dict[str, _Outcome]:
    """Run expectations as one Great Expectations suite; return an outcome for each, by name."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import InMemoryStoreBackendDefaults

    from expectations.gx_row_expectation import ExpectRowsToHold

    # A context of its own keeps no frame alive after the suite, and costs milliseconds.
    batch = (
        great_expectations_context(InMemoryStoreBackendDefaults())
        .data_sources.add_spark("spark", persist=False)
        .add_dataframe_asset("frame")
        .add_batch_definition_whole_dataframe("whole")
        .get_batch(batch_parameters={"dataframe": frame})
    )
    suite = gx.ExpectationSuite(table)
    for expectation in expectations:
        suite.add_expectation(
            ExpectRowsToHold(
                condition=expectation.condition,
                mostly=expectation.mostly,
                description=expectation.description,
                meta={"expectation": expectation.name},
            )
        )
    outcomes = {
        each.name: _Outcome(problem="Great Expectations gave no result") for each in expectations
    }
    validation = batch.validate(suite, result_format="BASIC")
    keep(suite, validation)
    for result in validation.results:
        outcomes[result.expectation_config.meta["expectation"]] = _outcome(result)
    return outcomes


def _outcome(result: Any) -> _Outcome:
    """Return the counts of one of Great Expectations' results, or the first line of its error."""
    info = result.exception_info or {}
    # One exception is reported flat, one of a metric under the metric's id.
    exceptions = [info] if "raised_exception" in info else list(info.values())
    for exception in exceptions:
        if exception["raised_exception"]:
            return _Outcome(problem=_first_line(exception["exception_message"]))
    counts = result.result
    return _Outcome(bool(result.success), counts["element_count"], counts["unexpected_count"])


def _first_line(message: str | None) -> str:
    lines = (message or "").strip().splitlines()
    return lines[0] if lines else "raised without a message"


def _validation_result(
    frame: DataFrame, table: str, expectation: Expectation, outcome: _Outcome
) -> ValidationResult:
    return ValidationResult(
        table=table,
        expectation=expectation.name,
        success=outcome.success,
        unexpected=outcome.unexpected,
        elements=outcome.elements,
        severity=expectation.severity,
        expected=expectation.expected,
        sample=_sample(frame, table, expectation) if outcome.unexpected else [],
        problem=outcome.problem,
        mostly=expectation.mostly,
    )


def _sample(frame: DataFrame, table: str, expectation: Expectation) -> list[dict[str, Any]]:
    key = TABLES[table].key
    shown = list(dict.fromkeys((*key, *expectation.columns)))
    rows = frame.filter(expectation.is_violated).orderBy(*key).limit(SAMPLE_ROWS)
    # Through JSON: instants, structs and arrays arrive in one readable form, the same in a session
    # of this process (which would give naive local times) and on Spark Connect.
    return [json.loads(row[0]) for row in rows.select(row_json(shown)).collect()]
