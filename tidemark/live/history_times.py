"""Store times by our clock, and consume modes, that the history adds to a snapshot.

``progress.timeline`` dates messages by how queues grew; ``progress.queues`` keeps the store times
that snapshots have learned, as long as the message is the first unconsumed one, and the consume
modes of groups.

Iceberg is read without Spark, newest hours first, until every message is dated or the limits are
reached. The imports of this module are heavy: import it only for a home that has a history.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table as IcebergTable

from tidemark.lake.catalog import NAME
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.clocks import Window
from tidemark.lake.damaged_files import usable
from tidemark.lake.schema import Table, all_of, one_of, window_filter
from tidemark.lake.tables.progress import QUEUES, SNAPSHOTS, TIMELINE
from tidemark.live.broker_times import (
    GroupQueue,
    Observation,
    Step,
    StoreTime,
    StoreTimes,
    clock_errors,
    group_queue,
)
from tidemark.live.consume_modes import MODE_COLUMNS, Pair, remembered_modes
from tidemark.model.consumption import DelaySource
from tidemark.model.snapshots import SnapshotSource
from tidemark.rocketmq.consume_modes import REMEMBERED
from tidemark.rocketmq.deep.store_times import Unconsumed
from tidemark.rocketmq.records import Snapshot

AGES = tuple(timedelta(hours=hours) for hours in (0, 1, 6, 24, 72))
"""Ends of the spans before the snapshot that are read one after the other."""

MOST_TOPICS = 200
"""Topics that a scan filters by; with more, all topics of the cluster are read."""

KEPT = timedelta(hours=1)
"""Largest age of the newest computed snapshot whose store times count."""

_SNAPSHOT = ("snapshot_id", "observed_at")

_KEY = tuple(field.name for field in fields(GroupQueue))

_KEPT = (
    *_KEY,
    *("consumer_offset", "min_offset", "max_offset", "readable_lag"),
    *("consumer_at", "delay_source", "delay_error_ms"),
)

_COLUMNS = tuple(name for name in TIMELINE.column_names if name != "cluster")

_STEPS_OF_MESSAGES = f"""
SELECT
    number,
    max_by(step, step.observed_at) AS newest,
    max_by(step, step.observed_at) FILTER (
        step.max_offset > first AND (
            step.previous_max_offset IS NULL
            OR step.previous_max_offset > step.max_offset
            OR step.previous_max_offset <= first
        )
    ) AS holding,
    min_by(step, step.observed_at) FILTER (step.max_offset > first) AS oldest
FROM (
    SELECT number, first, {{
        max_offset: max_offset,
        observed_at: observed_at,
        newest_stored_at: newest_stored_at,
        previous_max_offset: previous_max_offset,
        previous_at: previous_at
    }} AS step
    FROM steps JOIN messages USING (broker, topic, queue_id)
    WHERE source IS NULL OR source = '{SnapshotSource.REMOTE}'
)
GROUP BY number
"""
"""For each message three steps of its queue: the newest, its newest holder, the oldest above.

A step that restarts a queue (a fall of ``max_offset``) contains all messages below its end.
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the cost of reading the history.

    Attributes:
        rows: rows of the timeline, as files hold them.
        seconds: time after which no further span is read.
    """

    rows: int = 1_500_000
    seconds: float = 0.8


LIMITS = Limits()


class _Message(NamedTuple):
    """A message to date: its offset, and the end of its queue in the snapshot."""

    item: Unconsumed
    first: int
    now: Observation


class _Found(NamedTuple):
    """Steps of a message's queue, as far as the history was read."""

    newest: dict[str, Any]
    holding: dict[str, Any] | None
    oldest: dict[str, Any] | None


