"""Growth of queues over time: ``progress.timeline`` and the steps it is made of.

A *step* of a queue lies between the last observation before it grew, or fell, and the first one
after. ``progress.timeline`` keeps one row per step with both observations, so one row dates every
message of its step. No broker has to read its cold commit log.
"""

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import QUEUE, Added, column, with_new
from spark.tuning import (
    FEW_OFFSETS,
    KEY_HASH,
    by_queue,
    inside,
    is_before,
    small,
    with_key_hash,
)
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress, raw
from tidemark.model.snapshots import SnapshotSource
from tidemark.settings.sections import DEFAULT_HISTORY

CLOCK = ("clock_skew_ms", "clock_error_ms")
"""Columns of ``raw.brokers`` about the clock of a master."""

OBSERVED_QUEUE = (KEY_HASH, *QUEUE, "source")
"""A queue over time as one source observes it; see `with_source`."""


def with_source(rows: DataFrame, sources: DataFrame | None) -> DataFrame:
    """Add the ``source`` of each row's snapshot, its ``staleness_ms``, and the queue's hash.

    Args:
        rows: rows with ``snapshot_id`` and `QUEUE`.
        sources: ``snapshot_id, source, staleness_ms``, one row per snapshot that was not read from
            brokers; None where all were.
    """
    rows = with_key_hash(rows, *QUEUE)
    if sources is None:
        none = F.lit(None).cast("bigint")
        return with_new(rows, source=F.lit(SnapshotSource.REMOTE), staleness_ms=none)
    stated = sources.select("snapshot_id", F.col("source").alias("stated_source"), "staleness_ms")
    frame = rows.join(small(stated), on="snapshot_id", how="left")
    return with_new(frame, source=F.coalesce("stated_source", F.lit(SnapshotSource.REMOTE)))


def by_our_clock(queue_offsets: DataFrame, brokers: DataFrame) -> DataFrame:
    """Remove the skew of brokers' clocks from ``newest_stored_at``.

    Args:
        queue_offsets: ``raw.queue_offsets``.
        brokers: ``raw.brokers`` of the same snapshots; a clock that was not measured counts as
            ours.
    """
    clocks = brokers.where(F.col("clock_skew_ms").isNotNull()).groupBy("snapshot_id", "broker")
    skews = clocks.agg(F.min_by("clock_skew_ms", "broker_id").alias("clock_skew_ms"))
    frame = queue_offsets.join(small(skews), on=["snapshot_id", "broker"], how="left")
    ours = without_skew(F.col("newest_stored_at"), F.col("clock_skew_ms"))
    others = [name for name in raw.QUEUE_OFFSETS.column_names if name != "newest_stored_at"]
    return frame.select(*others, ours.alias("newest_stored_at"))


def without_skew(instant: Column, skew_ms: Column) -> Column:
    """Return an instant by the clock of a broker as one by ours.

    NULL where the skew is no time that a clock can be off.

    Args:
        instant: by the clock of the broker.
        skew_ms: how far that clock is ahead of ours; unknown counts as 0.
    """
    skew = F.try_multiply(F.coalesce(skew_ms, F.lit(0).cast("bigint")), F.lit(1000))
    return F.timestamp_micros(F.try_subtract(F.unix_micros(instant), skew))


RUN = (*OBSERVED_QUEUE, "run")
"""A queue between two falls of its ``max_offset``: within, offsets only grow."""


class Growth(Added):
    """Columns of `observations`: an observation of a queue, compared with those before it."""

    before = column(
        "struct<max_offset:bigint,observed_at:timestamp>",
        "the queue's last observation with a known maximum; NULL where there is none",
    )
    run = column("bigint", "how often the queue had fallen by then")


class Steps(Added):
    """Columns of `steps`, besides the queue and its run."""

    step = column(
        "struct<max_offset:bigint,newest_stored_at:timestamp,observed_at:timestamp,"
        "before:struct<max_offset:bigint,observed_at:timestamp>>",
        "the observation that ends a step, with the one that begins it",
    )


_STEP = ("max_offset", "newest_stored_at", "observed_at", "before")


def timeline(
    queue_offsets: DataFrame,
    window: Window,
    sources: DataFrame | None = None,
    brokers: DataFrame | None = None,
) -> DataFrame:
    """Compute ``progress.timeline`` of a window: the observations in which a queue had changed.

    Args:
        queue_offsets: ``raw.queue_offsets`` of the window and the observations before it.
        window: the window to compute.
        sources: as for `spark.progress.timeline.with_source`.
        brokers: ``raw.brokers`` of the same snapshots; None where their clocks are ours.

    Returns:
        One row per step of a queue, with the columns of `tidemark.lake.tables.progress.TIMELINE`.
    """
    ours = queue_offsets if brokers is None else by_our_clock(queue_offsets, brokers)
    seen = observations(with_source(ours, sources))
    return seen.where(inside(window) & _is_step()).select(*_as_timeline())


