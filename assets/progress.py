"""From ``raw.*`` to ``progress.*``: one body per table, each a read, a pure function and a write.

Tables that only deep snapshots fill cost one look-up in the plan when the window has none. The last
step of a run marks its snapshots as computed, so that later ticks skip them.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pyarrow.compute as pc
from pyspark.sql import functions as F

from assets.dagster_names import own_keys
from assets.metadata import code_version, described, written
from assets.partitions import ON_WINDOWS, PARTITION, is_tick, partition_key
from assets.reader import read_windows
from assets.resources import ClientMachineResource, HealthResource, ObjectivesResource
from assets.run import CurrentRun, Run, window_asset
from spark.progress.assignments import HISTORY, assignments, idle_clients
from spark.progress.baselines import baselines
from spark.progress.capacity import MEASURED, PEAK, capacity
from spark.progress.client_events import client_events
from spark.progress.events import events, topic_events
from spark.progress.groups import groups
from spark.progress.health import with_health
from spark.progress.popped import Witnesses
from spark.progress.queues import queues
from spark.progress.subscriptions import subscriptions
from spark.progress.throughput import SLAVE_HISTORY, slave_read_events, throughput
from spark.progress.timeline import timeline
from spark.progress.topics import topics
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.schema import all_of, one_of, window_filter
from tidemark.lake.tables import alerting, progress, quality, raw
from tidemark.planning.history import computed_ids, window_of
from tidemark.planning.hours_of_week import (
    compared_with,
    has_history,
    lacking_baselines,
    replace_peaks,
)
from tidemark.planning.lacking_parts import united
from tidemark.planning.objectives import replace_objectives
from tidemark.planning.observation_steps import with_lacking
from tidemark.planning.run_plan import RunPlan


@window_asset(progress.TIMELINE, raw.QUEUE_OFFSETS, raw.BROKERS, quality.QUARANTINE)
def progress_timeline(run: CurrentRun) -> dg.MaterializeResult:
    """Keep how queues grew, for as long as messages are dated by it."""
    plan, reader = run.plan, run.reader
    computed_steps = timeline(
        reader.valid(raw.QUEUE_OFFSETS, plan.previous),
        plan.window,
        reader.sources(),
        reader.rows(raw.BROKERS, plan.previous),
    )
    return run.replace(progress.TIMELINE, computed_steps)


@window_asset(
    progress.QUEUES,
    *(raw.SNAPSHOTS, raw.BROKERS, raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS, progress.TIMELINE),
    *(raw.TOPICS, raw.CLIENTS, raw.CONSUMER_GROUPS, raw.BROKER_STATS, quality.QUARANTINE),
)
def progress_queues(run: CurrentRun) -> dg.MaterializeResult:
    """Compute every queue of every group."""
    plan, reader = run.plan, run.reader
    computed_queues = queues(
        reader.raw(plan.previous, valid=(raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS)),
        plan.window,
        plan.settings,
        reader.hours(progress.TIMELINE, plan.dated),
        reader.sources(),
        reader.nearest(),
        reader.valid_if_any(raw.BROKER_STATS),
        plan.system_topics,
        earlier=reader.only(progress.QUEUES, plan.previous),
    )
    return run.replace(progress.QUEUES, computed_queues)


@window_asset(
    progress.GROUPS,
    *(progress.QUEUES, progress.THROUGHPUT),
    *(raw.SNAPSHOTS, raw.BROKERS, raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS, raw.CLIENTS),
    *(raw.TOPICS, raw.QUEUE_TAGS, raw.CLIENT_QUEUES, raw.CONSUMER_GROUPS, raw.BROKER_METRICS),
)
def progress_groups(
    context: dg.AssetExecutionContext, run: CurrentRun, health: HealthResource
) -> dg.MaterializeResult:
    """Compute every group on every topic, with its health and its unknown facts."""
    plan, reader = run.plan, run.reader
    overrides, mistakes = health.thresholds()
    for mistake in mistakes:
        context.log.error(f"left out: {mistake}")
    rows = reader.raw(plan.last_known, valid=[raw.QUEUE_OFFSETS])
    listed = committed = None
    if reader.validation.suspects & {raw.QUEUE_OFFSETS.name, raw.CONSUMER_OFFSETS.name}:
        listed = reader.rows(raw.QUEUE_OFFSETS, plan.last_known)
    else:
        # progress.queues holds each row of the window: only unreachable brokers are missing.
        committed = rows.consumer_offsets
        missing = reader.only(raw.CONSUMER_OFFSETS, plan.last_known)
        rows = dataclasses.replace(rows, consumer_offsets=missing)
    computed_groups = groups(
        reader.rows(progress.QUEUES),
        rows,
        reader.unreachable(),
        plan.window,
        reader.evidence(),
        listed=listed,
        system_topics=plan.system_topics,
        committed=committed,
        witnesses=Witnesses(
            reader.valid_if_any(raw.BROKER_METRICS), reader.valid_if_any(raw.CLIENT_QUEUES)
        ),
    )
    with_states = with_health(
        computed_groups,
        reader.only(progress.GROUPS, plan.recent),
        reader.rows(progress.QUEUES, plan.recent),
        reader.valid(raw.CLIENT_QUEUES, plan.recent),
        reader.observations(),
        plan.window,
        overrides=overrides,
    )
    return run.replace(progress.GROUPS, with_states, lambda: _newest_totals(run))


def _newest_totals(run: Run) -> dict[str, Any]:
    """Return total lag and worst delay of each cluster's newest snapshot, for plots in the UI."""
    of_cluster = {
        loaded_snapshot.cluster: loaded_snapshot
        for loaded_snapshot in run.plan.snapshots
        if loaded_snapshot.is_of_groups
    }
    newest = sorted(of_cluster.values(), key=lambda loaded_snapshot: loaded_snapshot.observed_at)
    if not newest:
        return {}
    # Only these rows are read: a window may hold a day of them.
    where = all_of(
        window_filter(progress.GROUPS, window_of(newest)),
        one_of("snapshot_id", (loaded_snapshot.snapshot_id for loaded_snapshot in newest)),
    )
    result = run.lake.read(progress.GROUPS, where, columns=("lag", "delay_ms", "complete"))
    total, worst, complete = (
        of_column(result[name]).as_py()
        for of_column, name in (
            (pc.sum, "lag"),
            (pc.max, "delay_ms"),
            (pc.sum, "complete"),
        )
    )
    return {
        "total_lag": total,
        "worst_delay_ms": worst,
        "incomplete_groups": result.num_rows - (complete or 0),
    }


