"""The hourly audit: validation of all tables, and Great Expectations' Data Docs of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from assets.dagster_names import own_keys
from assets.metadata import EVERY_HOUR, OWNERS, key_of
from assets.partitions import ON_TABLES, chosen_hours
from assets.quality import check_of, check_results, own_checks_of, specs_of
from assets.reader import Reader
from assets.resources import LakeResource, QualityResource
from expectations.adapter import validate
from expectations.annotations import source_tables
from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.brought_suites import AUDIT_CHECK, Brought, BroughtExpectation, Suite
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
from tidemark.lake.tables import TABLES, quality
from tidemark.planning.run_plan import RunPlan, plan_run
from tidemark.settings.home import Home
from tidemark.settings.times import utc_instant

if TYPE_CHECKING:
    from expectations.data_docs import DataDocs

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
        name: [] if name in TICK_EXPECTATIONS else own_checks_of(_suite(name, brought))
        for name in AUDIT_EXPECTATIONS
    }

    @dg.multi_asset_check(
        name="validate_hour",
        specs=[
            spec
            for name, own in own_checks.items()
            for spec in specs_of(TABLES[name], AUDIT_CHECK, _suite(name, brought), own)
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
        docs = DataDocs(folder(lake.lake.home))
        hour = _Hour(reader, docs, now)
        results: list[ValidationResult] = []
        selected = context.selected_asset_check_keys
        for name in sorted({".".join(key.asset_key.path) for key in selected}):
            outcome = hour.validate(name, suites[name], now_brought.get(name, ()))
            if name == quality.RESULTS.name:
                outcome += usable_suites(now_brought, mistakes)
            results += outcome
            for result in check_results(TABLES[name], AUDIT_CHECK, outcome, own_checks[name]):
                if check_of(result) in selected:
                    yield result
        of_schedule = not config.hour and not chosen_hours(tags)
        judged_until = _newest_of(plan) if of_schedule else None
        run_id = context.run.run_id
        rows = result_rows(results, plan.window, run_id, now, judged_until)
        lake.lake.append(quality.RESULTS, rows)
        # Not after each part of a backfill, nor after a table that a person materialized.
        if not chosen_hours(tags):
            context.op_execution_context.log_event(docs_written(docs))

    return validate_hour


def _suite(name: str, brought: Brought) -> Suite:
    return (*AUDIT_EXPECTATIONS[name], *brought.get(name, ()))


audit = audit_checks({})
"""The audit without suites that people bring."""


def _newest_of(plan: RunPlan) -> datetime:
    """Return the instant of the newest snapshot of an hour; without one, the end of the hour."""
    return max(
        (loaded_snapshot.observed_at for loaded_snapshot in plan.snapshots), default=plan.window.end
    )


@dataclass(frozen=True)
class _Hour:
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


def folder(home: Home) -> Path:
    """Return the folder of the pages."""
    return home.path / "data_docs"