def read(
    config: CatalogConfig,
    snapshot: Snapshot,
    wanted: Sequence[Unconsumed],
    limits: Limits = LIMITS,
) -> StoreTimes:
    """Date first unconsumed messages by the growth of their queues.

    Args:
        config: the configuration of the tables' catalog.
        snapshot: the observation after the history, by our clock.
        wanted: the queues of groups to date.
        limits: limits of the cost.

    Returns:
        A store time of each message whose queue is in the history; ``at_least`` where the message
        is older than the rows that were read.

    Raises:
        DamagedError: the tables cannot be read.
    """
    started = time.monotonic()
    catalog = load_catalog(NAME, **config.python)
    with usable(TIMELINE.name):
        if not catalog.table_exists(TIMELINE.name):
            return StoreTimes()
        table = catalog.load_table(TIMELINE.name)
    messages = [
        _Message(item, item.offsets.start, Observation(item.offsets.stop, snapshot.observed_at))
        for item in wanted
    ]
    mapping: dict[int, _Found] = {}
    rows = limits.rows
    for window in _windows(snapshot.observed_at):
        undated = [
            n for n, message in enumerate(messages) if _step(message, mapping.get(n)) is None
        ]
        if not undated or time.monotonic() - started > limits.seconds:
            break
        where = _filter(snapshot.cluster, window, [messages[number] for number in undated])
        steps = _steps(table, where, rows)
        if steps is None:
            break
        rows -= steps.num_rows
        _add(mapping, steps, messages, undated)
    times, errors = StoreTimes(), clock_errors(snapshot)
    for number, message in enumerate(messages):
        seen = mapping.get(number)
        step = _step(message, seen) or (_as_step(seen.oldest) if seen and seen.oldest else None)
        if step:
            found_at = step.store_time(message.first)
            if found_at.error_ms is not None:
                more = errors.get(message.item.row.broker, 0)
                found_at = replace(found_at, error_ms=found_at.error_ms + more)
            times.known[group_queue(message.item.row)] = found_at
    for key, kept in _kept(catalog, snapshot, wanted).items():
        times.known[key] = _better(kept, times.known.get(key))
    return times


def newest_computed(
    catalog: Catalog, table: Table, snapshot: Snapshot, within: timedelta
) -> BooleanExpression | None:
    """Return the condition of a cluster's newest computed snapshot; None where there is none.

    Args:
        catalog: of the tables.
        table: ``progress.queues``, or another with a row per snapshot.
        snapshot: the observation after the history.
        within: how much older it may be.
    """
    with usable(SNAPSHOTS.name):
        if not catalog.table_exists(table.name) or not catalog.table_exists(SNAPSHOTS.name):
            return None
        recent = Window(snapshot.observed_at - within, snapshot.observed_at)
        of_cluster = one_of("cluster", [snapshot.cluster])
        where = all_of(of_cluster, window_filter(SNAPSHOTS, recent))
        scan = catalog.load_table(SNAPSHOTS.name).scan(where, selected_fields=_SNAPSHOT)
        computed = max(scan.to_arrow().to_pylist(), key=itemgetter("observed_at"), default=None)
    if computed is None:
        return None
    instant = Window.through(computed["observed_at"], computed["observed_at"])
    return all_of(of_cluster, window_filter(table, instant))


def _kept(
    catalog: Catalog, snapshot: Snapshot, wanted: Sequence[Unconsumed]
) -> dict[GroupQueue, StoreTime]:
    """Return the store times that the newest computed snapshot has of these very messages."""
    where = newest_computed(catalog, QUEUES, snapshot, KEPT)
    if where is None:
        return {}
    topics = {item.row.topic for item in wanted}
    if len(topics) <= MOST_TOPICS:
        where = all_of(where, one_of("topic", topics))
    with usable(QUEUES.name):
        rows = catalog.load_table(QUEUES.name).scan(where, selected_fields=_KEPT).to_arrow()
    by_key = {GroupQueue(**{name: row[name] for name in _KEY}): row for row in rows.to_pylist()}
    store_times: dict[GroupQueue, StoreTime] = {}
    for item in wanted:
        row = by_key.get(group_queue(item.row))
        if row is None or not row["readable_lag"] or row["delay_source"] is None:
            continue
        is_same = max(row["consumer_offset"], row["min_offset"]) == item.offsets.start
        # A queue that is shorter now was created again.
        if is_same and row["max_offset"] <= item.offsets.stop:
            store_times[group_queue(item.row)] = StoreTime(
                row["consumer_at"], row["delay_source"], row["delay_error_ms"]
            )
    return store_times


def _better(kept: StoreTime, store_time: StoreTime | None) -> StoreTime:
    """Return the better of two store times; of two alike the one learned first, or the bound."""
    if store_time is None:
        return kept
    ranks = tuple(DelaySource)
    if kept.source == store_time.source == DelaySource.AT_LEAST:
        return min(kept, store_time, key=attrgetter("at"))
    return min(kept, store_time, key=lambda store_time: ranks.index(store_time.source))