@window_asset(
    progress.TOPICS,
    *(raw.SNAPSHOTS, raw.BROKERS, raw.QUEUE_OFFSETS, raw.TOPICS, raw.TOPIC_METRICS),
    progress.TIMELINE,
)
def progress_topics(run: CurrentRun) -> dg.MaterializeResult:
    """Compute every topic: its messages, unreadable messages, and rate of production."""
    plan, reader = run.plan, run.reader
    are_suspect = raw.QUEUE_OFFSETS.name in reader.validation.suspects
    computed_topics = topics(
        reader.raw({*plan.previous, *plan.last_known}, valid=[raw.QUEUE_OFFSETS, raw.TOPICS]),
        reader.rows(raw.QUEUE_OFFSETS) if are_suspect else None,
        reader.hours(progress.TIMELINE, Window(plan.dated.start, plan.window.end)),
        reader.observed_an_hour_before(),
        reader.unreachable(),
        plan.window,
        plan.settings,
        reader.sources(),
        plan.system_topics,
        reader.valid_if_any(raw.TOPIC_METRICS),
    )
    return run.replace(progress.TOPICS, computed_topics)


@window_asset(
    progress.THROUGHPUT,
    *(raw.SNAPSHOTS, raw.BROKERS, raw.BROKER_STATS, raw.QUEUE_OFFSETS, progress.QUEUES),
)
def progress_throughput(run: CurrentRun) -> dg.MaterializeResult:
    """Add up counters of replicas, next to the rates of our own offsets."""
    plan = run.plan
    if not plan.has_rows(raw.BROKER_STATS):
        return run.replace(progress.THROUGHPUT, None)
    reader, earlier = run.reader, plan.around_counter_windows
    computed_throughput = throughput(
        reader.valid(raw.BROKER_STATS),
        reader.valid(raw.QUEUE_OFFSETS, earlier),
        reader.rows(progress.QUEUES, earlier),
        reader.counter_windows(),
        reader.valid(raw.BROKERS),
        plan.window,
    )
    return run.replace(progress.THROUGHPUT, computed_throughput)


