"""Store times, delay and spans: the time columns of ``progress.queues``.

A message was stored within the step of its queue that first held it (`spark.progress.timeline`);
its store time is interpolated there, unless a broker reported it.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import at_least_zero, milliseconds, with_new
from spark.progress.timeline import RUN


def with_times(rows: DataFrame, grown: DataFrame) -> DataFrame:
    """Add the store times of the messages at consumers' offsets, and delay and spans from them.

    Args:
        rows: one row per snapshot, queue and consumer with offsets, counts, ``newest_stored_at``,
            ``first_unconsumed_at``, ``staleness_ms``, ``clock_error_ms`` and the ``run`` of
            `spark.progress.timeline.observations`; instants by our clock.
        grown: rows of `spark.progress.timeline.steps`. No step later than a row dates it: the
            row's own observation holds the message, so the first that does is not later.

    Returns:
        The rows with the time columns of `lake.tables.progress.QUEUES`.
    """
    return (
        _with_store_times(with_new(rows, _offsets_to_date()), grown)
        .transform(with_new, _instants())
        .transform(with_new, _delay())
        .transform(with_new, _source() | _spans() | _ready_delay())
    )


def _offsets_to_date() -> dict[str, Column]:
    """Return the offsets of the first readable message and of the next to be pulled."""
    first = F.greatest("consumer_offset", "min_offset")
    return {
        "first": F.when(F.col("readable_lag") > 0, first),
        "next": F.when(F.col("available") > 0, F.col("pull_offset")),
    }


def _with_store_times(rows: DataFrame, grown: DataFrame) -> DataFrame:
    """Add ``of_first`` and ``of_next``: store time, source and error of the two messages.

    Rows and steps are sorted together by offset, and each row takes the next step above it. Both
    sorts share their partitions, and no row is multiplied.
    """
    mixed = rows.unionByName(grown, allowMissingColumns=True)
    above = {"above_first": _step_above("first"), "above_next": _step_above("next")}
    store_times = {
        "of_first": _stored("above_first", F.col("first"), F.col("observed_at")),
        "of_next": _stored("above_next", F.col("next"), F.col("observed_at")),
    }
    dated = with_new(mixed, above).where(F.col("step").isNull())
    return with_new(dated, store_times)


def _step_above(offset: str) -> Column:
    """Return the first step above an offset: the one with the smallest ``max_offset``."""
    position = F.coalesce(F.col("step.max_offset"), F.col(offset))
    order = SparkWindow.partitionBy(*RUN).orderBy(
        position.desc(),
        # At the same position the row comes first: the step to m does not hold message m.
        F.col("step").isNotNull(),
        # The observation before a window is in the raw rows, where it seems to be the first ever,
        # and in the timeline, whose step has the observation before it.
        F.col("step.before").isNotNull(),
        F.col("step.observed_at").desc(),
    )
    above = order.rowsBetween(SparkWindow.unboundedPreceding, SparkWindow.currentRow)
    return F.last("step", ignorenulls=True).over(above)


def _stored(step: str, offset: Column, now: Column) -> Column:
    """Return ``at``, ``source`` and ``error_ms`` of the message at an offset, from its step.

    The contract's ``m0, t0``, ``m1, t1`` and ``s1``, instants in microseconds.
    """
    m1, t1 = F.col(f"{step}.max_offset"), F.unix_micros(f"{step}.observed_at")
    last = F.col(f"{step}.before.max_offset")
    m0 = F.when(m1 < last, F.lit(0).cast("bigint")).otherwise(last)
    # The first step of a history that was cut off may begin above the message.
    t0 = F.when(m0 <= offset, F.unix_micros(f"{step}.before.observed_at"))
    reported = F.unix_micros(f"{step}.newest_stored_at")
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
            F.when(is_exact, "exact")
            .when(t0.isNull(), "at_least")
            .otherwise("interpolated")
            .alias("source"),
            error.cast("bigint").alias("error_ms"),
        ),
    )


def _reported_at() -> Column:
    """Return the store time that the broker reported for the message at ``consumer_offset``."""
    reported = F.col("first_unconsumed_at")
    is_readable = reported.isNotNull() & (F.col("lost") == 0) & (F.col("readable_lag") > 0)
    # A broker's clock may run ahead of ours: no message is stored after it was observed.
    return F.when(is_readable, F.least(reported, F.col("observed_at")))


def _instants() -> dict[str, Column]:
    newest = F.col("newest_stored_at")
    return {
        "newest_at": F.when(newest.isNotNull(), F.least(newest, F.col("observed_at"))),
        "consumer_at": F.coalesce(_reported_at(), _dated("of_first")),
        "pull_at": F.coalesce(F.when(_is_next_to_be_pulled(), _reported_at()), _dated("of_next")),
    }


def _dated(message: str) -> Column:
    """Return the store time of a message; NULL for the empty bound of at least 0 ms."""
    age = milliseconds(f"{message}.at", "observed_at")
    is_empty_bound = (F.col(f"{message}.source") == "at_least") & (age <= 0)
    return F.when(~is_empty_bound, F.col(f"{message}.at"))


def _is_consumed() -> Column:
    return (F.col("readable_lag") == 0) & (F.col("lag") >= 0)


def _delay() -> dict[str, Column]:
    """Return the age of the first readable message, 0 where there is none.

    Interpolation may give this very instant, so an age of 0 with its error. A store time that a
    broker reports is cut at this instant where its clock runs ahead, and then shows nothing.
    """
    age = milliseconds("consumer_at", "observed_at")
    zero = F.lit(0).cast("bigint")
    is_interpolated = (F.col("of_first.source") == "interpolated") & _reported_at().isNull()
    is_known = (age > 0) | ((age == 0) & is_interpolated)
    return {"delay_ms": F.when(_is_consumed(), zero).when(is_known, age)}


def _source() -> dict[str, Column]:
    exact = _is_consumed() | _reported_at().isNotNull()
    known, zero = F.col("delay_ms").isNotNull(), F.lit(0).cast("bigint")
    source = F.when(exact, F.lit("exact")).otherwise(F.col("of_first.source"))
    error = F.when(exact, zero).otherwise(F.col("of_first.error_ms")) + _error_of_snapshot()
    error = F.when(_is_consumed(), zero).otherwise(error)
    return {"delay_source": F.when(known, source), "delay_error_ms": F.when(known, error)}


def _error_of_snapshot() -> Column:
    """Return the milliseconds by which any delay of the snapshot may be off.

    The commits in a file are those of a few seconds ago: what was consumed since still seems to
    wait. A queue that was consumed then is consumed now. Of the skew of clocks, which is removed
    from store times, the error of its measurement is left.
    """
    return F.coalesce("staleness_ms", F.lit(0)) + F.coalesce("clock_error_ms", F.lit(0))


def _ready_delay() -> dict[str, Column]:
    """Return the age of the first message not handed out, 0 where all are.

    Of a consumer with few and slow messages `delay_ms` ages with what is being worked on; this
    ages only while a message waits for a client.
    """
    age = at_least_zero(milliseconds("pull_at", "observed_at"))
    are_all_out = F.col("available") == 0
    is_reported = _is_next_to_be_pulled() & _reported_at().isNotNull()
    is_bound = ~are_all_out & ~is_reported & (F.col("of_next.source") == "at_least")
    ready = F.when(are_all_out, F.lit(0).cast("bigint")).otherwise(age)
    is_known_bound = F.when(ready.isNotNull(), F.coalesce(is_bound, F.lit(False)))
    return {"ready_delay_ms": ready, "ready_delay_is_lower_bound": is_known_bound}


def _is_next_to_be_pulled() -> Column:
    """Return whether the first unconsumed message is also the first one not handed out."""
    return F.coalesce(F.col("pull_offset") == F.col("consumer_offset"), F.lit(False))


def _spans() -> dict[str, Column]:
    handed_out = F.when(F.col("available") == 0, F.col("newest_at")).otherwise(F.col("pull_at"))
    return {
        "lag_span_ms": _span("lag", "consumer_at", F.col("newest_at")),
        "inflight_span_ms": _span("inflight", "consumer_at", handed_out),
        "available_span_ms": _span("available", "pull_at", F.col("newest_at")),
    }


def _span(count: str, start: str, end: Column) -> Column:
    length = at_least_zero(milliseconds(start, end))
    return F.when(F.col(count) == 0, F.lit(0).cast("bigint")).when(F.col(count) > 0, length)
