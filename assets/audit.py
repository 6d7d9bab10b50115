"""The hourly look at all tables, also those that no tick judges, and the pages made of it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from pydantic import Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from assets.checks import check_result, spec_of
from assets.frames import has_rows, read_windows
from assets.metadata import EVERY_HOUR, OWNERS, key_of
from assets.resources import LakeResource, QualityResource
from expectations.adapter import Verdict, judge, nothing_found, result_rows
from expectations.annotate import looks_at
from expectations.pages import Pages
from expectations.suites import SUITES
from lake import history
from lake.catalog import Lake
from lake.decisions import decisions
from lake.home import Home
from lake.schema import Table
from lake.tables import TABLES, quality, raw
from lake.window import HOUR, Window, floor_hour
from spark.session import SparkResource

CHECK = "hourly"

DATA_DOCS = dg.AssetKey("data_docs")


class AuditConfig(dg.Config):
    """Which hour is judged."""

    hour: str = Field(default="", description="its first instant as ISO 8601; else the last whole")

    def window(self, now: datetime) -> Window:
        """The hour as a window."""
        start = datetime.fromisoformat(self.hour) if self.hour else now - HOUR
        return Window(floor_hour(start), floor_hour(start) + HOUR)


@dg.multi_asset_check(
    name="judge_hour",
    # Blocking, so that the pages wait for it; no result of it stops anything.
    specs=[spec_of(TABLES[name], CHECK, SUITES[name], blocking=True) for name in SUITES],
    op_tags={"kind": "greatexpectations"},
    # Who materializes one table by hand gets its checks alone.
    can_subset=True,
)
def audit(
    context: dg.AssetCheckExecutionContext,
    config: AuditConfig,
    lake: LakeResource,
    quality_settings: QualityResource,
    spark: SparkResource,
) -> Iterator[dg.AssetCheckResult]:
    """Judges all rows of an hour."""
    now = datetime.now(UTC)
    window = config.window(now)
    suites = quality_settings.suites(context, SUITES)
    session = spark.session_for(history.measured_rows(lake.lake, window))
    pages = Pages(folder(lake.lake.home))
    decided = decisions(lake.lake, window)
    verdicts: list[Verdict] = []
    for key in sorted(context.selected_asset_check_keys):
        name = ".".join(key.asset_key.path)
        if has_rows(lake.lake, TABLES[name], window):
            found = judge(
                _rows(session, lake.lake, TABLES[name], window),
                name,
                {
                    other: _rows(
                        session, lake.lake, TABLES[other], Window(window.start - before, window.end)
                    )
                    for other, before in looks_at(name, suites[name]).items()
                },
                suites[name],
                decided,
                keep=lambda suite, result: pages.keep(suite, result, now),
            )
        else:
            found = nothing_found(name, suites[name])
        verdicts += found
        yield check_result(TABLES[name], CHECK, found)
    lake.lake.append(quality.RESULTS, result_rows(verdicts, window, context.run.run_id, now))


@dg.asset(
    key=DATA_DOCS,
    deps=[key_of(TABLES[name]) for name in SUITES],
    group_name="maintain",
    kinds={"greatexpectations"},
    owners=OWNERS,
    freshness_policy=EVERY_HOUR,
)
def data_docs(lake: LakeResource) -> dg.MaterializeResult:
    """Great Expectations' pages of the last audit: every rule, what it was asked of, what broke."""
    page = Pages(folder(lake.lake.home)).build()
    return dg.MaterializeResult(
        metadata={"page": dg.MetadataValue.url(page.as_uri()), "path": dg.MetadataValue.path(page)}
    )


def folder(home: Home) -> Path:
    """Where the pages are."""
    return home.path / "data_docs"


def _rows(session: SparkSession, lake: Lake, table: Table, window: Window) -> DataFrame:
    """The rows of an hour; of raw tables those of loaded snapshots, and those that tell of none."""
    rows = read_windows(session, table, [window])
    if table.namespace != "raw" or table is raw.SNAPSHOTS:
        return rows
    loaded = [look.snapshot_id for look in history.looks(lake, window)]
    return rows.where(F.col("snapshot_id").isNull() | F.col("snapshot_id").isin(loaded))
