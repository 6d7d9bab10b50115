"""Store times, delay and spans: the time columns of ``progress.queues``.

A message was stored within the step of its queue that first held it (`spark.progress.timeline`);
its store time is interpolated there, unless a broker reported it.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import QUEUE, Added, at_least_zero, column, milliseconds, with_new
from spark.progress.timeline import RUN, Growth, Steps
from spark.tuning import KEY_HASH, is_before, packed, unpacked
from tidemark.lake.clocks import Window
from tidemark.model.consumption import DelaySource
from tidemark.model.snapshots import SnapshotSource

STORE_TIME = "struct<rank:int,order:bigint,at:timestamp,source:string,error_ms:bigint>"
"""Type of a store time that is compared with others of its message; see `_store_time`."""

_HISTORY = "struct<at:timestamp,source:string,error_ms:bigint>"

_ENDS = "struct<m0:bigint,t0:bigint,m1:bigint,t1:bigint,reported:bigint>"


class Reading(Added):
    """Columns of a consumer's row that `with_times` needs, besides those of ``progress.queues``."""

    read_from = column("string", "the source of the consumer's offsets")
    ready_offset = column("bigint", "offset after which messages wait to be handed out, if known")
    first_unconsumed_at = column("timestamp", "store time at the consumer offset, by a broker")


DATED = (*RUN, "consumer_group", "client_id", "read_from", "observed_at")
"""Columns of a row by which store times are found: its queue, its consumer and its instant."""

COUNTED = ("lag", "readable_lag", "available", "inflight", "newest_stored_at", "lag_is_lower_bound")
"""Columns of a row from which delay and spans follow, once its messages are dated."""


TIMES = (
    *("consumer_at", "pull_at", "newest_at", "delay_ms", "delay_source", "delay_error_ms"),
    *("ready_delay_ms", "ready_delay_is_lower_bound", "ready_delay_source"),
    *("lag_span_ms", "inflight_span_ms", "available_span_ms"),
)
"""The columns of ``progress.queues`` that `with_times` adds."""


class Waiting(Added):
    """The two messages of a row whose store times are needed, by offset."""

    first = column("bigint", "the first readable message; NULL where none is left")
    next = column("bigint", "the next message to be handed out; NULL where none is left")


class Learned(Added):
    """Columns of `learned_before`, which rows of the window do not have."""

    earlier_first = column(STORE_TIME, "store time of the first readable message, known before")
    earlier_next = column(STORE_TIME, "store time of the next message to hand out, known before")
    is_earlier = column("boolean", "true of a row of an earlier observation, NULL of the window's")


class Dated(Added):
    """Store times of the two messages, from a first guess to the best that is known.

    What several later columns take is a column of its own: in an expression, Spark would resolve
    and optimize each use of it again.
    """

    reported_first = column("timestamp", "store time of the first message, by a broker")
    error_of_row = column("bigint", "milliseconds by which each store time of a row may be off")
    above_first = column(Steps.types()["step"], "the step that holds the first message")
    above_next = column(Steps.types()["step"], "the step that holds the next message")
    ends_first = column(_ENDS, "the ends of the step of the first message")
    ends_next = column(_ENDS, "the ends of the step of the next message")
    of_first = column(_HISTORY, "store time of the first message by its step")
    of_next = column(_HISTORY, "store time of the next message by its step")
    own_first = column(_HISTORY, "store time of the first message by this observation alone")
    own_next = column(_HISTORY, "the same of the next message, whose error nobody needs")
    known_first = column(STORE_TIME, "the best of this and earlier observations")
    known_next = column(STORE_TIME, "as `known_first`, of the next message")


def with_times(
    rows: DataFrame,
    grown: DataFrame,
    learned: DataFrame | None = None,
    *,
    others: Sequence[str] = (),
) -> DataFrame:
    """Add the store times of the messages at consumers' offsets, and delay and spans from them.

    Args:
        rows: one row per snapshot, queue and consumer with offsets, counts, ``newest_stored_at``,
            ``first_unconsumed_at``, ``staleness_ms``, ``clock_error_ms`` and the ``run`` of
            `spark.progress.timeline.observations`; instants by our clock.
        grown: rows of `spark.progress.timeline.steps`. No step later than a row dates it: the
            row's own observation holds the message, so the first that does is not later.
        learned: rows of `learned_before`; None where nothing is known from before.
        others: columns of `rows` that the result has besides `DATED` and `COUNTED`. The caller
            reads each of them, see `spark.tuning.packed`.

    Returns:
        Rows with `DATED`, `COUNTED`, `others` and `TIMES`.
    """
    carried = (*COUNTED, *others)
    return (
        packed(rows, *DATED, *_to_date(), carried=carried)
        .transform(_with_store_times, grown, learned)
        .transform(Dated.to, own_first=_first_by_itself())
        .transform(
            Dated.to, known_first=_best(Waiting.first, Learned.earlier_first, Dated.own_first)
        )
        .transform(Dated.to, own_next=_next_by_itself())
        .transform(Dated.to, known_next=_best(Waiting.next, Learned.earlier_next, Dated.own_next))
        .where(Learned.is_earlier.isNull())
        .transform(unpacked)
        .transform(with_new, **(_instants() | _delay()))
        .transform(with_new, **(_spans() | _ready_delay()))
    )


