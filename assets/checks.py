"""The verdicts of Great Expectations as asset checks, one per suite, and as ``quality.results``."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

from assets.computing import asset_of, keys
from assets.frames import has_rows, read_snapshots, verdicts_of
from assets.metadata import key_of, written
from assets.resources import LakeResource, QualityResource
from expectations.adapter import Verdict, judge, nothing_found, result_rows
from expectations.annotate import looks_at
from expectations.rules import Rule
from expectations.suites import RULES
from lake import history
from lake.catalog import Lake
from lake.schema import Table
from lake.tables import TABLES, quality
from spark.session import SparkResource

JUDGED = tuple(TABLES[name] for name in RULES)

CHECK = "expectations"
"""The asset check of each judged table: its whole suite."""

_VERDICT_COLUMNS = {
    "expectation": "string",
    "success": "bool",
    "unexpected": "int",
    "elements": "int",
    "severity": "string",
    "expected": "string",
    "problem": "string",
}
_VERDICT_SCHEMA = dg.TableSchema(
    [dg.TableColumn(name, type) for name, type in _VERDICT_COLUMNS.items()]
)


def checks_of(namespace: str) -> dg.AssetChecksDefinition:
    """The asset checks of a namespace's tables, one per suite.

    They are one step, and not one check per rule: Dagster's book-keeping of a step or a check costs
    more than judging by a rule does, and each verdict stands in ``quality.results`` for itself.
    """
    tables = [table for table in JUDGED if table.namespace == namespace]

    @dg.multi_asset_check(
        name=f"judge_{namespace}",
        specs=[spec_of(table, CHECK, RULES[table.name], blocking=True) for table in tables],
        op_tags={"kind": "greatexpectations"},
    )
    def judged(
        context: dg.AssetCheckExecutionContext,
        lake: LakeResource,
        quality_settings: QualityResource,
        spark: SparkResource,
    ) -> Iterator[dg.AssetCheckResult]:
        plan = lake.plan(context)
        suites = quality_settings.suites(context, RULES)
        if plan.window.empty:
            # Dagster wants a verdict of every check, also when a tick found nothing new.
            for table in tables:
                found_none = nothing_found(table.name, suites[table.name])
                yield check_result(table, CHECK, found_none, blocking=True)
            return
        session = spark.session_for(plan.rows)
        found = {
            table: _judge(session, lake.lake, table, plan, suites[table.name]) for table in tables
        }
        verdicts = [verdict for verdicts in found.values() for verdict in verdicts]
        now = datetime.now(UTC)
        lake.lake.append(
            quality.RESULTS, result_rows(verdicts, plan.window, context.run.run_id, now)
        )
        for table, verdicts in found.items():
            yield check_result(table, CHECK, verdicts, blocking=True)

    return judged


def _judge(
    session: SparkSession, lake: Lake, table: Table, plan: history.Plan, rules: Sequence[Rule]
) -> list[Verdict]:
    """The verdicts on a table's rows of a window; of none, without asking Spark."""
    if not has_rows(lake, table, plan.window):
        return nothing_found(table.name, rules)
    others = {
        name: read_snapshots(session, TABLES[name], plan) for name in looks_at(table.name, rules)
    }
    rows = read_snapshots(session, table, plan)
    return judge(rows, table.name, others, rules, plan.decisions)


def spec_of(
    table: Table, name: str, rules: Sequence[Rule], *, blocking: bool = False
) -> dg.AssetCheckSpec:
    """A check of a table's whole suite, which says every rule as it is unless configured."""
    return dg.AssetCheckSpec(
        name,
        asset=key_of(table),
        description="  \n".join(
            f"{rule.name}: {rule.expected} ({rule.severity})" for rule in rules
        ),
        blocking=blocking,
    )


def check_result(
    table: Table, name: str, verdicts: Sequence[Verdict], *, blocking: bool = False
) -> dg.AssetCheckResult:
    """The verdicts of a table's suite as the result of its check.

    Args:
        table: the one judged.
        name: of the check.
        verdicts: of the whole suite.
        blocking: whether a broken rule of severity ``block`` stops what follows.
    """
    failed = [verdict for verdict in verdicts if not verdict.success]
    metadata: dict[str, Any] = {
        "unexpected": sum(verdict.unexpected or 0 for verdict in verdicts),
        "elements": max((verdict.elements or 0 for verdict in verdicts), default=0),
        "rules": dg.TableMetadataValue(
            [dg.TableRecord(_shown(verdict)) for verdict in verdicts], _VERDICT_SCHEMA
        ),
    }
    if failed:
        metadata["failed_expectations"] = ", ".join(verdict.expectation for verdict in failed)
    samples = {verdict.expectation: verdict.sample for verdict in failed if verdict.sample}
    if samples:
        metadata["sample"] = dg.MetadataValue.json(samples)
    # Judging comes before computing, so checks block; only a failed ERROR really stops what
    # follows: quarantined rows are left out of it, and a warning is a measurement to look at.
    stops = blocking and any(verdict.severity == "block" for verdict in failed)
    return dg.AssetCheckResult(
        passed=not failed,
        asset_key=key_of(table),
        check_name=name,
        severity=dg.AssetCheckSeverity.ERROR if stops else dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


def _shown(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a row of the table that the Dagster UI shows."""
    return {name: getattr(verdict, name) for name in _VERDICT_COLUMNS}


@asset_of(quality.RESULTS, deps=keys(*JUDGED))
def results(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Sums up what the checks of this run wrote."""
    window = lake.plan(context).window
    mine = verdicts_of(lake.lake, context.run.run_id)
    failed = sorted({row["expectation"] for row in mine if not row["success"]})
    return dg.MaterializeResult(
        metadata=written(len(mine), window, failed=len(failed), failed_expectations=failed)
    )


CHECKS = [checks_of(name) for name in dict.fromkeys(table.namespace for table in JUDGED)]
