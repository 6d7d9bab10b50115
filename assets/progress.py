"""From ``raw.*`` to ``progress.*``: one body per table, each a read, a pure function and a write.

Tables that only deep snapshots fill cost one look-up in the plan when the window has none.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pyarrow.compute as pc
from pyspark.sql import functions as F

from assets.metadata import described, key_of, written
from assets.partitions import ON_WINDOWS
from assets.plan_frames import (
    counter_windows_frame,
    nearest_frame,
    observations_frame,
    sources_frame,
    steps_frame,
    unreachable_frame,
)
from assets.resources import ClientMachineResource, HealthResource
from assets.run import CurrentRun, Run, planned, replaced, window_asset
from assets.windows import (
    read_evidence,
    read_hours,
    read_only,
    read_raw,
    read_snapshots,
    read_valid,
    read_window,
)
from lake.conditions import all_of, one_of, window_filter
from lake.hidden_queues import read_quarantine, united
from lake.history import window_of
from lake.hour_before import observed_an_hour_before
from lake.hourly_peaks import replace_peaks
from lake.observation_steps import with_lacking
from lake.tables import progress, quality, raw
from lake.window import Window, floor_hour
from spark.progress.assignments import HISTORY, assignments
from spark.progress.capacity import MEASURED, PEAK, capacity
from spark.progress.client_events import client_events
from spark.progress.events import events
from spark.progress.groups import groups
from spark.progress.health import with_health
from spark.progress.idle_clients import idle_clients
from spark.progress.popped import Witnesses
from spark.progress.queues import queues
from spark.progress.slave_reads import HISTORY as SLAVE_HISTORY
from spark.progress.slave_reads import slave_read_events
from spark.progress.subscriptions import subscriptions
from spark.progress.throughput import throughput
from spark.progress.timeline import timeline
from spark.progress.topic_events import topic_events
from spark.progress.topics import topics


@window_asset(progress.TIMELINE, raw.QUEUE_OFFSETS, raw.BROKERS, quality.QUARANTINE)
def progress_timeline(run: CurrentRun) -> dg.MaterializeResult:
    """Keep how queues grew, for as long as messages are dated by it."""
    plan = run.plan
    offsets = read_valid(run.session, raw.QUEUE_OFFSETS, plan, plan.previous)
    brokers = read_snapshots(run.session, raw.BROKERS, plan, plan.previous)
    sources = sources_frame(run.session, plan)
    computed_steps = timeline(offsets, plan.window, sources, brokers)
    return replaced(run, progress.TIMELINE, computed_steps)


@window_asset(
    progress.QUEUES,
    *(raw.SNAPSHOTS, raw.BROKERS, raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS, progress.TIMELINE),
    *(raw.TOPICS, raw.CLIENTS, raw.CONSUMER_GROUPS, raw.BROKER_STATS, quality.QUARANTINE),
)
def progress_queues(run: CurrentRun) -> dg.MaterializeResult:
    """Compute every queue of every group."""
    plan = run.plan
    measured = (raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS)
    rows = read_raw(run.session, plan, plan.previous, valid=measured)
    before = read_hours(run.session, progress.TIMELINE, plan.dated)
    sources = sources_frame(run.session, plan)
    nearest = nearest_frame(run.session, plan)
    counted = None
    if plan.has_rows(raw.BROKER_STATS):
        counted = read_valid(run.session, raw.BROKER_STATS, plan)
    computed_queues = queues(
        rows,
        plan.window,
        plan.settings,
        before,
        sources,
        nearest,
        counted,
        plan.system_topics,
        earlier=read_only(run.session, progress.QUEUES, plan, plan.previous),
    )
    return replaced(run, progress.QUEUES, computed_queues)


@window_asset(
    progress.GROUPS,
    *(progress.QUEUES, progress.THROUGHPUT),
    *(raw.SNAPSHOTS, raw.CLIENTS, raw.TOPICS, raw.QUEUE_TAGS, raw.CLIENT_QUEUES),
    raw.CONSUMER_GROUPS,
    raw.BROKER_METRICS,
)
def progress_groups(
    context: dg.AssetExecutionContext, run: CurrentRun, health: HealthResource
) -> dg.MaterializeResult:
    """Compute every group on every topic, with its health and its unknown facts."""
    plan, session = run.plan, run.session
    overrides, mistakes = health.thresholds()
    for mistake in mistakes:
        context.log.error(f"left out: {mistake}")
    rows = read_raw(session, plan, plan.last_known, valid=[raw.QUEUE_OFFSETS])
    listed = committed = None
    if plan.suspects & {raw.QUEUE_OFFSETS.name, raw.CONSUMER_OFFSETS.name}:
        listed = read_snapshots(session, raw.QUEUE_OFFSETS, plan, plan.last_known)
    else:
        # progress.queues holds each row of the window: only unreachable brokers are missing.
        committed = rows.consumer_offsets
        missing = read_only(session, raw.CONSUMER_OFFSETS, plan, plan.last_known)
        rows = dataclasses.replace(rows, consumer_offsets=missing)
    computed_groups = groups(
        read_snapshots(session, progress.QUEUES, plan),
        rows,
        unreachable_frame(session, plan.unreachable),
        plan.window,
        read_evidence(session, run.lake, plan),
        listed=listed,
        system_topics=plan.system_topics,
        committed=committed,
        witnesses=_witnesses(run),
    )
    with_states = with_health(
        computed_groups,
        read_only(session, progress.GROUPS, plan, plan.recent),
        read_snapshots(session, progress.QUEUES, plan, plan.recent),
        read_valid(session, raw.CLIENT_QUEUES, plan, plan.recent),
        observations_frame(session, plan.observations),
        plan.window,
        overrides=overrides,
    )
    return replaced(run, progress.GROUPS, with_states, lambda: _newest_totals(run))


def _witnesses(run: Run) -> Witnesses:
    """Return the sources of messages in flight besides offsets that have rows in the window."""
    plan, session = run.plan, run.session
    metrics, reports = (
        read_valid(session, table, plan) if plan.has_rows(table) else None
        for table in (raw.BROKER_METRICS, raw.CLIENT_QUEUES)
    )
    return Witnesses(metrics, reports)


def _newest_totals(run: Run) -> dict[str, Any]:
    """Return total lag and worst delay of each cluster's newest snapshot, for plots in the UI."""
    of_cluster = {each.cluster: each for each in run.plan.snapshots if each.is_of_groups}
    newest = sorted(of_cluster.values(), key=lambda each: each.observed_at)
    if not newest:
        return {}
    # Only these rows are read: a window may hold a day of them.
    where = all_of(
        window_filter(progress.GROUPS, window_of(newest)),
        one_of("snapshot_id", (each.snapshot_id for each in newest)),
    )
    found = run.lake.read(progress.GROUPS, where, columns=("lag", "delay_ms", "complete"))
    total, worst, complete = (
        of_column(found[name]).as_py()
        for of_column, name in (
            (pc.sum, "lag"),  # pyright: ignore
            (pc.max, "delay_ms"),  # pyright: ignore
            (pc.sum, "complete"),  # pyright: ignore
        )
    )
    return {
        "total_lag": total,
        "worst_delay_ms": worst,
        "incomplete_groups": found.num_rows - (complete or 0),
    }


