"""The adapter to Great Expectations: rows and expectations in, validation results out."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from traceback import format_exception
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from expectations.annotations import annotate, row_json
from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.brought_suites import BroughtExpectation
from expectations.declarations import DECISION, NAME, Expectation
from expectations.validation_results import ValidationResult, outcome
from tidemark.lake.tables import TABLES
from tidemark.planning.quarantine_decisions import Decision

SAMPLE_ROWS = 5
"""Violating rows that a validation result shows at most."""

Keep = Callable[[Any, Any], None]
"""Receives Great Expectations' suite and its validation result."""

_OBSERVED = ("observed_value", "partial_unexpected_list", "partial_missing_list")
"""Keys of a result on a whole column; results on distinct values have only the lists."""

_RESULT_FORMAT = {
    "result_format": "BASIC",
    "partial_unexpected_count": SAMPLE_ROWS,
    "include_unexpected_rows": True,
}


def validate(
    frame: DataFrame,
    table: str,
    others: Mapping[str, DataFrame] | None = None,
    expectations: Sequence[Expectation] | None = None,
    decisions: Sequence[Decision] = (),
    keep: Keep = lambda suite, result: None,
    brought: Sequence[BroughtExpectation] = (),
    unique: Collection[str] = (),
) -> list[ValidationResult]:
    """Validate the rows of a table against its expectations through Great Expectations.

    Our expectations take one Spark query when all rows meet them, and one more for the sample of
    each violated one. Expectations that people bring take as many as Great Expectations' own code.

    Args:
        frame: rows of the table, with the columns of its declaration.
        table: its full name.
        others: rows of other tables in the same window, by full name, that expectations need
            (`expectations.annotations.source_tables`). Without them such an expectation does not
            apply to any row.
        expectations: those to validate; all of the table's unless given.
        decisions: present decisions on rows of these tables; decided rows are left out.
        keep: receives Great Expectations' suite, named as the table, and its validation result.
        brought: expectations that people bring, validated on the columns of the table alone.
        unique: as for `expectations.annotations.annotate`.

    Returns:
        One validation result per expectation, in their order, ours first. An expectation that
        raises fails with its `problem` and does not affect the others.

    Raises:
        KeyError: the table has no expectations and none are given.
    """
    from expectations.gx_suite import gx_expectations

    ours = AUDIT_EXPECTATIONS[table] if expectations is None else tuple(expectations)
    annotated = annotate(table, {**(others or {}), table: frame}, decisions, ours, unique)
    if any(decision.table == table for decision in decisions):
        annotated = annotated.filter(F.col(DECISION).isNull())
    outcomes = _run_suite(annotated, table, gx_expectations(ours))
    results = [
        _result_of_ours(annotated, table, expectation, outcomes[expectation.name])
        for expectation in ours
    ]
    if brought:
        is_readable = any(result.problem is None for result in results)
        suite = [brought_expectation.gx for brought_expectation in brought]
        outcomes |= _run_brought(
            annotated.select(*frame.columns), table, suite, is_readable=is_readable
        )
        results += [
            _result_of_brought(table, brought_expectation, outcomes[brought_expectation.name])
            for brought_expectation in brought
        ]
    evaluated = {
        validation_result.expectation
        for validation_result in results
        if validation_result.success is not None
    }
    keep(*_one_page(table, outcomes, evaluated))
    return results


Found = dict[str, Any]
"""Great Expectations' results by name of the expectation."""


def _run_suite(
    frame: DataFrame, table: str, suite: Sequence[Any], *, is_readable: bool = False
) -> Found:
    """Run a suite, and each of several expectations that raise once more for its own reason.

    Great Expectations reports one reason for all that raise together. When all raised, the frame or
    the engine fails and that reason is right, unless the frame is known to be readable.
    """
    from expectations.gx_suite import problem_of

    outcomes = _run(frame, table, suite)
    raised = [
        expectation for expectation in suite if problem_of(outcomes[(expectation.meta or {})[NAME]])
    ]
    if len(raised) > 1 and (is_readable or len(raised) < len(suite)):
        for expectation in raised:
            outcomes |= _run(frame, table, [expectation])
    return outcomes


def _run_brought(frame: DataFrame, table: str, suite: Sequence[Any], *, is_readable: bool) -> Found:
    """Run a suite that a person brings; an error in it is a result and does not raise.

    Great Expectations does not catch errors of an expectation before its metrics are computed, such
    as a missing parameter.
    """
    try:
        return _run_suite(frame, table, suite, is_readable=is_readable)
    except Exception as error:
        if len(suite) == 1:
            return {suite[0].meta[NAME]: _raised(suite[0], error)}
    outcomes: Found = {}
    for expectation in suite:
        outcomes |= _run_brought(frame, table, [expectation], is_readable=is_readable)
    return outcomes


