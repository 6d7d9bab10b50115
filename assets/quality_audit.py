"""The hourly audit: validation of all tables, and Great Expectations' Data Docs of it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from pydantic import Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from assets.metadata import EVERY_HOUR, OWNERS, key_of
from assets.quality import check_result, spec_of
from assets.resources import LakeResource, QualityResource
from assets.windows import read_window
from expectations.adapter import validate
from expectations.annotations import source_tables
from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.data_docs import DataDocs
from expectations.validation_results import (
    ValidationResult,
    result_rows,
    results_without_rows,
)
from lake.run_plan import RunPlan, plan_run
from lake.schema import Table
from lake.tables import TABLES, quality, raw
from lake.window import HOUR, Window, floor_hour
from settings.home import Home
from spark.session.configuration import SparkResource

CHECK = "hourly"

DATA_DOCS = dg.AssetKey("data_docs")


class AuditConfig(dg.Config):
    """Which hour is validated."""

    hour: str = Field(default="", description="its first instant as ISO 8601; else the last whole")

    def window(self, now: datetime) -> Window:
        """The hour as a window."""
        start = datetime.fromisoformat(self.hour) if self.hour else now - HOUR
        return Window(floor_hour(start), floor_hour(start) + HOUR)


@dg.multi_asset_check(
    name="validate_hour",
    # Blocking, so that the pages wait for it; none of its results stops anything.
    specs=[
        spec_of(TABLES[name], CHECK, AUDIT_EXPECTATIONS[name], blocking=True)
        for name in AUDIT_EXPECTATIONS
    ],
    op_tags={"kind": "greatexpectations"},
    # Whoever materializes one table by hand gets only its checks.
    can_subset=True,
)
def audit(
    context: dg.AssetCheckExecutionContext,
    config: AuditConfig,
    lake: LakeResource,
    quality_settings: QualityResource,
    spark: SparkResource,
) -> Iterator[dg.AssetCheckResult]:
    """Validate all rows of an hour."""
    lake.alone(context.log.info)
    now = datetime.now(UTC)
    plan = plan_run(lake.lake, config.window(now), lake.history_settings)
    suites = quality_settings.suites(context, AUDIT_EXPECTATIONS)
    session = spark.session_for(plan.rows)
    docs = DataDocs(folder(lake.lake.home))
    results: list[ValidationResult] = []
    for key in sorted(context.selected_asset_check_keys):
        name = ".".join(key.asset_key.path)
        if lake.lake.has_rows(TABLES[name], plan.window):
            others = {
                other: _rows(session, TABLES[other], plan, before)
                for other, before in source_tables(name, suites[name]).items()
            }
            found = validate(
                _rows(session, TABLES[name], plan),
                name,
                others,
                suites[name],
                plan.decisions,
                keep=lambda suite, result: docs.keep(suite, result, now),
            )
        else:
            found = results_without_rows(name, suites[name])
        results += found
        yield check_result(TABLES[name], CHECK, found)
    lake.lake.append(quality.RESULTS, result_rows(results, plan.window, context.run.run_id, now))


@dg.asset(
    key=DATA_DOCS,
    deps=[key_of(TABLES[name]) for name in AUDIT_EXPECTATIONS],
    group_name="maintain",
    kinds={"greatexpectations"},
    owners=OWNERS,
    freshness_policy=EVERY_HOUR,
)
def data_docs(lake: LakeResource) -> dg.MaterializeResult:
    """Great Expectations' Data Docs of the last audit: each expectation with its counts."""
    page = DataDocs(folder(lake.lake.home)).build()
    return dg.MaterializeResult(
        metadata={"page": dg.MetadataValue.url(page.as_uri()), "path": dg.MetadataValue.path(page)}
    )


def folder(home: Home) -> Path:
    """Return the folder of the pages."""
    return home.path / "data_docs"


def _rows(
    session: SparkSession, table: Table, plan: RunPlan, before: timedelta = timedelta(0)
) -> DataFrame:
    """Read the rows of an hour; of raw tables only rows of loaded snapshots or without one.

    Args:
        session: the Spark session.
        table: the table.
        plan: the plan of the hour.
        before: how far before the hour rows are read too.
    """
    rows = read_window(session, table, Window(plan.window.start - before, plan.window.end))
    if table.namespace != "raw" or table is raw.SNAPSHOTS:
        return rows
    loaded = [*plan.before(before), *plan.snapshot_ids]
    return rows.where(F.col("snapshot_id").isNull() | F.col("snapshot_id").isin(loaded))