def _windows(now: datetime) -> Iterator[Window]:
    for newer, older in pairwise(AGES):
        yield Window(now - older, now - newer)


def _filter(cluster: str, window: Window, messages: Sequence[_Message]) -> BooleanExpression:
    topics = {message.item.row.topic for message in messages}
    where = all_of(one_of("cluster", [cluster]), window_filter(TIMELINE, window))
    return all_of(where, one_of("topic", topics)) if len(topics) <= MOST_TOPICS else where


def _steps(table: IcebergTable, where: BooleanExpression, most: int) -> pa.Table | None:
    """Return the rows of the timeline, None where their files hold too many."""
    with usable(TIMELINE.name):
        # A table from before a column was declared gets it with the next tick.
        existing = [name for name in _COLUMNS if name in table.schema().column_names]
        scan = table.scan(row_filter=where, selected_fields=tuple(existing))
        if sum(task.file.record_count for task in scan.plan_files()) > most:
            return None
        arrow = scan.to_arrow()
    for name in set(_COLUMNS) - {*existing}:
        arrow = arrow.append_column(name, pa.nulls(len(arrow), pa.string()))
    return arrow


def _add(
    mapping: dict[int, _Found],
    steps: pa.Table,
    messages: Sequence[_Message],
    undated: Sequence[int],
) -> None:
    """Add the steps of an older span, without replacing those of a newer span."""
    items = [messages[number] for number in undated]
    wanted = pa.table(
        {
            "number": pa.array(undated, pa.int64()),
            "broker": [message.item.row.broker for message in items],
            "topic": [message.item.row.topic for message in items],
            "queue_id": pa.array([message.item.row.queue_id for message in items], pa.int32()),
            "first": pa.array([message.first for message in items], pa.int64()),
        }
    )
    with duckdb.connect() as session:
        session.execute("SET TimeZone = 'UTC'")
        session.register("steps", steps)
        session.register("messages", wanted)
        for row in session.sql(_STEPS_OF_MESSAGES).to_arrow_table().to_pylist():
            seen = mapping.get(row["number"])
            newest = seen.newest if seen else row["newest"]
            oldest = row["oldest"] or (seen.oldest if seen else None)
            mapping[row["number"]] = _Found(newest, row["holding"], oldest)


def _step(message: _Message, value: _Found | None) -> Step | None:
    """Return the step in which a message came, None where the history read so far lacks it.

    Observations without a change after the newest step are not in the history, so the step from it
    to the snapshot may be longer than needed, and its error larger.
    """
    if value is None:
        return None
    newest = _as_step(value.newest).after
    if message.now.max_offset < newest.max_offset or message.first >= newest.max_offset:
        return Step(newest, message.now, message.item.queue.newest_stored_at)
    return _as_step(value.holding) if value.holding else None


def _as_step(row: dict[str, Any]) -> Step:
    previous = row["previous_max_offset"]
    before = None if previous is None else Observation(previous, row["previous_at"])
    after = Observation(row["max_offset"], row["observed_at"])
    return Step(before, after, row["newest_stored_at"])


def consume_modes(config: CatalogConfig, snapshot: Snapshot) -> dict[Pair, str]:
    """Return the mode of each group and topic that the newest computed snapshot has.

    Args:
        config: how the catalog of the tables is reached.
        snapshot: the observation after the history.

    Raises:
        DamagedError: the tables cannot be read.
    """
    catalog = load_catalog(NAME, **config.python)
    where = newest_computed(catalog, QUEUES, snapshot, REMEMBERED)
    if where is None:
        return {}
    with usable(QUEUES.name):
        table = catalog.load_table(QUEUES.name)
        # A table from before a column was declared gets it with the next tick.
        if not set(MODE_COLUMNS) <= set(table.schema().column_names):
            return {}
        rows = table.scan(where, selected_fields=MODE_COLUMNS).to_arrow()
    distinct = rows.group_by(list(MODE_COLUMNS)).aggregate([])
    return remembered_modes(distinct.to_pylist(), snapshot.observed_at)