@window_asset(
    progress.TOPICS,
    *(raw.SNAPSHOTS, raw.BROKERS, raw.QUEUE_OFFSETS, raw.TOPICS, raw.TOPIC_METRICS),
    progress.TIMELINE,
)
def progress_topics(run: CurrentRun) -> dg.MaterializeResult:
    """Compute every topic: its messages, unreadable messages, and rate of production."""
    plan, session = run.plan, run.session
    earlier = {*plan.previous, *plan.last_known}
    listed = None
    if raw.QUEUE_OFFSETS.name in plan.suspects:
        listed = read_snapshots(session, raw.QUEUE_OFFSETS, plan)
    before = observed_an_hour_before(plan.known, plan.window, plan.settings.longest_gap)
    computed_topics = topics(
        read_raw(session, plan, earlier, valid=[raw.QUEUE_OFFSETS, raw.TOPICS]),
        listed,
        read_hours(session, progress.TIMELINE, Window(plan.dated.start, plan.window.end)),
        session.createDataFrame(list(before), "snapshot_id string, broker string"),
        unreachable_frame(session, plan.unreachable),
        plan.window,
        plan.settings,
        sources_frame(session, plan),
        plan.system_topics,
        read_valid(session, raw.TOPIC_METRICS, plan) if plan.has_rows(raw.TOPIC_METRICS) else None,
    )
    return replaced(run, progress.TOPICS, computed_topics)