# Store times that were learned stay.


def learned_before(earlier: DataFrame, window: Window) -> DataFrame:
    """Return the store times from observations before a window.

    Args:
        earlier: ``progress.queues`` of the previous observations, with their ``source``.
        window: the window to compute. A queue that fell since has another run there.

    Returns:
        One row per row of `earlier`: its message, ``earlier_first`` and ``earlier_next``.
    """
    first = F.greatest("consumer_offset", "min_offset")
    error, no_error = F.col("delay_error_ms"), F.lit(None).cast("bigint")
    known_first = _store_time(F.col("consumer_at"), F.col("delay_source"), error)
    # Rows of versions before 0.3 hold no source, so their instant proves no more than a bound.
    source_of_next = F.coalesce("ready_delay_source", F.lit(DelaySource.AT_LEAST))
    known_next = _store_time(F.col("pull_at"), source_of_next, no_error)
    # Clients' files are compared with the queues of a snapshot of brokers.
    of_files = F.col("source") == SnapshotSource.LOCAL_OFFSETS
    queue_source = F.when(of_files, SnapshotSource.REMOTE).otherwise(F.col("source"))
    is_waiting, is_available = F.col("readable_lag") > 0, F.col("available") > 0
    return earlier.where(is_before(window.start)).select(
        *(KEY_HASH, *QUEUE, "consumer_group", "client_id", "observed_at"),
        queue_source.alias("source"),
        *Reading.named(read_from=F.col("source")),
        *Growth.named(run=F.lit(0).cast("bigint")),
        *Waiting.named(
            first=F.when(is_waiting, first),
            next=F.when(is_available, F.col("max_offset") - F.col("available")),
        ),
        *Learned.named(
            earlier_first=F.when(is_waiting, known_first),
            earlier_next=F.when(is_available, known_next),
            is_earlier=F.lit(True),
        ),
    )


def _store_time(at: Column, source: Column, error_ms: Column) -> Column:
    """Return a store time as a struct, of which the least is the best; NULL where unknown.

    A reported store time is better than an interpolated one, and that than a bound. Among two alike
    the one learned first stays, so that a delay grows with the clock; the history of a message gets
    coarser with its age. The earliest bound is closest.

    Interpolation may give this very instant. A store time that a broker reports is cut at this
    instant where its clock runs ahead, and then shows nothing; nor does a bound of 0 ms.
    """
    rank = (
        F.when(source == DelaySource.EXACT, 0)
        .when(source == DelaySource.INTERPOLATED, 1)
        .otherwise(2)
    )
    order = F.unix_micros(F.when(rank == 2, at).otherwise(F.col("observed_at")))
    age = F.unix_millis("observed_at") - F.unix_millis(at)
    is_known = (age > 0) | ((age == 0) & (source == DelaySource.INTERPOLATED))
    return F.when(
        is_known,
        F.struct(
            rank.alias("rank"),
            order.alias("order"),
            at.alias("at"),
            source.alias("source"),
            error_ms.cast("bigint").alias("error_ms"),
        ),
    )


def _best(offset: Column, earlier: Column, own: Column) -> Column:
    """Return the best store time of a message from this and earlier observations.

    Args:
        offset: the offset of the message.
        earlier: its store time where the row is one of `learned_before`.
        own: its store time by the row's observation alone.
    """
    message = (*RUN, "consumer_group", "client_id", Reading.read_from, offset)
    waiting = SparkWindow.partitionBy(*message).orderBy("observed_at")
    until_now = waiting.rowsBetween(SparkWindow.unboundedPreceding, SparkWindow.currentRow)
    known = F.coalesce(earlier, _store_time(own["at"], own["source"], own["error_ms"]))
    return F.when(offset.isNotNull(), F.min(known).over(until_now))


def _to_date() -> list[Column]:
    """Return the messages to date, and the facts of a row that their store times depend on."""
    first = F.greatest("consumer_offset", "min_offset")
    return [
        *Waiting.named(
            first=F.when(F.col("readable_lag") > 0, first),
            next=F.when(F.col("available") > 0, Reading.ready_offset),
        ),
        *Dated.named(reported_first=_reported_at(), error_of_row=_error_of_snapshot()),
    ]


