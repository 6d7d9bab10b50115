"""Validation of tables as asset checks, by ticks and by the hourly audit: ``quality.results``.

Each table has a check of its whole suite. An expectation that a person wants to be alerted about by
name has a check of its own besides, with its own severity.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from assets.dagster_names import own_keys
from assets.metadata import EVERY_HOUR, OWNERS, described, key_of, written
from assets.partitions import ON_TABLES, chosen_hours
from assets.reader import Reader
from assets.resources import LakeResource, QualityResource
from assets.run import CurrentRun, Run, window_asset
from expectations.adapter import validate
from expectations.annotations import source_tables
from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.brought_suites import AUDIT_CHECK, TICK_CHECK, Brought, BroughtExpectation, Suite
from expectations.declarations import Expectation
from expectations.tick_suites import TICK_EXPECTATIONS
from expectations.validation_results import (
    ValidationResult,
    result_rows,
    results_without_rows,
    usable_suites,
)
from spark.session.configuration import SparkResource
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.schema import Table
from tidemark.lake.tables import TABLES, quality, raw
from tidemark.planning.run_plan import (
    NOT_VALIDATED,
    RunPlan,
    Validation,
    outcomes_of,
    plan_run,
    suspect_tables,
)
from tidemark.settings.home import Home
from tidemark.settings.times import utc_instant

if TYPE_CHECKING:
    from expectations.data_docs import DataDocs

VALIDATED = tuple(TABLES[name] for name in TICK_EXPECTATIONS)

_RESULT_COLUMNS = {
    "expectation": "string",
    "success": "bool",
    "unexpected": "int",
    "elements": "int",
    "severity": "string",
    "expected": "string",
    "problem": "string",
}
_RESULT_SCHEMA = dg.TableSchema(
    [dg.TableColumn(name, type) for name, type in _RESULT_COLUMNS.items()]
)


def checks_of(namespace: str, brought: Brought) -> dg.AssetChecksDefinition:
    """Return the asset checks of a namespace's tables as one step.

    Not every expectation has a check: Dagster's book-keeping of a check takes longer than its
    validation, and ``quality.results`` has a row for each expectation anyway.

    Args:
        namespace: of the tables.
        brought: expectations that people bring, as read when definitions are loaded.
    """
    tables = [table for table in VALIDATED if table.namespace == namespace]
    declared = {
        table: (*TICK_EXPECTATIONS[table.name], *brought.get(table.name, ())) for table in tables
    }

    @dg.multi_asset_check(
        name=f"validate_{namespace}",
        specs=[
            spec
            for table, suite in declared.items()
            for spec in specs_of(table, TICK_CHECK, suite, own_checks_of(suite), gate=True)
        ],
        op_tags={"kind": "greatexpectations"},
        # So that a check of an empty table may be left without a result.
        can_subset=True,
        **ON_TABLES,
    )
    @own_keys
    def validated(
        context: dg.AssetCheckExecutionContext, run: CurrentRun, quality_settings: QualityResource
    ) -> Iterator[dg.AssetCheckResult]:
        suites = quality_settings.suites(context, TICK_EXPECTATIONS)
        now_brought, mistakes = quality_settings.brought(context)
        outcomes = {
            table: _validate(run, table, suites[table.name], now_brought.get(table.name, ()))
            for table in tables
        }
        results = [result for results in outcomes.values() for result in results]
        if namespace == raw.SNAPSHOTS.namespace:
            results += usable_suites(now_brought, mistakes)
        if not run.plan.window.empty:
            judged_until = max(
                (loaded_snapshot.observed_at for loaded_snapshot in run.plan.new), default=None
            )
            rows = result_rows(
                results, run.plan.window, run.run_id, datetime.now(UTC), judged_until
            )
            run.lake.append(quality.RESULTS, rows)
        selected = context.selected_asset_check_keys
        for table, results in outcomes.items():
            own = own_checks_of(declared[table])
            for result in check_results(table, TICK_CHECK, results, own, blocking=True):
                if check_of(result) in selected:
                    yield result

    return validated


def _validate(
    run: Run,
    table: Table,
    expectations: Sequence[Expectation],
    brought: Sequence[BroughtExpectation],
) -> list[ValidationResult]:
    """Validate a table's rows of the window.

    Without rows no Spark query runs, unless a person brings a suite, which may demand rows.
    """
    plan = run.plan
    is_raw = table.namespace == raw.SNAPSHOTS.namespace
    has_rows = plan.has_rows(table) if is_raw else run.lake.has_rows(table, plan.window)
    if not has_rows and (plan.window.empty or not brought):
        return results_without_rows(table.name, (*expectations, *brought))
    reader = run.reader_with(NOT_VALIDATED)
    others = {name: reader.rows(TABLES[name]) for name in source_tables(table.name, expectations)}
    rows = reader.rows(table)
    return validate(
        rows,
        table.name,
        others,
        expectations,
        plan.decisions,
        brought=brought,
        unique=reader.unique_in({**others, table.name: rows}),
    )


@window_asset(quality.QUARANTINE, *raw.ALL)
def quarantine(run: CurrentRun) -> dg.MaterializeResult:
    """Quarantine raw rows that are no measurements; nothing is computed on them.

    A recomputation validates no raw rows before, so all tables are suspects.
    """
    suspects = suspect_tables(outcomes_of(run.lake, run.run_id), run.plan)
    invalid = run.reader_with(Validation(suspects=suspects)).invalid() if suspects else None
    return run.replace(quality.QUARANTINE, invalid)


decisions = dg.AssetSpec(**described(quality.DECISIONS, quality.QUARANTINE))
"""No run makes them: people decide, with `tidemark quarantine`."""


def own_checks_of(suite: Suite) -> list[str]:
    """Return names of the expectations that have a check of their own."""
    return [expectation.name for expectation in suite if expectation.own_check]


def specs_of(
    table: Table, name: str, suite: Suite, own_checks: Sequence[str], *, gate: bool = False
) -> Iterator[dg.AssetCheckSpec]:
    """Yield the check of a table and those of single expectations, described as declared.

    Args:
        table: the validated table.
        name: of the check of the whole suite.
        suite: all its expectations.
        own_checks: names of expectations with a check of their own, which has the same name.
        gate: whether later steps wait for the validation. Then the check of a suite blocks that
            keeps rows from them, and so does a single expectation of severity ``block``. No other
            check is marked as blocking, because none of its results stops a step.
    """
    by_name = {expectation.name: expectation for expectation in suite}
    yield dg.AssetCheckSpec(
        name,
        asset=key_of(table),
        description="  \n".join(expectation.description for expectation in suite),
        blocking=gate and any(expectation.severity != "warn" for expectation in suite),
    )
    for own_check in own_checks:
        expectation = by_name[own_check]
        yield dg.AssetCheckSpec(
            own_check,
            asset=key_of(table),
            description=expectation.description,
            blocking=gate and expectation.severity == "block",
        )


def check_results(
    table: Table,
    name: str,
    results: Sequence[ValidationResult],
    own_checks: Sequence[str],
    *,
    blocking: bool = False,
) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of a table's check, and those of checks of single expectations.

    A check without a row to validate has no result, so Dagster shows it as skipped. The same holds
    for an expectation that left its suite after the definitions were loaded.
    """
    values = {name: results} | {
        check: [result for result in results if result.expectation == check] for check in own_checks
    }
    for check, mine in values.items():
        if any(result.success is not None for result in mine):
            yield check_result(table, check, mine, blocking=blocking)