@window_asset(
    progress.THROUGHPUT,
    *(raw.SNAPSHOTS, raw.BROKERS, raw.BROKER_STATS, raw.QUEUE_OFFSETS, progress.QUEUES),
)
def progress_throughput(run: CurrentRun) -> dg.MaterializeResult:
    """Add up counters of replicas, next to the rates of our own offsets."""
    plan = run.plan
    if not plan.has_rows(raw.BROKER_STATS):
        return replaced(run, progress.THROUGHPUT, None)
    session, earlier = run.session, plan.around_counter_windows
    computed_throughput = throughput(
        read_valid(session, raw.BROKER_STATS, plan),
        read_valid(session, raw.QUEUE_OFFSETS, plan, earlier),
        read_snapshots(session, progress.QUEUES, plan, earlier),
        counter_windows_frame(session, plan.counter_windows),
        read_valid(session, raw.BROKERS, plan),
        plan.window,
    )
    return replaced(run, progress.THROUGHPUT, computed_throughput)


@window_asset(progress.PEAKS, progress.GROUPS)
def progress_peaks(run: CurrentRun) -> dg.MaterializeResult:
    """Keep the largest rate of production of each hour; capacity is planned for that of a week."""
    window = run.plan.window
    rows = replace_peaks(run.lake, window)
    return dg.MaterializeResult(metadata=written(rows, window.whole_hours()))


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
        return replaced(run, progress.CAPACITY, None)
    overrides, mistakes = client_machine.overrides()
    for mistake in mistakes:
        context.log.error(f"left out: {mistake}")
    session, hour = run.session, floor_hour(plan.window.start)
    computed_capacity = capacity(
        read_valid(session, raw.CLIENTS, plan),
        read_valid(session, raw.CLIENT_TOPICS, plan, plan.before(MEASURED)),
        read_valid(session, raw.CLIENT_QUEUES, plan),
        read_hours(session, progress.GROUPS, Window(hour, plan.window.end)),
        read_window(session, progress.PEAKS, Window(hour - PEAK, hour)),
        plan.window,
        client_machine.machine(),
        overrides,
        client_machine.sizing(),
    )
    return replaced(run, progress.CAPACITY, computed_capacity)