def _with_store_times(rows: DataFrame, grown: DataFrame, learned: DataFrame | None) -> DataFrame:
    """Add the store times of the two messages by the steps that hold them.

    Rows and steps are sorted together by offset, and each row takes the next step above it. Both
    sorts share their partitions, and no row is multiplied.

    Returns:
        The rows, and those of `learned`, which ``is_earlier`` marks.
    """
    mixed = rows.unionByName(grown, allowMissingColumns=True)
    if learned is None:
        mixed = Learned.to(mixed, **Learned.unknown())
    else:
        mixed = mixed.unionByName(learned, allowMissingColumns=True)
    return (
        Dated.to(
            mixed, above_first=_step_above(Waiting.first), above_next=_step_above(Waiting.next)
        )
        .where(Steps.step.isNull())
        .transform(
            Dated.to,
            ends_first=_ends(Dated.above_first, Waiting.first),
            ends_next=_ends(Dated.above_next, Waiting.next),
        )
        .transform(
            Dated.to,
            of_first=_stored(Dated.ends_first, Waiting.first, F.col("observed_at")),
            of_next=_stored(Dated.ends_next, Waiting.next, F.col("observed_at")),
        )
    )


def _step_above(offset: Column) -> Column:
    """Return the first step above an offset: the one with the smallest ``max_offset``."""
    position = F.coalesce(Steps.step["max_offset"], offset)
    order = SparkWindow.partitionBy(*RUN).orderBy(
        position.desc(),
        # At the same position the row comes first: the step to m does not contain message m.
        Steps.step.isNotNull(),
        # The observation before a window is in the raw rows, where it seems to be the first ever,
        # and in the timeline, whose step has the observation before it.
        Steps.step["before"].isNotNull(),
        Steps.step["observed_at"].desc(),
    )
    above = order.rowsBetween(SparkWindow.unboundedPreceding, SparkWindow.currentRow)
    return F.last(Steps.step, ignorenulls=True).over(above)


def _ends(step: Column, offset: Column) -> Column:
    """Return the ends of a step as the message at an offset sees them.

    The contract's ``m0, t0`` and ``m1, t1``, and what the broker reported of the newest message;
    instants in microseconds.
    """
    m1, last = step["max_offset"], step["before"]["max_offset"]
    m0 = F.when(m1 < last, F.lit(0).cast("bigint")).otherwise(last)
    # The first step of a history that was cut off may begin above the message.
    t0 = F.when(m0 <= offset, F.unix_micros(step["before"]["observed_at"]))
    return F.struct(
        m0.alias("m0"),
        t0.alias("t0"),
        m1.alias("m1"),
        F.unix_micros(step["observed_at"]).alias("t1"),
        F.unix_micros(step["newest_stored_at"]).alias("reported"),
    )


def _stored(ends: Column, offset: Column, now: Column) -> Column:
    """Return ``at``, ``source`` and ``error_ms`` of the message at an offset, from its step.

    ``s1`` is the contract's, in microseconds.
    """
    m0, t0, m1, t1, reported = (ends[name] for name in ("m0", "t0", "m1", "t1", "reported"))
    is_reported = reported.isNotNull() & (t0.isNull() | (reported >= t0))
    s1 = F.when(is_reported, F.least(reported, t1)).otherwise(t1)
    # In floating point: microseconds of days times offsets do not fit into 64 bits.
    share = (offset - m0 + 1).cast("double") / (m1 - m0)
    # At this very instant s1 may have been cut: then it shows no more than its step.
    is_past = t0.isNull() | (s1 < F.unix_micros(now))
    is_exact = is_reported & (offset == m1 - 1) & is_past
    is_end_of_step = is_exact | t0.isNull()
    at = F.when(is_end_of_step, s1).otherwise(t0 + F.floor((s1 - t0) * share))
    error = F.when(is_exact, 0).when(t0.isNotNull(), F.floor((s1 - t0) / 1000))
    return F.when(
        offset.isNotNull() & m1.isNotNull(),
        F.struct(
            F.timestamp_micros(at).alias("at"),
            F.when(is_exact, DelaySource.EXACT)
            .when(t0.isNull(), DelaySource.AT_LEAST)
            .otherwise(DelaySource.INTERPOLATED)
            .alias("source"),
            error.cast("bigint").alias("error_ms"),
        ),
    )


def _reported_at() -> Column:
    """Return the store time that the broker reported for the message at ``consumer_offset``."""
    reported = Reading.first_unconsumed_at
    is_readable = reported.isNotNull() & (F.col("lost") == 0) & (F.col("readable_lag") > 0)
    # A broker's clock may run ahead of ours: no message is stored after it was observed.
    return F.when(is_readable, F.least(reported, F.col("observed_at")))