@window_asset(progress.PEAKS, progress.GROUPS)
def progress_peaks(run: CurrentRun) -> dg.MaterializeResult:
    """Keep the largest rate of production of each hour; capacity is planned for that of a week."""
    window = run.plan.window
    rows = replace_peaks(run.lake, window)
    return dg.MaterializeResult(metadata=written(rows, window.whole_hours()))


@window_asset(progress.OBJECTIVES, progress.GROUPS)
def progress_objectives(
    context: dg.AssetExecutionContext, run: CurrentRun, objectives: ObjectivesResource
) -> dg.MaterializeResult:
    """Count the minutes of each objective by hour, and what is left of its error budget."""
    declared, mistakes = objectives.declared()
    for mistake in mistakes:
        context.log.error(f"left out: {mistake}")
    window = run.plan.window
    rows = replace_objectives(run.lake, window, declared)
    return dg.MaterializeResult(metadata=written(rows, window.whole_hours()))


@window_asset(progress.BASELINES, progress.GROUPS)
def progress_baselines(context: dg.AssetExecutionContext, run: CurrentRun) -> dg.MaterializeResult:
    """Compute the usual values of each hour from the weeks before, once an hour.

    They do not depend on the hour itself, so all ticks but the first of an hour write nothing.
    """
    hours = run.plan.window.whole_hours()
    if is_tick(context.run.tags):
        hours = lacking_baselines(run.lake, hours)
    if hours.empty:
        return dg.MaterializeResult(metadata=written(0, hours))
    compared = compared_with(hours)
    if not has_history(run.lake, compared):
        return run.replace(progress.BASELINES, None, window=hours)
    groups = read_windows(run.session, progress.GROUPS, *compared)
    return run.replace(progress.BASELINES, baselines(groups, hours), window=hours)


@window_asset(
    progress.CAPACITY,
    *(raw.CLIENTS, raw.CLIENT_TOPICS, raw.CLIENT_QUEUES, progress.GROUPS, progress.PEAKS),
)
def progress_capacity(
    context: dg.AssetExecutionContext, run: CurrentRun, client_machine: ClientMachineResource
) -> dg.MaterializeResult:
    """Compute the capacity of a group's members, and the members that the peak needs."""
    plan = run.plan
    if not plan.has_rows(raw.CLIENT_TOPICS):
        return run.replace(progress.CAPACITY, None)
    overrides, mistakes = client_machine.overrides()
    for mistake in mistakes:
        context.log.error(f"left out: {mistake}")
    reader, hour = run.reader, floor_hour(plan.window.start)
    computed_capacity = capacity(
        reader.valid(raw.CLIENTS),
        reader.valid(raw.CLIENT_TOPICS, plan.before(MEASURED)),
        reader.valid(raw.CLIENT_QUEUES),
        reader.hours(progress.GROUPS, Window(hour, plan.window.end)),
        reader.hours(progress.PEAKS, Window(hour - PEAK, hour)),
        plan.window,
        client_machine.machine(),
        overrides,
        client_machine.sizing(),
    )
    return run.replace(progress.CAPACITY, computed_capacity)