@window_asset(
    progress.EVENTS,
    *(progress.QUEUES, progress.GROUPS, progress.ASSIGNMENTS, quality.QUARANTINE),
    *(raw.SNAPSHOTS, raw.CLIENTS, raw.CLIENT_QUEUES, raw.BROKERS, raw.BROKER_STATS),
    *(raw.TOPICS, raw.QUEUE_OFFSETS),
)
def progress_events(run: CurrentRun) -> dg.MaterializeResult:
    """Compute the events of queues and brokers, each transition once."""
    plan, session, earlier = run.plan, run.session, run.plan.before_steps
    # The run itself has just quarantined rows of the window.
    quarantined = read_quarantine(run.lake, plan.window, plan.decisions)
    hidden = united(plan.quarantined.hidden, quarantined.hidden)
    queue_rows = read_snapshots(session, progress.QUEUES, plan, earlier)
    computed_events = events(
        queue_rows,
        read_snapshots(session, progress.GROUPS, plan, earlier),
        read_valid(session, raw.CLIENTS, plan, earlier),
        read_valid(session, raw.BROKERS, plan, earlier),
        read_valid(session, raw.BROKER_STATS, plan),
        steps_frame(session, with_lacking(plan.steps, hidden)),
    )
    of_topics = topic_events(
        read_valid(session, raw.TOPICS, plan, earlier),
        read_valid(session, raw.QUEUE_OFFSETS, plan, earlier),
        steps_frame(session, plan.steps),
        plan.system_topics,
    )
    computed_events = computed_events.unionByName(of_topics)
    if plan.has_rows(raw.CLIENT_QUEUES):
        reported = plan.before(HISTORY)
        of_clients = client_events(
            read_snapshots(session, progress.ASSIGNMENTS, plan, reported),
            read_valid(session, raw.CLIENT_QUEUES, plan, reported),
            read_valid(session, raw.CLIENTS, plan, reported),
            queue_rows,
            plan.window,
            plan.system_topics,
        )
        computed_events = computed_events.unionByName(of_clients)
    if plan.has_rows(raw.BROKER_STATS):
        logs = [each.snapshot_id for each in plan.known if not each.is_of_groups]
        counters = read_valid(session, raw.BROKER_STATS, plan, plan.before(SLAVE_HISTORY))
        of_slaves = slave_read_events(
            counters.where(~F.col("snapshot_id").isin(logs)) if logs else counters,
            read_valid(session, raw.BROKERS, plan),
            queue_rows,
            plan.window,
        )
        computed_events = computed_events.unionByName(of_slaves)
    return replaced(run, progress.EVENTS, computed_events)


_OF_MEMBERS = (progress.ASSIGNMENTS, progress.IDLE_CLIENTS, progress.SUBSCRIPTIONS)

_MEMBERS = (raw.SNAPSHOTS, raw.CLIENTS)
"""The tables that each of these is computed from. Dagster 1.13 refuses to start a backfill of all
assets where one asset of a step has a single parent and another has several."""


@dg.multi_asset(
    name="members",
    specs=[
        dg.AssetSpec(
            **described(progress.ASSIGNMENTS),
            deps=[key_of(table) for table in (*_MEMBERS, raw.CLIENT_QUEUES, raw.TOPICS)],
        ),
        dg.AssetSpec(
            **described(progress.IDLE_CLIENTS),
            deps=[key_of(table) for table in (progress.ASSIGNMENTS, *_MEMBERS)],
        ),
        dg.AssetSpec(
            **described(progress.SUBSCRIPTIONS), deps=[key_of(table) for table in _MEMBERS]
        ),
    ],
    **ON_WINDOWS,
)
@planned
def members(run: CurrentRun) -> Iterator[dg.MaterializeResult]:
    """Compute what only members report: who holds which queue, and who subscribes to what."""
    if not _members_reported(run):
        for table in _OF_MEMBERS:
            yield replaced(run, table, None)
        run.has_computed(*_OF_MEMBERS)
        return
    plan, session = run.plan, run.session
    clients = read_valid(session, raw.CLIENTS, plan)
    client_queues = read_valid(session, raw.CLIENT_QUEUES, plan, plan.before(HISTORY))
    configured = read_valid(session, raw.TOPICS, plan)
    assigned = assignments(clients, client_queues, configured, plan.window, plan.system_topics)
    yield replaced(run, progress.ASSIGNMENTS, assigned)
    assigned = read_snapshots(session, progress.ASSIGNMENTS, plan)
    idle = idle_clients(assigned, clients, plan.window, plan.system_topics)
    yield replaced(run, progress.IDLE_CLIENTS, idle)
    yield replaced(run, progress.SUBSCRIPTIONS, subscriptions(clients, plan.window))
    run.has_computed(*_OF_MEMBERS)


def _members_reported(run: Run) -> bool:
    """Return whether a member reported queues or subscriptions in the window."""
    plan = run.plan
    if plan.has_rows(raw.CLIENT_QUEUES):
        return True
    if not plan.has_rows(raw.CLIENTS):
        return False
    by_client = one_of("subscriptions_source", ["client"])
    where = all_of(window_filter(raw.CLIENTS, plan.window), by_client)
    return run.lake.read(raw.CLIENTS, where, columns=("snapshot_id",), limit=1).num_rows > 0