def _raised(expectation: Any, error: Exception) -> Any:
    """Return the result of an expectation that raised, as Great Expectations reports it."""
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.validator.exception_info import ExceptionInfo

    return ExpectationValidationResult(
        success=False,
        expectation_config=expectation.configuration,
        exception_info=ExceptionInfo("".join(format_exception(error)), str(error)),
    )


def _run(frame: DataFrame, table: str, expectations: Sequence[Any]) -> Found:
    """Run expectations of Great Expectations on rows as one suite."""
    import great_expectations as gx

    from expectations.gx_suite import frame_definition

    batch = frame_definition().get_batch(batch_parameters={"dataframe": frame})
    validation = batch.validate(
        gx.ExpectationSuite(table, expectations), result_format=_RESULT_FORMAT
    )
    return {result.expectation_config.meta[NAME]: result for result in validation.results}


def _one_page(table: str, outcomes: Found, evaluated: Collection[str]) -> tuple[Any, Any]:
    """Return results as those of one suite, for its page of Data Docs.

    A page shows an expectation that applied to no row as met by 100 % or NaN %, so it has only
    those that were evaluated.
    """
    import great_expectations as gx
    from great_expectations.core import ExpectationSuiteValidationResult
    from great_expectations.validator.validation_statistics import calc_validation_statistics

    results = [value for name, value in outcomes.items() if name in evaluated]
    for result in results:
        result.result.pop("unexpected_rows", None)
        result.success = bool(result.success)  # of some types NumPy's, which is no JSON
    counts = calc_validation_statistics(results)
    suite = gx.ExpectationSuite(table, [result.expectation_config for result in outcomes.values()])
    return suite, ExpectationSuiteValidationResult(
        results=results,
        success=counts.success,
        suite_name=table,
        statistics=counts._asdict(),
        meta={"great_expectations_version": gx.__version__},
    )


def _result_of_ours(
    frame: DataFrame, table: str, expectation: Expectation, result: Any
) -> ValidationResult:
    from expectations.gx_suite import problem_of

    problem = problem_of(result)
    unexpected = None if problem else result.result["unexpected_count"]
    elements = None if problem else result.result["element_count"]
    return ValidationResult(
        table=table,
        expectation=expectation.name,
        success=outcome(success=not problem and bool(result.success), elements=elements),
        unexpected=unexpected,
        elements=elements,
        severity=expectation.severity,
        expected=expectation.expected,
        sample=_sample(frame, table, expectation) if unexpected else [],
        problem=problem,
        mostly=expectation.mostly,
    )


def _result_of_brought(
    table: str, expectation: BroughtExpectation, result: Any
) -> ValidationResult:
    """Return the result of an expectation that a person brings.

    One on a whole column or table counts no rows; its sample is the value that was observed.
    """
    from expectations.gx_suite import problem_of

    problem = problem_of(result)
    counts = {} if problem else result.result
    elements = counts.get("element_count")
    # Without elements it is a number of distinct values. NULL is the sum over no rows.
    unexpected = None if elements is None else counts.get("unexpected_count") or 0
    if elements is not None:
        elements -= counts.get("missing_count") or 0
    return ValidationResult(
        table=table,
        expectation=expectation.name,
        success=outcome(success=not problem and bool(result.success), elements=elements),
        unexpected=unexpected,
        elements=elements,
        severity=expectation.severity,
        expected=expectation.expected,
        sample=[] if result.success else _brought_sample(table, expectation, counts),
        problem=problem,
        mostly=expectation.mostly,
    )


def _brought_sample(
    table: str, expectation: BroughtExpectation, counts: Mapping[str, Any]
) -> list[dict[str, Any]]:
    shown = dict.fromkeys((*TABLES[table].key, *expectation.columns))
    rows = [
        {name: row[name] for name in shown if name in row}
        for row in counts.get("unexpected_rows") or []
    ]
    if not rows and "observed_value" in counts:
        observed = {name: counts[name] for name in _OBSERVED if counts.get(name) not in (None, [])}
        rows = [observed or {"observed_value": None}]
    # JSON has neither infinity nor NaN, which become texts.
    return json.loads(json.dumps(rows, default=_text), parse_constant=str)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _sample(frame: DataFrame, table: str, expectation: Expectation) -> list[dict[str, Any]]:
    key = TABLES[table].key
    shown = list(dict.fromkeys((*key, *expectation.columns)))
    rows = frame.filter(expectation.is_violated).orderBy(*key).limit(SAMPLE_ROWS)
    # Through JSON: instants, structs and arrays arrive in one readable form, the same in a session
    # of this process (which would give naive local times) and on Spark Connect.
    return [json.loads(row[0]) for row in rows.select(row_json(shown)).collect()]