@window_asset(
    progress.EVENTS,
    *(progress.QUEUES, progress.GROUPS, progress.ASSIGNMENTS, quality.QUARANTINE),
    *(raw.SNAPSHOTS, raw.CLIENTS, raw.CLIENT_QUEUES, raw.BROKERS, raw.BROKER_STATS),
    *(raw.TOPICS, raw.QUEUE_OFFSETS),
)
def progress_events(run: CurrentRun) -> dg.MaterializeResult:
    """Compute the events of queues and brokers, each transition once."""
    plan, reader, earlier = run.plan, run.reader, run.plan.before_steps
    hidden = united(plan.quarantined.hidden, reader.validation.hidden)
    queue_rows = reader.rows(progress.QUEUES, earlier)
    computed_events = events(
        queue_rows,
        reader.rows(progress.GROUPS, earlier),
        reader.valid(raw.CLIENTS, earlier),
        reader.valid(raw.BROKERS, earlier),
        reader.valid(raw.BROKER_STATS),
        reader.steps(with_lacking(plan.steps, hidden)),
    )
    of_topics = topic_events(
        reader.valid(raw.TOPICS, earlier),
        reader.valid(raw.QUEUE_OFFSETS, earlier),
        reader.steps(plan.steps),
        plan.system_topics,
    )
    computed_events = computed_events.unionByName(of_topics)
    if plan.has_rows(raw.CLIENT_QUEUES):
        reported = plan.before(HISTORY)
        of_clients = client_events(
            reader.rows(progress.ASSIGNMENTS, reported),
            reader.valid(raw.CLIENT_QUEUES, reported),
            reader.valid(raw.CLIENTS, reported),
            queue_rows,
            plan.window,
            plan.system_topics,
        )
        computed_events = computed_events.unionByName(of_clients)
    if plan.has_rows(raw.BROKER_STATS):
        logs = [snapshot.snapshot_id for snapshot in plan.known if not snapshot.is_of_groups]
        counters = reader.valid(raw.BROKER_STATS, plan.before(SLAVE_HISTORY))
        of_slaves = slave_read_events(
            counters.where(~F.col("snapshot_id").isin(logs)) if logs else counters,
            reader.valid(raw.BROKERS),
            queue_rows,
            plan.window,
        )
        computed_events = computed_events.unionByName(of_slaves)
    return run.replace(progress.EVENTS, computed_events)


_MEMBERS = (raw.SNAPSHOTS, raw.CLIENTS, quality.QUARANTINE)
"""The tables that each of these is computed from. Dagster 1.13 refuses to start a backfill of all
assets where one asset of a step has a single parent and another has several."""


@dg.multi_asset(
    name="members",
    specs=[
        dg.AssetSpec(
            **described(progress.ASSIGNMENTS, *_MEMBERS, raw.CLIENT_QUEUES, raw.TOPICS),
            code_version=code_version(progress.ASSIGNMENTS, assignments),
        ),
        dg.AssetSpec(
            **described(progress.IDLE_CLIENTS, progress.ASSIGNMENTS, *_MEMBERS),
            code_version=code_version(progress.IDLE_CLIENTS, idle_clients),
        ),
        dg.AssetSpec(
            **described(progress.SUBSCRIPTIONS, *_MEMBERS),
            code_version=code_version(progress.SUBSCRIPTIONS, subscriptions),
        ),
    ],
    **ON_WINDOWS,
)
@own_keys
def members(run: CurrentRun) -> Iterator[dg.MaterializeResult]:
    """Compute what only members report: who holds which queue, and who subscribes to what."""
    plan = run.plan
    if not plan.members_reported:
        for table in (progress.ASSIGNMENTS, progress.IDLE_CLIENTS, progress.SUBSCRIPTIONS):
            yield run.replace(table, None)
        return
    reader = run.reader
    clients = reader.valid(raw.CLIENTS)
    assigned = assignments(
        clients,
        reader.valid(raw.CLIENT_QUEUES, plan.before(HISTORY)),
        reader.valid(raw.TOPICS),
        plan.window,
        plan.system_topics,
    )
    yield run.replace(progress.ASSIGNMENTS, assigned)
    idle = idle_clients(reader.rows(progress.ASSIGNMENTS), clients, plan.window, plan.system_topics)
    yield run.replace(progress.IDLE_CLIENTS, idle)
    yield run.replace(progress.SUBSCRIPTIONS, subscriptions(clients, plan.window))


