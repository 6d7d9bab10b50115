"""The `Definitions` that Dagster loads: assets, checks, jobs, schedules, sensors, resources."""

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import dagster as dg

from assets.alerting import alerts, incidents, notifications
from assets.dagster_names import with_own_keys
from assets.maintenance import maintenance
from assets.metadata import shown_at
from assets.partitions import computable_since, first_hour, hourly, in_parts
from assets.progress import (
    computed,
    members,
    progress_baselines,
    progress_capacity,
    progress_events,
    progress_groups,
    progress_objectives,
    progress_peaks,
    progress_queues,
    progress_throughput,
    progress_timeline,
    progress_topics,
)
from assets.quality import audit_checks, data_docs, decisions, quarantine, results, tick_checks
from assets.raw import landing, raw_tables
from expectations.brought_suites import read
from orchestration.jobs import jobs_with, report_job, schedules
from orchestration.resources import resources
from orchestration.sensors import sensors
from tidemark.host.shared import Shared
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.landing_places import Landing
from tidemark.settings.basics import SettingsError, warnings_of
from tidemark.settings.environment import Settings

ASSETS: tuple[dg.AssetsDefinition, ...] = (
    landing,
    raw_tables,
    quarantine,
    progress_queues,
    progress_groups,
    members,
    progress_throughput,
    progress_capacity,
    progress_events,
    alerts,
    incidents,
    computed,
    results,
    maintenance,
    progress_timeline,
    progress_topics,
    progress_baselines,
    progress_objectives,
    progress_peaks,
)


def build(
    settings: Settings,
    loggers: Mapping[str, dg.LoggerDefinition] | None = None,
    prefix: str = "",
    **overrides: Any,
) -> dg.Definitions:
    """Return fresh definitions; nothing is written, and this process stays as it is.

    Two things are read, because Dagster knows checks and partitions only from its definitions: the
    suites that people bring, whose Python files are executed for that, and from when on raw rows
    are kept. Each run needs the same suites, so a process of its own for them would cost every run
    the seconds in which Great Expectations is imported twice.

    Args:
        settings: the settings of the process.
        loggers: the loggers of runs, in place of Dagster's console.
        prefix: of names of groups, jobs, schedules and sensors, where a project mounts them beside
            its own. That project chooses the executor of what people materialize by hand.
        overrides: resources that replace those of the settings, by plain name.
    """
    partitions = hourly(_computable_since(settings))
    assets = [
        assets_definition.with_attributes(backfill_policy=in_parts(settings.backfill_hours))
        if assets_definition.partitions_def
        else assets_definition
        for assets_definition in ASSETS
    ]
    # Its mistakes are reported by runs, and by `tidemark doctor`.
    brought, _ = read(settings.expectations_folder.path)
    audit = audit_checks(brought)

    def configured(spec: dg.AssetSpec) -> dg.AssetSpec:
        group = f"{prefix}{spec.group_name}"
        shown = spec.merge_attributes(metadata=shown_at(spec.key, settings.board_url))
        if not spec.partitions_def:
            return shown.replace_attributes(group_name=group)
        return shown.replace_attributes(group_name=group, partitions_def=partitions)

    made = dg.map_asset_specs(configured, [*assets, decisions, notifications, data_docs])
    checks = [*tick_checks(brought), audit]
    rows = dg.AssetSelection.assets(*assets) | dg.AssetSelection.checks(*checks)

    return dg.Definitions(
        assets=made,
        asset_checks=checks,
        jobs=[*jobs_with(audit, rows, prefix), report_job(prefix)],
        schedules=schedules(running=settings.schedule, prefix=prefix),
        sensors=sensors(running=settings.schedule, prefix=prefix),
        resources=with_own_keys(resources(settings) | overrides),
        loggers=loggers,
        executor=None if prefix else dg.in_process_executor,
    )


def _computable_since(settings: Settings) -> datetime:
    """Return the first hour that can be computed, as far as it is known while code is loaded."""
    try:
        config = CatalogConfig.of(settings.home, settings.catalog)
        shared = config.shared or Shared.of_home(settings.home)
        landing = Landing.of(settings.home, settings.catalog)
        return computable_since(shared.state, landing, settings.history_days)
    except (OSError, SettingsError):
        # Nothing may keep the code from loading. A run of an hour without raw rows reports that.
        return first_hour(settings.history_days)


@dg.definitions
def defs() -> dg.Definitions:
    """Build the definitions of a process that Dagster starts, as its environment configures it."""
    for warning in warnings_of(os.environ):
        dg.get_dagster_logger("tidemark").warning(warning)
    return build(Settings.read())