def thinned(history: DataFrame, step: timedelta = DEFAULT_HISTORY.thinned_step) -> DataFrame:
    """Return old history with the steps of a few minutes joined, from before the first to the last.

    A fall that the joined step would hide, because the queue grew past its former end within the
    same minutes, stays a step of its own: a message of the new topic is not dated before it.

    Args:
        history: ``progress.timeline`` of whole hours.
        step: how much time one row covers.

    Returns:
        One row per queue, time `step` and run, and one per fall that it would hide. Thinning twice
        changes nothing.
    """
    at = F.col("observed_at")
    span = F.floor(F.unix_seconds(at) / int(step.total_seconds()))
    order = SparkWindow.partitionBy(*OBSERVED_QUEUE).orderBy(at)
    highest = F.max("max_offset").over(SparkWindow.partitionBy(*RUN, span))
    return (
        _as_observations(history)
        .transform(Growth.to, run=F.count_if(_begins_run()).over(order))
        .transform(with_new, hidden_fall=_fell() & (highest >= Growth.before["max_offset"]))
        .groupBy(*RUN, span.alias("span"), F.coalesce("hidden_fall", F.lit(False)))
        .agg(
            F.max_by("max_offset", at).alias("max_offset"),
            F.max_by("newest_stored_at", at).alias("newest_stored_at"),
            *Growth.named(before=F.min_by(Growth.before, at)),
            F.max(at).alias("observed_at"),
        )
        .select(*_as_timeline())
    )


def observations(queue_offsets: DataFrame, since: Window | None = None) -> DataFrame:
    """Add the preceding observation to each row of ``raw.queue_offsets``.

    Args:
        queue_offsets: the rows, with their ``source``.
        since: a window; of the observations before it only each queue's last is kept, because
            ``progress.timeline`` holds all steps up to it. Older ones in between could hide falls,
            because several steps would appear as one.

    Returns:
        The rows with ``before``, the ``max_offset`` and ``observed_at`` of the queue's last
        observation that had one, and ``run``, how often the queue had fallen by then; and columns
        that these are made of.
    """
    order = SparkWindow.partitionBy(*OBSERVED_QUEUE).orderBy("observed_at")
    earlier = order.rowsBetween(SparkWindow.unboundedPreceding, -1)
    whole = order.rowsBetween(SparkWindow.unboundedPreceding, SparkWindow.unboundedFollowing)
    known = F.when(F.col("max_offset").isNotNull(), F.struct("max_offset", "observed_at"))
    seen = {"before": F.last(known, ignorenulls=True).over(earlier)}
    if since is None:
        rows = with_new(queue_offsets, **seen)
    else:
        last_before = F.max(_known_before(since)).over(whole)
        rows = (
            with_new(queue_offsets, any_before=seen["before"], last_before=last_before)
            .where(inside(since) | (F.col("observed_at") >= F.col("last_before")))
            .transform(Growth.to, before=F.when(inside(since), F.col("any_before")))
        )
    return Growth.to(rows, run=F.count_if(_fell()).over(order))


def _known_before(window: Window) -> Column:
    """Return the instant of a row with a known ``max_offset``, if it is before the window."""
    is_known = F.col("max_offset").isNotNull() & is_before(window.start)
    return F.when(is_known, F.col("observed_at"))


def steps(
    queue_offsets: DataFrame,
    history: DataFrame | None,
    consumer_offsets: DataFrame,
    window: Window,
) -> DataFrame:
    """Return how queues grew, as far back as the offsets of their consumers.

    Args:
        queue_offsets: ``raw.queue_offsets`` of the window and the observations before it, with
            their ``source``.
        history: ``progress.timeline`` from before the window.
        consumer_offsets: ``raw.consumer_offsets`` of the window.
        window: the window to compute.

    Returns:
        One row per step: `RUN`, with the runs of `observations`, and the struct ``step``.
    """
    seen = observations(queue_offsets, None if history is None else window).where(_is_step())
    grown = seen.select(*RUN, *Steps.named(step=F.struct(*_STEP)))
    if history is None:
        return grown
    offsets = small(_offsets_to_date(queue_offsets, consumer_offsets, window))
    return grown.unionByName(by_queue(_steps_of_offsets(history, offsets)))