COMPUTED = (
    quality.QUARANTINE,
    *(table for table in progress.ALL if table is not progress.SNAPSHOTS),
    alerting.ALERTS,
    alerting.INCIDENTS,
)
"""The tables that hold the numbers of a computed snapshot."""


@window_asset(
    progress.SNAPSHOTS,
    *(alerting.INCIDENTS, progress.ASSIGNMENTS, progress.IDLE_CLIENTS, progress.SUBSCRIPTIONS),
    *(progress.CAPACITY, progress.EVENTS, progress.TOPICS, progress.OBJECTIVES),
)
def computed(context: dg.AssetExecutionContext, run: CurrentRun) -> dg.MaterializeResult:
    """Mark the window's snapshots as computed; the next tick repeats a run that dies before.

    It is the last step, so every other step has computed the marked snapshots. Here Dagster also
    learns the other hours of a tick that caught up. A run without some of these steps marks
    nothing, because no later tick would compute the parts that it left out.
    """
    if lacking := run.lacks(COMPUTED):
        return _nothing_marked(context, run, lacking)
    rows = [
        {
            "snapshot_id": snapshot.snapshot_id,
            "observed_at": snapshot.observed_at,
            "cluster": snapshot.cluster,
        }
        for snapshot in run.plan.snapshots
    ]
    run.lake.upsert(progress.SNAPSHOTS, rows)
    for event in caught_up(context, run.plan):
        context.log_event(event)
    return dg.MaterializeResult(metadata=written(len(rows), run.plan.window))


def _nothing_marked(
    context: dg.AssetExecutionContext, run: Run, lacking: list[str]
) -> dg.MaterializeResult:
    window, ids = run.plan.window, set(run.plan.snapshot_ids)
    marked = ids & computed_ids(run.lake, window)
    pending = len(ids - marked)
    if pending:
        context.log.warning(
            f"{pending} snapshots stay pending, and the next tick computes them: this run computed "
            f"only some tables, without {', '.join(lacking)}"
        )
    return dg.MaterializeResult(metadata=written(len(marked), window, pending=pending))


def caught_up(
    context: dg.AssetExecutionContext, plan: RunPlan
) -> Iterator[dg.AssetMaterialization]:
    """Yield a materialization of each table and hour of a tick that is not the tick's own hour.

    Dagster records a run under the partitions with which it was started, but a tick learns its
    hours only by loading. Without these records the other hours would stay missing in Dagster. An
    hour counts when the tick computed a snapshot of it.

    Args:
        context: of the last step of the run.
        plan: the plan of the run.
    """
    if not is_tick(context.run.tags):
        return
    own = context.run.tags.get(PARTITION)
    hours = sorted({floor_hour(snapshot.observed_at) for snapshot in plan.snapshots})
    layer = context.job_def.asset_layer
    keys = [
        key
        for key in sorted(layer.executable_asset_keys)
        if layer.get(key).partitions_def is not None
    ]
    for hour in hours:
        if (partition := partition_key(hour)) == own:
            continue
        window = Window(max(hour, plan.window.start), min(hour + HOUR, plan.window.end))
        metadata = {
            "window_start": window.start.isoformat(),
            "window_end": window.end.isoformat(),
        }
        for key in keys:
            yield dg.AssetMaterialization(key, partition=partition, metadata=metadata)
