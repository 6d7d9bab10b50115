"""Parts of a run's plan as Spark frames."""

from collections.abc import Iterable
from dataclasses import astuple

from pyspark.sql import DataFrame, SparkSession

from lake.counter_windows import CounterWindow
from lake.history import LOCAL_OFFSETS
from lake.nearest_queues import nearest_queues
from lake.observation_steps import Step
from lake.recent_observations import Observation
from lake.run_plan import RunPlan
from lake.unreachable_brokers import UnreachableBroker


def unreachable_frame(session: SparkSession, brokers: Iterable[UnreachableBroker]) -> DataFrame:
    """Return unreachable brokers as rows, a column per field."""
    return session.createDataFrame(
        [astuple(broker) for broker in brokers],
        "snapshot_id string, broker string, last_snapshot_id string",
    )


def sources_frame(session: SparkSession, plan: RunPlan) -> DataFrame | None:
    """Return the sources of the snapshots that were not read from brokers; None where all were."""
    of_files = [
        (each.snapshot_id, each.source, each.staleness_ms)
        for each in plan.known
        if not each.is_of_all_brokers
    ]
    schema = "snapshot_id string, source string, staleness_ms bigint"
    return session.createDataFrame(of_files, schema) if of_files else None


def nearest_frame(session: SparkSession, plan: RunPlan) -> DataFrame | None:
    """Return where the queues of clients' files are read; None without a snapshot of such files."""
    if not any(each.source == LOCAL_OFFSETS for each in plan.snapshots):
        return None
    return session.createDataFrame(
        [astuple(each) for each in nearest_queues(plan.known, plan.window)],
        "snapshot_id string, broker string, nearest_id string",
    )


def observations_frame(session: SparkSession, observations: Iterable[Observation]) -> DataFrame:
    """Return observations as rows, a column per field."""
    return session.createDataFrame(
        [(each.snapshot_id, each.number, dict(each.counts_for)) for each in observations],
        "snapshot_id string, number bigint, counts_for map<string,int>",
    )


def steps_frame(session: SparkSession, steps: Iterable[Step]) -> DataFrame:
    """Return steps as rows, a column per field."""
    return session.createDataFrame(
        [tuple((vars(step) | {"lacking": list(step.lacking)}).values()) for step in steps],
        "snapshot_id string, observed_at timestamp, cluster string, broker string, "
        "previous_snapshot_id string, previous_at timestamp, lacking array<string>, down boolean",
    )


def counter_windows_frame(session: SparkSession, windows: Iterable[CounterWindow]) -> DataFrame:
    """Return counter windows as rows, a column per field."""
    return session.createDataFrame(
        [astuple(window) for window in windows],
        "snapshot_id string, broker string, stats_window string, before_id string, "
        "after_id string, share double",
    )