class OldOffsets(Added):
    """Offsets of a queue's consumers that are older than the observations before a window."""

    since = column("timestamp", "instant of the queue's last observation before the window")
    offsets = column("array<bigint>", "the offsets")


def _offsets_to_date(
    queue_offsets: DataFrame, consumer_offsets: DataFrame, window: Window
) -> DataFrame:
    """Return the offsets of consumers at messages older than the observations before a window.

    A queue without an observation before the window did not exist: its history is of another one.

    Returns:
        One row per queue and source: `OBSERVED_QUEUE` and `OldOffsets`.
    """
    at = _known_before(window)
    last = queue_offsets.groupBy(*OBSERVED_QUEUE).agg(
        F.max_by("max_offset", at).alias("last"),
        *OldOffsets.named(since=F.max(at)),
        F.collect_set("min_offset").alias("readable"),
    )
    old = consumer_offsets.join(small(last), on=list(QUEUE)).where(
        F.least("consumer_offset", "pull_offset") < F.col("last")
    )
    of_consumers = F.array_union(F.collect_set("consumer_offset"), F.collect_set("pull_offset"))
    offsets = F.array_union(of_consumers, F.first("readable"))
    return old.groupBy(*OBSERVED_QUEUE).agg(
        *OldOffsets.named(since=F.first(OldOffsets.since), offsets=offsets)
    )


def _steps_of_offsets(history: DataFrame, offsets: DataFrame) -> DataFrame:
    """Return the steps that hold offsets, and the first step of each queue since its last fall.

    An aggregation selects them, because sorting all of the history takes too long.
    """
    step = F.struct(*_STEP)
    m0, m1 = Growth.before["max_offset"], F.col("max_offset")
    begins_run = _begins_run()
    few = F.size(OldOffsets.offsets) <= FEW_OFFSETS
    holds = F.when(few, F.exists(OldOffsets.offsets, lambda offset: (offset >= m0) & (offset < m1)))
    within = holds.otherwise(
        (m1 > F.array_min(OldOffsets.offsets)) & (m0 <= F.array_max(OldOffsets.offsets))
    )
    picked = (
        _as_observations(history)
        .join(offsets, on=list(OBSERVED_QUEUE))
        .where(F.col("observed_at") <= OldOffsets.since)
        .groupBy(*OBSERVED_QUEUE)
        .agg(
            F.max(F.when(begins_run, F.col("observed_at"))).alias("began_at"),
            F.min_by(step, "observed_at").alias("first"),
            F.collect_list(F.when(begins_run | within, step)).alias("steps"),
        )
    )
    steps = F.array_union(F.col("steps"), F.array("first"))
    return (
        picked.select(*OBSERVED_QUEUE, "began_at", *Steps.named(step=F.explode(steps)))
        .where(F.col("began_at").isNull() | (Steps.step["observed_at"] >= F.col("began_at")))
        .select(*OBSERVED_QUEUE, *Growth.named(run=F.lit(0).cast("bigint")), "step")
    )


def _as_timeline() -> list[Column]:
    """Return the columns of an observation as a row of ``progress.timeline``."""
    own = {
        "previous_max_offset": Growth.before["max_offset"],
        "previous_at": Growth.before["observed_at"],
    }
    names = progress.TIMELINE.column_names
    return [own.get(name, F.col(name)).alias(name) for name in names]


def _as_observations(history: DataFrame) -> DataFrame:
    """Return rows of ``progress.timeline`` as observations."""
    before = F.struct(
        F.col("previous_max_offset").alias("max_offset"), F.col("previous_at").alias("observed_at")
    )
    return with_key_hash(history, *QUEUE).select(
        KEY_HASH,
        *QUEUE,
        # Rows from before the column existed are of brokers, as nearly all were.
        F.coalesce("source", F.lit(SnapshotSource.REMOTE)).alias("source"),
        "max_offset",
        "newest_stored_at",
        "observed_at",
        *Growth.named(before=F.when(F.col("previous_max_offset").isNotNull(), before)),
    )


def _is_step() -> Column:
    maximum = F.col("max_offset")
    return maximum.isNotNull() & ~maximum.eqNullSafe(Growth.before["max_offset"])


def _fell() -> Column:
    return F.col("max_offset") < Growth.before["max_offset"]


def _begins_run() -> Column:
    """Return whether a step begins a run; without an observation before, a queue is a new one."""
    return Growth.before.isNull() | _fell()
