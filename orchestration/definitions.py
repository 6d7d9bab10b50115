"""Everything Dagster loads."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.alerting import alerts, incidents, notifications
from assets.checks import CHECKS, results
from assets.collecting import landing, raw_tables
from assets.computing import computed, progress_groups, progress_queues, quarantine
from assets.members import members
from orchestration.jobs import RECOMPUTE, TICK, every_minute
from orchestration.resources import resources
from orchestration.sensors import notify, watch

ASSETS: tuple[dg.AssetsDefinition, ...] = (
    landing,
    raw_tables,
    quarantine,
    progress_queues,
    progress_groups,
    members,
    alerts,
    incidents,
    computed,
    results,
)


def build(
    loggers: Mapping[str, dg.LoggerDefinition] | None = None, **overrides: Any
) -> dg.Definitions:
    """Fresh definitions.

    Args:
        loggers: where runs log to, instead of Dagster's console.
        overrides: resources to take instead of those the environment configures.
    """
    return dg.Definitions(
        assets=[*ASSETS, notifications],
        asset_checks=CHECKS,
        jobs=[TICK, RECOMPUTE],
        schedules=[every_minute],
        sensors=[notify, watch],
        resources=resources() | overrides,
        loggers=loggers,
        executor=dg.in_process_executor,
    )


defs = build()
