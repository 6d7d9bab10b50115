"""Everything Dagster loads."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.alerting import alerts, incidents, notifications
from assets.audit import audit, data_docs
from assets.checks import CHECKS, results
from assets.collecting import landing, raw_tables
from assets.computing import (
    computed,
    decisions,
    progress_groups,
    progress_queues,
    progress_timeline,
    quarantine,
)
from assets.flows import progress_capacity, progress_throughput
from assets.happening import progress_events
from assets.maintenance import maintenance
from assets.members import members
from orchestration.jobs import (
    AUDIT,
    MAINTAIN,
    RECOMPUTE,
    TICK,
    audit_every_hour,
    every_minute,
    maintain_every_hour,
)
from orchestration.resources import resources
from orchestration.sensors import notify, watch

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
    data_docs,
    progress_timeline,
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
        assets=[*ASSETS, decisions, notifications],
        asset_checks=[*CHECKS, audit],
        jobs=[TICK, RECOMPUTE, MAINTAIN, AUDIT],
        schedules=[every_minute, maintain_every_hour, audit_every_hour],
        sensors=[notify, watch],
        resources=resources() | overrides,
        loggers=loggers,
        executor=dg.in_process_executor,
    )


defs = build()