def check_of(result: dg.AssetCheckResult) -> dg.AssetCheckKey:
    """Return the key of the check that a result names."""
    assert result.asset_key and result.check_name
    return dg.AssetCheckKey(result.asset_key, result.check_name)


def check_result(
    table: Table, name: str, results: Sequence[ValidationResult], *, blocking: bool = False
) -> dg.AssetCheckResult:
    """Return the validation results of a table as the result of its check.

    Args:
        table: the validated table.
        name: of the check.
        results: of all expectations of the check.
        blocking: whether a violated expectation of severity ``block`` stops later steps.
    """
    failed = [result for result in results if result.success is False]
    empty = [result.expectation for result in results if result.success is None]
    metadata: dict[str, Any] = {
        "unexpected": sum(result.unexpected or 0 for result in results),
        "elements": max((result.elements or 0 for result in results), default=0),
        "expectations": dg.TableMetadataValue(
            [dg.TableRecord(_shown(result)) for result in results], _RESULT_SCHEMA
        ),
    }
    if failed:
        metadata["failed_expectations"] = ", ".join(result.expectation for result in failed)
    if empty:
        metadata["nothing_to_validate"] = ", ".join(empty)
    samples = {result.expectation: result.sample for result in failed if result.sample}
    if samples:
        metadata["sample"] = dg.MetadataValue.json(samples)
    # Checks block, so that validation ends before computations start. Only a failed ERROR stops
    # these: quarantined rows are left out of them, and rows with a warning are measurements.
    stops = blocking and any(result.severity == "block" for result in failed)
    return dg.AssetCheckResult(
        passed=not failed,
        asset_key=key_of(table),
        check_name=name,
        severity=dg.AssetCheckSeverity.ERROR if stops else dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


def _shown(result: ValidationResult) -> dict[str, Any]:
    """Return a validation result as a row of the table that the Dagster UI shows."""
    return {name: getattr(result, name) for name in _RESULT_COLUMNS}


@window_asset(quality.RESULTS, *VALIDATED)
def results(run: CurrentRun) -> dg.MaterializeResult:
    """Report the outcome of every expectation that this run validated."""
    outcomes = outcomes_of(run.lake, run.run_id)
    failed = sorted({outcome.expectation for outcome in outcomes if outcome.success is False})
    return dg.MaterializeResult(
        metadata=written(
            len(outcomes), run.plan.window, failed=len(failed), failed_expectations=failed
        )
    )


def tick_checks(brought: Brought) -> list[dg.AssetChecksDefinition]:
    """Return the checks of every namespace that ticks validate."""
    namespaces = dict.fromkeys(table.namespace for table in VALIDATED)
    return [checks_of(name, brought) for name in namespaces]


DATA_DOCS = dg.AssetKey("data_docs")


class AuditConfig(dg.Config):
    """The hour that a run of the audit validates."""

    hour: str = Field(
        default="",
        description="an instant of it as ISO 8601, in UTC unless it names a zone; else the hours "
        "of the run's partitions, or the last whole hour",
    )

    def window(self, now: datetime, tags: Mapping[str, str]) -> Window:
        """Return the hours to validate.

        Args:
            now: the present.
            tags: tags of the run. A materialization of assets also runs their checks, on the hours
                of the partitions.

        Raises:
            Failure: the configured text is no instant.
        """
        if not self.hour and (chosen := chosen_hours(tags)):
            return chosen
        start = floor_hour(self._instant() if self.hour else now - HOUR)
        return Window(start, start + HOUR)

    def _instant(self) -> datetime:
        try:
            return utc_instant(self.hour)
        except (ValueError, OverflowError):
            raise dg.Failure(
                f"config of validate_hour: hour: {self.hour!r} is not an ISO 8601 instant; write "
                "one as 2026-11-19T08:00, or leave it out for the last whole hour",
                allow_retries=False,
            ) from None


def audit_checks(brought: Brought) -> dg.AssetChecksDefinition:
    """Return the checks of the audit: one per table, and one per expectation that has its own.

    An expectation that ticks validate has its own check there.

    Args:
        brought: expectations that people bring, as read when definitions are loaded.
    """
    own_checks = {
        name: [] if name in TICK_EXPECTATIONS else own_checks_of(_audit_suite(name, brought))
        for name in AUDIT_EXPECTATIONS
    }

    @dg.multi_asset_check(
        name="validate_hour",
        specs=[
            spec
            for name, own in own_checks.items()
            for spec in specs_of(TABLES[name], AUDIT_CHECK, _audit_suite(name, brought), own)
        ],
        op_tags={"kind": "greatexpectations"},
        # A materialization of one table by hand runs only its checks.
        can_subset=True,
        **ON_TABLES,
    )
    @own_keys
    def validate_hour(
        context: dg.AssetCheckExecutionContext,
        config: AuditConfig,
        lake: LakeResource,
        quality_settings: QualityResource,
        spark: SparkResource,
    ) -> Iterator[dg.AssetCheckResult]:
        """Validate all rows of an hour; an audit that no partition starts also writes pages."""
        # Imported here, see `expectations.gx_suite`.
        from expectations.data_docs import DataDocs

        lake.alone(context.log.info)
        now = datetime.now(UTC)
        tags = context.run.tags
        plan = plan_run(lake.lake, config.window(now, tags), lake.history_settings)
        reader = Reader(session=spark.session_for(plan.rows), lake=lake.lake, plan=plan)
        suites = quality_settings.suites(context, AUDIT_EXPECTATIONS)
        now_brought, mistakes = quality_settings.brought(context)
        docs = DataDocs(pages_folder(lake.lake.home))
        hour = _AuditedHour(reader, docs, now)
        all_results: list[ValidationResult] = []
        selected = context.selected_asset_check_keys
        for name in sorted({".".join(key.asset_key.path) for key in selected}):
            outcome = hour.validate(name, suites[name], now_brought.get(name, ()))
            if name == quality.RESULTS.name:
                outcome += usable_suites(now_brought, mistakes)
            all_results += outcome
            for result in check_results(TABLES[name], AUDIT_CHECK, outcome, own_checks[name]):
                if check_of(result) in selected:
                    yield result
        of_schedule = not config.hour and not chosen_hours(tags)
        judged_until = _newest_of(plan) if of_schedule else None
        run_id = context.run.run_id
        rows = result_rows(all_results, plan.window, run_id, now, judged_until)
        lake.lake.append(quality.RESULTS, rows)
        # Not after each part of a backfill, nor after a table that a person materialized.
        if not chosen_hours(tags):
            context.op_execution_context.log_event(docs_written(docs))

    return validate_hour


def _audit_suite(name: str, brought: Brought) -> Suite:
    return (*AUDIT_EXPECTATIONS[name], *brought.get(name, ()))


audit = audit_checks({})
"""The audit without suites that people bring."""


def _newest_of(plan: RunPlan) -> datetime:
    """Return the instant of the newest snapshot of an hour; without one, the end of the hour."""
    return max(
        (loaded_snapshot.observed_at for loaded_snapshot in plan.snapshots), default=plan.window.end
    )


@dataclass(frozen=True)
class _AuditedHour:
    """The hour that is validated, and where Great Expectations' results are kept."""

    reader: Reader
    docs: "DataDocs"
    validated_at: datetime

    def validate(
        self,
        name: str,
        expectations: Sequence[Expectation],
        brought: Sequence[BroughtExpectation],
    ) -> list[ValidationResult]:
        """Validate a table's rows; without rows only suites that people bring run."""
        reader, table = self.reader, TABLES[name]
        if not reader.lake.has_rows(table, reader.plan.window) and not brought:
            self.docs.remove(name)
            return results_without_rows(name, expectations)
        others = {
            other: reader.stored(TABLES[other], before)
            for other, before in source_tables(name, expectations).items()
        }
        rows = reader.stored(table)
        keep = partial(self.docs.keep, validated_at=self.validated_at)
        return validate(rows, name, others, expectations, reader.plan.decisions, keep, brought)


data_docs = dg.AssetSpec(
    DATA_DOCS,
    description="Great Expectations' Data Docs of the last audit: each expectation with its "
    "counts. The checks `hourly` write them.",
    deps=[key_of(TABLES[name]) for name in AUDIT_EXPECTATIONS],
    group_name="maintain",
    kinds={"greatexpectations"},
    owners=OWNERS,
    freshness_policy=EVERY_HOUR,
)
"""The audit makes them, not a step of their own: a step could wait for checks only if they were
marked as blocking, and none of their results stops anything."""


def docs_written(docs: "DataDocs") -> dg.AssetMaterialization:
    """Write the pages of all stored results, and return that as an event."""
    # No link: browsers open no file from a page of the UI.
    return dg.AssetMaterialization(
        DATA_DOCS, metadata={"path": dg.MetadataValue.path(docs.build())}
    )


def pages_folder(home: Home) -> Path:
    """Return the folder of the pages."""
    return home.path / "data_docs"
