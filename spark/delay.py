"""When messages were stored, told from how far their queues had grown by when.

No broker is asked to read its cold commit log. A message was stored between the last observation
that did not hold it and the first that did: a *step* of the queue. ``progress.timeline`` keeps one
row per step with both observations in it, so one row answers for every message of its step.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from lake.settings import whole_number
from lake.tables import progress
from lake.window import Window
from spark.columns import QUEUE, at_least_zero, inside, is_before, milliseconds

RUN = (*QUEUE, "run")
"""A queue between two falls of its ``max_offset``: within, offsets only grow."""

THINNED_TO = 60 * whole_number("TIDEMARK_THINNED_MINUTES", 5)
"""Seconds that one step of old history spans (``TIDEMARK_THINNED_MINUTES``)."""

FEW_OFFSETS = 16
"""Up to so many offsets of a queue are looked for one by one in its history."""

_STEP = ("max_offset", "newest_stored_at", "observed_at", "before")


def timeline(queue_offsets: DataFrame, window: Window) -> DataFrame:
    """``progress.timeline`` of a window: the observations in which a queue had changed.

    Args:
        queue_offsets: ``raw.queue_offsets`` of the window and the observations before it.
        window: what is computed.

    Returns:
        One row per step of a queue, with the columns of `lake.tables.progress.TIMELINE`.
    """
    return observations(queue_offsets).where(inside(window) & _is_step()).select(*_kept())


def thinned(history: DataFrame) -> DataFrame:
    """Old history with the steps of five minutes made one, from before the first to the last.

    Args:
        history: ``progress.timeline`` of whole hours.

    Returns:
        At most one row per queue, five minutes and run. Thinning twice changes nothing.
    """
    at = F.col("observed_at")
    span = F.floor(F.unix_seconds(at) / THINNED_TO)
    order = SparkWindow.partitionBy(*QUEUE).orderBy(at)
    return (
        _read(history)
        .withColumn("run", F.count_if(_begins()).over(order))
        .groupBy(*RUN, span.alias("span"))
        .agg(
            F.max_by("max_offset", at).alias("max_offset"),
            F.max_by("newest_stored_at", at).alias("newest_stored_at"),
            F.min_by("before", at).alias("before"),
            F.max(at).alias("observed_at"),
        )
        .select(*_kept())
    )


def observations(queue_offsets: DataFrame, since: Window | None = None) -> DataFrame:
    """Adds to ``raw.queue_offsets`` what came before.

    Args:
        queue_offsets: the rows.
        since: of what was seen before this window each queue's last observation is taken alone,
            because ``progress.timeline`` knows all steps up to it. A queue that has an older one
            too would seem to have made them in one, and its falls would not be seen.

    Returns:
        The rows with ``before``, the ``max_offset`` and ``observed_at`` of the queue's last
        observation that had one, and ``run``, how often the queue had fallen by then.
    """
    order = SparkWindow.partitionBy(*QUEUE).orderBy("observed_at")
    earlier = order.rowsBetween(SparkWindow.unboundedPreceding, -1)
    whole = order.rowsBetween(SparkWindow.unboundedPreceding, SparkWindow.unboundedFollowing)
    known = F.when(F.col("max_offset").isNotNull(), F.struct("max_offset", "observed_at"))
    seen = {"before": F.last(known, ignorenulls=True).over(earlier)}
    if since is None:
        rows = queue_offsets.withColumns(seen)
    else:
        seen["last_before"] = F.max(_told_before(since)).over(whole)
        rows = (
            queue_offsets.withColumns(seen)
            .where(inside(since) | (F.col("observed_at") >= F.col("last_before")))
            .withColumn("before", F.when(inside(since), F.col("before")))
            .drop("last_before")
        )
    return rows.withColumn("run", F.count_if(_fell()).over(order))


def _told_before(window: Window) -> Column:
    """When a row told the end of its queue, if that was before the window."""
    told = F.col("max_offset").isNotNull() & is_before(window.start)
    return F.when(told, F.col("observed_at"))


def steps(
    queue_offsets: DataFrame,
    history: DataFrame | None,
    consumer_offsets: DataFrame,
    window: Window,
) -> DataFrame:
    """How queues grew, as far back as their consumers ask.

    Args:
        queue_offsets: ``raw.queue_offsets`` of the window and the observations before it.
        history: ``progress.timeline`` from before the window.
        consumer_offsets: ``raw.consumer_offsets`` of the window.
        window: what is computed.

    Returns:
        One row per step: `RUN`, with the runs of `observations`, and the struct ``step``.
    """
    seen = observations(queue_offsets, None if history is None else window).where(_is_step())
    grown = seen.select(*RUN, F.struct(*_STEP).alias("step"))
    if history is None:
        return grown
    asked = F.broadcast(_asked(queue_offsets, consumer_offsets, window))
    return grown.unionByName(_asked_for(history, asked))


def _asked(queue_offsets: DataFrame, consumer_offsets: DataFrame, window: Window) -> DataFrame:
    """Queues with consumers at messages older than the observations before a window, and at which.

    A queue that has none there was not there: what history tells is of another one.

    Returns:
        `QUEUE`, ``since`` the instant of the last of them, and the offsets ``asked``.
    """
    at = _told_before(window)
    last = queue_offsets.groupBy(*QUEUE).agg(
        F.max_by("max_offset", at).alias("last"),
        F.max(at).alias("since"),
        F.collect_set("min_offset").alias("readable"),
    )
    old = consumer_offsets.join(F.broadcast(last), on=list(QUEUE)).where(
        F.least("consumer_offset", "pull_offset") < F.col("last")
    )
    offsets = F.array_union(F.collect_set("consumer_offset"), F.collect_set("pull_offset"))
    asked = F.array_union(offsets, F.first("readable"))
    return old.groupBy(*QUEUE).agg(F.first("since").alias("since"), asked.alias("asked"))


def _asked_for(history: DataFrame, asked: DataFrame) -> DataFrame:
    """Of each queue's history since it last fell, the first step and those that are asked for.

    They are picked while they are read: all of history is too much to be sorted.
    """
    step = F.struct(*_STEP)
    m0, m1 = F.col("before.max_offset"), F.col("max_offset")
    begins = _begins()
    few = F.size("asked") <= FEW_OFFSETS
    holds = F.when(few, F.exists("asked", lambda offset: (offset >= m0) & (offset < m1)))
    within = holds.otherwise((m1 > F.array_min("asked")) & (m0 <= F.array_max("asked")))
    picked = (
        _read(history)
        .join(asked, on=list(QUEUE))
        .where(F.col("observed_at") <= F.col("since"))
        .groupBy(*QUEUE)
        .agg(
            F.max(F.when(begins, F.col("observed_at"))).alias("began_at"),
            F.min_by(step, "observed_at").alias("first"),
            F.collect_list(F.when(begins | within, step)).alias("steps"),
        )
    )
    each = F.explode(F.array_union(F.col("steps"), F.array("first")))
    return (
        picked.select(*QUEUE, "began_at", each.alias("step"))
        .where(F.col("began_at").isNull() | (F.col("step.observed_at") >= F.col("began_at")))
        .select(*QUEUE, F.lit(0).cast("bigint").alias("run"), "step")
    )


def _kept() -> list[Column]:
    """An observation as a row of ``progress.timeline``."""
    own = {
        "previous_max_offset": F.col("before.max_offset"),
        "previous_at": F.col("before.observed_at"),
    }
    names = progress.TIMELINE.column_names
    return [own.get(name, F.col(name)).alias(name) for name in names]


def _read(history: DataFrame) -> DataFrame:
    """Rows of ``progress.timeline`` as observations."""
    before = F.struct(
        F.col("previous_max_offset").alias("max_offset"), F.col("previous_at").alias("observed_at")
    )
    return history.select(
        *QUEUE,
        "max_offset",
        "newest_stored_at",
        "observed_at",
        F.when(F.col("previous_max_offset").isNotNull(), before).alias("before"),
    )


def _is_step() -> Column:
    maximum = F.col("max_offset")
    return maximum.isNotNull() & ~maximum.eqNullSafe(F.col("before.max_offset"))


def _fell() -> Column:
    return F.col("max_offset") < F.col("before.max_offset")


def _begins() -> Column:
    """Whether a step begins a run. A queue that was not there a look before is another one."""
    return F.col("before").isNull() | _fell()


def with_times(rows: DataFrame, grown: DataFrame) -> DataFrame:
    """Adds when messages were stored that consumers stand at, and what follows from it.

    Args:
        rows: queues as groups read them: their offsets and counts, ``newest_stored_at``,
            ``first_unconsumed_at`` and the ``run`` of `observations`.
        grown: what `steps` gives. Nothing later than a row is used for it: its own observation
            holds the message, so the first that does is not later.

    Returns:
        The rows with the time columns of `lake.tables.progress.QUEUES`.
    """
    return (
        _with_answers(rows.withColumns(_questions()), grown)
        .withColumns(_instants())
        .withColumns(_delay())
        .withColumns(_source() | _spans())
    )


def _questions() -> dict[str, Column]:
    """The offsets of the first readable message and of the next to hand out, where there is one."""
    first = F.greatest("consumer_offset", "min_offset")
    return {
        "first": F.when(F.col("readable_lag") > 0, first),
        "next": F.when(F.col("available") > 0, F.col("pull_offset")),
    }


def _with_answers(rows: DataFrame, grown: DataFrame) -> DataFrame:
    """Adds ``of_first`` and ``of_next``, what is known of the messages at two offsets.

    Rows are put among the steps by offset, and each takes the next step above it. Both are sorted
    within the same partitions, and nothing is multiplied.
    """
    mixed = rows.unionByName(grown, allowMissingColumns=True)
    above = {"above_first": _step_above("first"), "above_next": _step_above("next")}
    answers = {
        "of_first": _stored("above_first", F.col("first")),
        "of_next": _stored("above_next", F.col("next")),
    }
    return mixed.withColumns(above).where(F.col("step").isNull()).withColumns(answers)


def _step_above(offset: str) -> Column:
    """The first step to more than an offset: of those above it, that of the smallest."""
    position = F.coalesce(F.col("step.max_offset"), F.col(offset))
    order = SparkWindow.partitionBy(*RUN).orderBy(
        position.desc(),
        # At the same position the question comes first: the step to m does not hold message m.
        F.col("step").isNotNull(),
        # The observation before a window stands in raw, where it seems to be the first ever, and
        # its step in history, which knows more of it.
        F.col("step.before").isNotNull(),
        F.col("step.observed_at").desc(),
    )
    above = order.rowsBetween(SparkWindow.unboundedPreceding, SparkWindow.currentRow)
    return F.last("step", ignorenulls=True).over(above)


def _stored(step: str, offset: Column) -> Column:
    """``at``, ``source`` and ``error_ms`` of the message at an offset, from the step it came in.

    The contract's ``m0, t0``, ``m1, t1`` and ``s1``, instants in microseconds.
    """
    m1, t1 = F.col(f"{step}.max_offset"), F.unix_micros(f"{step}.observed_at")
    last = F.col(f"{step}.before.max_offset")
    m0 = F.when(m1 < last, F.lit(0).cast("bigint")).otherwise(last)
    # The first step of a history that was cut off may begin above the message.
    t0 = F.when(m0 <= offset, F.unix_micros(f"{step}.before.observed_at"))
    told = F.unix_micros(f"{step}.newest_stored_at")
    is_told = told.isNotNull() & (t0.isNull() | (told >= t0))
    s1 = F.when(is_told, F.least(told, t1)).otherwise(t1)
    # In floating point: microseconds of days times offsets do not fit into 64 bits.
    share = (offset - m0 + 1).cast("double") / (m1 - m0)
    is_exact = is_told & (offset == m1 - 1)
    ends_there = is_exact | t0.isNull()
    at = F.when(ends_there, s1).otherwise(t0 + F.floor((s1 - t0) * share))
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


def _asked_at() -> Column:
    """What the broker said of the message at `consumer_offset`, which is there to be read."""
    asked = F.col("first_unconsumed_at")
    told = asked.isNotNull() & (F.col("lost") == 0) & (F.col("readable_lag") > 0)
    # A broker's clock may run ahead of ours: nothing is stored later than it was seen.
    return F.when(told, F.least(asked, F.col("observed_at")))


def _instants() -> dict[str, Column]:
    newest = F.col("newest_stored_at")
    same = F.col("pull_offset") == F.col("consumer_offset")
    return {
        "newest_at": F.when(newest.isNotNull(), F.least(newest, F.col("observed_at"))),
        "consumer_at": F.coalesce(_asked_at(), _bounded("of_first")),
        "pull_at": F.coalesce(F.when(same, _asked_at()), _bounded("of_next")),
    }


def _bounded(answer: str) -> Column:
    """The instant of an answer; that a message is at least 0 ms old says nothing."""
    age = milliseconds(f"{answer}.at", "observed_at")
    says_nothing = (F.col(f"{answer}.source") == "at_least") & (age <= 0)
    return F.when(~says_nothing, F.col(f"{answer}.at"))


def _nothing_left() -> Column:
    return (F.col("readable_lag") == 0) & (F.col("lag") >= 0)


def _delay() -> dict[str, Column]:
    """The age of the first readable message; 0 says that there is none, and nothing else does."""
    age = milliseconds("consumer_at", "observed_at")
    zero = F.lit(0).cast("bigint")
    return {"delay_ms": F.when(_nothing_left(), zero).when(age > 0, age)}


def _source() -> dict[str, Column]:
    exact = _nothing_left() | _asked_at().isNotNull()
    known, zero = F.col("delay_ms").isNotNull(), F.lit(0).cast("bigint")
    source = F.when(exact, F.lit("exact")).otherwise(F.col("of_first.source"))
    error = F.when(exact, zero).otherwise(F.col("of_first.error_ms"))
    return {"delay_source": F.when(known, source), "delay_error_ms": F.when(known, error)}


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
