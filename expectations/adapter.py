"""The one adapter between our rules and Great Expectations: a suite in, verdicts out."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from expectations.annotate import annotate
from expectations.json_rows import row_json
from expectations.rules import DECISION, Rule, Severity
from expectations.suites import SUITES
from lake.decisions import Decision
from lake.tables import TABLES
from lake.window import Window

SAMPLE_ROWS = 5


@dataclass(frozen=True)
class Verdict:
    """What was found when a rule was asked of the rows of a table.

    Attributes:
        table: full name of the table.
        expectation: name of the rule.
        success: whether as many of the rows asked keep the rule as it wants (`mostly`): all, unless
            it is configured. A rule that could not be judged is False.
        unexpected: rows that break it; None when it could not be judged.
        elements: rows it was asked of; None when it could not be judged.
        severity: ``block`` | ``quarantine`` | ``warn``.
        expected: the rule in one line for people.
        sample: up to `SAMPLE_ROWS` broken rows, their key columns and those the rule is about,
            as JSON values (instants as ISO 8601); fetched only after a failure.
        problem: why it could not be judged, in one line; None when it was.
        mostly: share of the rows asked that had to keep it.
    """

    table: str
    expectation: str
    success: bool
    unexpected: int | None
    elements: int | None
    severity: Severity
    expected: str
    sample: list[dict[str, Any]] = field(default_factory=list)
    problem: str | None = None
    mostly: float = 1.0


def judge(
    frame: DataFrame,
    table: str,
    others: Mapping[str, DataFrame] | None = None,
    rules: Sequence[Rule] | None = None,
    decisions: Sequence[Decision] = (),
    keep: Callable[[Any, Any], None] = lambda suite, result: None,
) -> list[Verdict]:
    """Runs the suite of a table on its rows through Great Expectations.

    One Spark query when every rule holds, one more for the sample of each that does not.

    Args:
        frame: rows of the table, with the columns of its declaration.
        table: its full name.
        others: frames of other tables, same window, that rules look at; ``raw.consumer_offsets``
            looks at ``raw.queue_offsets``. Rules that miss theirs are not asked.
        rules: other rules than those of `expectations.suites`.
        decisions: those in force on rows of these tables; such rows are not asked.
        keep: is given Great Expectations' suite, called as the table, and its validation result.

    Returns:
        One verdict per rule, in the order of the rules. A rule that raises is a failed verdict
        with its `problem`; the other rules are judged all the same.

    Raises:
        KeyError: for a table that has no rules, when none are given.
    """
    asked = SUITES[table] if rules is None else tuple(rules)
    annotated = annotate(table, {**(others or {}), table: frame}, decisions, asked)
    if any(decision.table == table for decision in decisions):
        annotated = annotated.filter(F.col(DECISION).isNull())
    results = _validate(annotated, table, asked, keep)
    raised = [rule for rule in asked if results[rule.name].problem]
    if 1 < len(raised) < len(asked):
        # Great Expectations tells one reason to all that raise together: ask each alone for its
        # own. When all raised, the frame or the engine is at fault and one reason is right.
        for rule in raised:
            results |= _validate(annotated, table, (rule,))
    return [_verdict(annotated, table, rule, results[rule.name]) for rule in asked]


def nothing_found(table: str, rules: Sequence[Rule]) -> list[Verdict]:
    """The verdicts on no rows at all."""
    return [
        Verdict(table, rule.name, True, 0, 0, rule.severity, rule.expected, mostly=rule.mostly)
        for rule in rules
    ]


def result_rows(
    verdicts: Sequence[Verdict], window: Window, run_id: str, judged_at: datetime
) -> list[dict[str, Any]]:
    """The verdicts as rows of ``quality.results``.

    Args:
        verdicts: of any number of tables.
        window: the window whose rows were judged.
        run_id: the Dagster run.
        judged_at: when, UTC.
    """
    return [
        {
            "observed_at": judged_at,
            "table": verdict.table,
            "expectation": verdict.expectation,
            "success": verdict.success,
            "unexpected": verdict.unexpected,
            "elements": verdict.elements,
            "severity": verdict.severity,
            "mostly": verdict.mostly,
            "window_start": window.start,
            "window_end": window.end,
            "run_id": run_id,
        }
        for verdict in verdicts
    ]


@dataclass(frozen=True)
class _Result:
    """What Great Expectations said of one rule: success and counts, or why there are none."""

    success: bool = False
    asked: int | None = None
    broken: int | None = None
    problem: str | None = None


def context_of(stores: Any) -> Any:
    """A Great Expectations context with these stores, which asks and tells nobody."""
    # Imported here and below: 4-5 s that only a run that judges should pay.
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


def _validate(
    frame: DataFrame,
    table: str,
    rules: Sequence[Rule],
    keep: Callable[[Any, Any], None] = lambda suite, result: None,
) -> dict[str, _Result]:
    """Runs the rules as one Great Expectations suite on a frame; a result for every rule."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import InMemoryStoreBackendDefaults

    from expectations.row_expectation import ExpectRowsToHold

    # A context of its own keeps no frame alive after the suite, and costs milliseconds.
    batch = (
        context_of(InMemoryStoreBackendDefaults())
        .data_sources.add_spark("spark", persist=False)
        .add_dataframe_asset("frame")
        .add_batch_definition_whole_dataframe("whole")
        .get_batch(batch_parameters={"dataframe": frame})
    )
    suite = gx.ExpectationSuite(table)
    for rule in rules:
        suite.add_expectation(
            ExpectRowsToHold(
                condition=rule.condition,
                mostly=rule.mostly,
                description=f"{rule.name}: {rule.expected} ({rule.severity})",
                meta={"rule": rule.name},
            )
        )
    found = {rule.name: _Result(problem="Great Expectations gave no result") for rule in rules}
    validation = batch.validate(suite, result_format="BASIC")
    keep(suite, validation)
    for result in validation.results:
        found[result.expectation_config.meta["rule"]] = _read(result)
    return found


def _read(result: Any) -> _Result:
    """What one validation result says, or the reason why it says nothing."""
    info = result.exception_info or {}
    # One exception is told flat, one that struck a metric under the metric's id.
    told = [info] if "raised_exception" in info else list(info.values())
    for exception in told:
        if exception["raised_exception"]:
            return _Result(problem=_first_line(exception["exception_message"]))
    counts = result.result
    return _Result(bool(result.success), counts["element_count"], counts["unexpected_count"])


def _first_line(message: str | None) -> str:
    lines = (message or "").strip().splitlines()
    return lines[0] if lines else "raised without a message"


def _verdict(frame: DataFrame, table: str, rule: Rule, result: _Result) -> Verdict:
    sample = _sample(frame, table, rule) if result.broken else []
    return Verdict(
        table=table,
        expectation=rule.name,
        success=result.success,
        unexpected=result.broken,
        elements=result.asked,
        severity=rule.severity,
        expected=rule.expected,
        sample=sample,
        problem=result.problem,
        mostly=rule.mostly,
    )


def _sample(frame: DataFrame, table: str, rule: Rule) -> list[dict[str, Any]]:
    key = TABLES[table].key
    shown = list(dict.fromkeys((*key, *rule.columns)))
    rows = frame.filter(rule.is_broken).orderBy(*key).limit(SAMPLE_ROWS)
    # Through JSON: instants, structs and arrays arrive in one readable form, the same in a session
    # of this process (which would give naive local times) and on Spark Connect.
    return [json.loads(row[0]) for row in rows.select(row_json(shown)).collect()]