def _first_by_itself() -> Column:
    """Return store time, source and error of the first readable message by this observation."""
    reported, history = Dated.reported_first, Dated.of_first
    is_reported, none = reported.isNotNull(), F.lit(0).cast("bigint")
    exact = F.lit(DelaySource.EXACT)
    error = F.when(is_reported, none).otherwise(history["error_ms"]) + Dated.error_of_row
    return F.struct(
        F.coalesce(reported, history["at"]).alias("at"),
        F.when(is_reported, exact).otherwise(history["source"]).alias("source"),
        error.alias("error_ms"),
    )


def _next_by_itself() -> Column:
    """Return the store time of the first message not handed out, maybe the first readable one."""
    is_first = Waiting.next == Waiting.first
    at, source = (
        F.when(is_first, F.coalesce(Dated.known_first[name], Dated.own_first[name])).otherwise(
            Dated.of_next[name]
        )
        for name in ("at", "source")
    )
    no_error = F.lit(None).cast("bigint").alias("error_ms")
    return F.struct(at.alias("at"), source.alias("source"), no_error)


def _instants() -> dict[str, Column]:
    newest = F.col("newest_stored_at")
    return {
        "newest_at": F.when(newest.isNotNull(), F.least(newest, F.col("observed_at"))),
        "consumer_at": F.coalesce(Dated.known_first["at"], _unless_bound(Dated.own_first)),
        "pull_at": F.coalesce(Dated.known_next["at"], _unless_bound(Dated.own_next)),
    }


def _unless_bound(own: Column) -> Column:
    """Return a store time that is cut at this very instant; a bound of it states nothing."""
    return F.when(own["source"] != DelaySource.AT_LEAST, own["at"])


def _is_consumed() -> Column:
    return (F.col("readable_lag") == 0) & (F.col("lag") >= 0)


def _delay() -> dict[str, Column]:
    """Return the age of the first readable message, 0 where there is none, and how it is known.

    Where lag is a lower bound, the first message that was not popped is known. An older one may be
    in flight.
    """
    zero, known = F.lit(0).cast("bigint"), Dated.known_first
    is_bound = F.coalesce("lag_is_lower_bound", F.lit(False))
    is_known = _is_consumed() | known["source"].isNotNull()
    source = F.when(_is_consumed(), F.lit(DelaySource.EXACT)).otherwise(known["source"])
    error = F.when(_is_consumed(), zero).otherwise(known["error_ms"])
    return {
        "delay_ms": F.when(_is_consumed(), zero).otherwise(
            milliseconds(Dated.known_first["at"], F.col("observed_at"))
        ),
        "delay_source": F.when(is_bound & is_known, F.lit(DelaySource.AT_LEAST)).otherwise(source),
        "delay_error_ms": F.when(~is_bound, error),
    }


def _error_of_snapshot() -> Column:
    """Return the milliseconds by which any delay of the snapshot may be off.

    The commits in a file are some seconds old, so messages consumed since then still seem to wait.
    A queue that was consumed completely then counts as consumed. The skew of clocks is removed from
    store times, but the error of its measurement remains.
    """
    return F.coalesce("staleness_ms", F.lit(0)) + F.coalesce("clock_error_ms", F.lit(0))


def _ready_delay() -> dict[str, Column]:
    """Return the age of the first message not handed out, 0 where all are, and how it is known.

    `delay_ms` grows while a consumer processes a slow message. This age grows only while a message
    waits for a client.
    """
    age = at_least_zero(milliseconds(F.col("pull_at"), F.col("observed_at")))
    are_all_out = F.col("available") == 0
    known = F.coalesce(Dated.known_next["source"], Dated.own_next["source"])
    source = F.when(are_all_out, F.lit(DelaySource.EXACT)).when(F.col("pull_at").isNotNull(), known)
    return {
        "ready_delay_ms": F.when(are_all_out, F.lit(0).cast("bigint")).otherwise(age),
        "ready_delay_source": source,
        "ready_delay_is_lower_bound": source == DelaySource.AT_LEAST,
    }


def _spans() -> dict[str, Column]:
    handed_out = F.when(F.col("available") == 0, F.col("newest_at")).otherwise(F.col("pull_at"))
    return {
        "lag_span_ms": _span(F.col("lag"), F.col("consumer_at"), F.col("newest_at")),
        "inflight_span_ms": _span(F.col("inflight"), F.col("consumer_at"), handed_out),
        "available_span_ms": _span(F.col("available"), F.col("pull_at"), F.col("newest_at")),
    }


def _span(count: Column, start: Column, end: Column) -> Column:
    length = at_least_zero(milliseconds(start, end))
    return F.when(count == 0, F.lit(0).cast("bigint")).when(count > 0, length)
