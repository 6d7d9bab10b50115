"""How every group is doing: ``health`` and ``health_reason`` of ``progress.groups``.

Health is told from the last `OBSERVATIONS` of a group on a topic, and from nothing before them: a
tick that reads just these and a backfill of a year give the same rows.

Lag alone is no alarm. A queue *stands* when it has waited for longer than a healthy consumer takes
to commit, and its commit has not moved at any of these observations: one new message on a quiet
topic, and a commit that comes with the next poll, do not make a queue stand.
"""

from collections.abc import Callable, Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from lake.history import OBSERVATIONS
from lake.window import Window
from spark.columns import SNAPSHOT, inside, milliseconds
from spark.groups import FACTS, QUEUE_OF_PAIR
from spark.progress import CONSUMED_QUEUE
from spark.thresholds import DEFAULTS, ForSome, Thresholds, column

GROUP = ("cluster", "consumer_group", "topic")
"""A group on a topic over time."""

NEVER_COMMITTED = -1
"""Stands for no commit at all, as in the broker (`ConsumerOffsetManager.queryOffset`)."""

NOW = ("observed_at", "consumer_offset", "pull_offset", "max_offset", "lag_upper", "lost")
"""Columns of ``progress.queues`` that are wanted as they are now."""

NAMED = 5
"""Queues that a reason names; of more it tells how many."""


Limit = Callable[[str], Column]
"""A threshold by its name, as it holds for a row."""


def with_health(
    groups: DataFrame,
    earlier: DataFrame,
    queues: DataFrame,
    held: DataFrame | None,
    numbers: DataFrame,
    window: Window,
    thresholds: Thresholds = DEFAULTS,
    of_some: Sequence[ForSome] = (),
) -> DataFrame:
    """Adds their health to the group rows of a window.

    Args:
        groups: rows of `spark.groups.groups`, of the window only.
        earlier: ``progress.groups`` of the observations before the window.
        queues: ``progress.queues`` of all these observations, the window's too.
        held: ``raw.client_queues`` of them; None where no client was asked.
        numbers: ``snapshot_id, number, counts_for``, a `lake.history.Observation` each.
        window: what is computed.
        thresholds: of every group,
        of_some: but for these, of which the first that fits counts.

    Returns:
        The rows of `groups` with the columns of `lake.tables.progress.HEALTH`.
    """
    counting = numbers.select("snapshot_id", F.explode("counts_for").alias("counts_for", "ago"))
    limit = partial(column, of_all=thresholds, of_some=of_some)
    rows = groups.unionByName(earlier.select(*FACTS))
    return (
        rows.join(F.broadcast(numbers.drop("counts_for")), on="snapshot_id", how="left")
        .join(_of_queues(queues, held, counting, limit), on=["snapshot_id", *GROUP], how="left")
        .withColumns(_observed())
        .withColumns(_trend())
        .where(inside(window))
        .withColumns({"first": F.get("known", F.lit(0)), "last": F.get("known", _newest("known"))})
        .withColumn("standing", F.filter("standing", _counts))
        .withColumn("verdict", _verdict(limit))
        .select(*FACTS, "verdict.*")
    )


# What single queues tell.


def _of_queues(
    queues: DataFrame, held: DataFrame | None, counting: DataFrame, limit: Limit
) -> DataFrame:
    """One row per observation of a pair in the window: what happened to its queues up to then.

    Over all observations that count for it: ``stepped``, with a bit for each, the newest lowest,
    whether a commit advanced since the one before; ``progressed``, whether one did over all;
    ``written``, whether a message was; ``losing``, the queues that lost messages, and ``standing``,
    those that stand.
    """
    return (
        _with_cache(_over_all(queues, counting), held, counting)
        .groupBy("snapshot_id", *GROUP)
        .agg(
            F.bit_or("stepped").alias("stepped"),
            _any(F.col("commit") > F.col("lowest_commit")).alias("progressed"),
            _any(F.col("max_offset") > F.col("lowest_written")).alias("written"),
            _queues_that(F.col("lost") > F.col("lowest_lost")).alias("losing"),
            _queues_that(_stands(limit)).alias("standing"),
        )
    )


def _over_all(queues: DataFrame, counting: DataFrame) -> DataFrame:
    """The queues of the window's observations, and what they went through up to then.

    One aggregation that meets each row once for every observation it counts for: a window function
    would go through all that count anew at every row, also at those that are no longer asked.
    """
    commit = F.coalesce("consumer_offset", F.lit(NEVER_COMMITTED).cast("bigint"))
    waits_at = F.when(F.col("lag_upper") > 0, F.col("observed_at"))
    stepped = F.col("consumer_offset") > F.col("previous_consumer_offset")
    is_now = F.col("ago") == 0
    now = {
        **{name: F.col(name) for name in NOW},
        "commit": commit,
        # No text among what is aggregated: Spark would sort for it.
        "from_broker": F.col("offset_store") == "broker",
    }
    return (
        queues.join(F.broadcast(counting), on="snapshot_id")
        .groupBy(*CONSUMED_QUEUE, "counts_for")
        .agg(
            *(F.max(F.when(is_now, value)).alias(name) for name, value in now.items()),
            F.bit_or(F.when(stepped, _bit("ago"))).alias("stepped"),
            F.min(commit).alias("lowest_commit"),
            F.max("ago").alias("oldest"),
            F.min("pull_offset").alias("lowest_pull"),
            F.min("max_offset").alias("lowest_written"),
            F.min("lost").alias("lowest_lost"),
            F.count(waits_at).alias("waited"),
            F.min(waits_at).alias("waits_since"),
        )
        .withColumnRenamed("counts_for", "snapshot_id")
    )


def _bit(place: str) -> Column:
    return F.call_function("shiftleft", F.lit(1), F.col(place))


def _with_cache(queues: DataFrame, held: DataFrame | None, counting: DataFrame) -> DataFrame:
    """Adds ``cache``: what a client told last of the queue, NULL where none did."""
    kind = "struct<observed_at:timestamp,messages:bigint,client_id:string>"
    if held is None:
        return queues.withColumn("cache", F.lit(None).cast(kind))
    # Asking a frame for its columns would have Spark resolve its whole plan once more.
    keys = [name for name in QUEUE_OF_PAIR if name not in SNAPSHOT]
    told = F.struct("observed_at", F.col("cached_messages").alias("messages"), "client_id")
    cache = (
        held.where(~F.coalesce("dropped", F.lit(False)) & F.col("cached_messages").isNotNull())
        .join(F.broadcast(counting), on="snapshot_id")
        .groupBy(F.col("counts_for").alias("snapshot_id"), *keys)
        .agg(F.max(told).cast(kind).alias("cache"))
    )
    return queues.join(cache, on=["snapshot_id", *keys], how="left")


def _stands(limit: Limit) -> Column:
    """Whether messages wait and the commit did not advance; going back is no progress."""
    waited = milliseconds("waits_since", "observed_at")
    # The step into the oldest observation began before it.
    steps = F.coalesce("stepped", F.lit(0)).bitwiseAND(_bit("oldest") - 1)
    return (
        (F.col("lag_upper") > 0)
        & (F.col("commit") == F.col("lowest_commit"))
        & (steps == 0)
        & (F.col("waited") >= limit("standing"))
        & (waited >= limit("standing_for"))
    )


def _queues_that(condition: Column) -> Column:
    """The queues of which something holds, in their order."""
    names = ("broker", "queue_id", "client_id", "from_broker", "consumer_offset", "lag_upper")
    queue = F.struct(*names, "lost", "lowest_lost", "pull_offset", "lowest_pull", "cache")
    return F.array_sort(F.collect_list(F.when(condition, queue)))


def _counts(queue: Column) -> Column:
    """Whether a standing queue says something of its group.

    Not where nobody is known to be there who could commit for the first time, and not what a group
    once committed as a cluster and does not read any more, because it is broadcasting now.
    """
    forgotten = (F.col("message_model") == "BROADCASTING") & queue["from_broker"]
    expected = queue["consumer_offset"].isNotNull() | F.coalesce("online", F.lit(False))
    return ~F.coalesce(forgotten, F.lit(False)) & expected


def _is_blocked(queue: Column) -> Column:
    """Whether messages of a standing queue were handed out, and are not finished."""
    pulled = F.coalesce(queue["pull_offset"] > queue["lowest_pull"], F.lit(False))
    return pulled | F.coalesce(queue["cache"]["messages"] > 0, F.lit(False))


# What the observations of a group tell.


def _observed() -> dict[str, Column]:
    """The ``value`` of an observation, NULL where unknown, and whether the one before was alone."""
    value = F.when(F.col("online"), F.col("lag_upper")).otherwise(F.col("readable_lag"))
    before = SparkWindow.partitionBy(*GROUP).orderBy("number")
    return {
        "value": F.when(F.col("complete"), value),
        "was_online": F.max("online").over(before.rangeBetween(-1, -1)),
    }


def _trend() -> dict[str, Column]:
    order = SparkWindow.partitionBy(*GROUP).orderBy("number")
    over = order.rangeBetween(1 - OBSERVATIONS, 0)
    # The step into the first observation that counts began outside.
    steps = order.rangeBetween(2 - OBSERVATIONS, 0)
    known = F.when(F.col("value").isNotNull(), F.struct("observed_at", "value", "lost"))
    alone = ~F.col("online") & ~F.col("was_online")
    return {
        "observations": F.count(F.lit(1)).over(over),
        "since": F.min("observed_at").over(over),
        "known": F.collect_list(known).over(over),
        "alone": F.collect_list(F.when(alone, F.col("number"))).over(steps),
        "produced_tps": F.avg(F.when(F.col("value").isNotNull(), F.col("produce_tps"))).over(over),
    }


def _any(condition: Column) -> Column:
    """Whether a condition holds for a row of several; unknown counts as not."""
    return F.bool_or(F.coalesce(condition, F.lit(False)))


def _newest(array: str) -> Column:
    return F.size(array) - 1


def _stepped_alone() -> Column:
    """Whether a commit advanced while nobody was online."""

    def stepped(number: Column) -> Column:
        ago = (F.col("number") - number).cast("int")
        return F.getbit("stepped", ago) == 1

    return F.coalesce(F.exists("alone", stepped), F.lit(False))


def _rising_steps() -> Column:
    """How many of the steps between known observations go up or stay level."""
    values, steps = F.col("known.value"), F.greatest(_newest("known"), F.lit(0))
    rising = F.zip_with(
        F.slice(values, F.lit(2), steps), F.slice(values, F.lit(1), steps), lambda b, a: b >= a
    )
    return F.size(F.filter(rising, lambda step: step))


def _verdict(limit: Limit) -> Column:
    """``health, health_reason``: the first that holds."""
    value, online = F.col("value"), F.col("online")
    first, last = F.col("first.value"), F.col("last.value")
    progressed = F.coalesce("progressed", F.lit(False))
    traffic = progressed | F.coalesce("written", F.lit(False))
    stopped = ~progressed | (~F.col("was_online") & ~_stepped_alone())
    blocked = F.filter("standing", _is_blocked)
    stalled = F.filter("standing", lambda queue: ~_is_blocked(queue))
    rise, minute = last - first, F.col("produced_tps") * limit("rise_seconds")
    steps = _rising_steps()

    def state(name: str, condition: Column, reason: Column) -> Column:
        verdict = F.struct(F.lit(name).alias("health"), reason.alias("health_reason"))
        return F.when(condition, verdict)

    return F.coalesce(
        state("LOSING", F.col("last.lost") > _was_lost(), _why_losing()),
        state("UNKNOWN", value.isNull() | (F.size("known") < limit("known")), _why_unknown(value)),
        state("STOPPED", (value > 0) & ~online & stopped, _why_stopped()),
        state("BLOCKED", F.size(blocked) > 0, _named(blocked, _why_blocked)),
        state("STALLED", online & (F.size(stalled) > 0), _named(stalled, _why_stalled)),
        state(
            "FALLING_BEHIND",
            (steps >= limit("rising_steps")) & (rise > minute),
            _told(
                _movement(),
                F.format_string(
                    "%s of %s steps up or level; %.0f s of production are %.0f",
                    steps,
                    _newest("known"),
                    limit("rise_seconds").cast("double"),
                    minute,
                ),
            ),
        ),
        state("CATCHING_UP", (last < first) & (last > 0), _movement()),
        state(
            "IDLE",
            (value == 0) & ~traffic,
            _told(F.lit("no lag, nothing written or consumed"), _over()),
        ),
        state("OK", F.lit(True), _movement()),
    )


# Reasons.


def _told(*parts: Column) -> Column:
    return F.concat_ws(", ", *parts)


def _over() -> Column:
    seconds = milliseconds("since", "observed_at") / 1000
    return F.format_string("over %s observations (%.0f s)", F.col("observations"), seconds)


def _movement() -> Column:
    text = F.format_string("readable lag %s, was %s", F.col("last.value"), F.col("first.value"))
    return F.concat_ws(" ", text, _over())


def _was_lost() -> Column:
    """What was lost first: before the first commit of a group nobody can say."""
    return F.get(F.filter("known.lost", lambda lost: lost.isNotNull()), F.lit(0))


def _why_losing() -> Column:
    text = F.format_string("lost messages %s, were %s", F.col("last.lost"), _was_lost())

    def lost(queue: Column) -> Column:
        return F.format_string("%s lost, were %s", queue["lost"], queue["lowest_lost"])

    named = F.when(F.size("losing") > 0, _named(F.col("losing"), lost))
    return F.concat_ws(": ", F.concat_ws(" ", text, _over()), named)


def _why_unknown(value: Column) -> Column:
    hidden = F.format_string(
        "nothing is known now of %s of %s queues", F.col("queues_unknown"), F.col("queues")
    )
    few = F.format_string(
        "only %s of %s observations known", F.size("known"), F.col("observations")
    )
    return (
        F.when(~F.col("complete"), hidden)
        .when(value.isNull(), F.lit("no queue with a known lag"))
        .otherwise(few)
    )


def _why_stopped() -> Column:
    text = F.format_string(
        "nobody online and no commit moves: readable lag %s, most on %s/%s (%s)",
        F.col("value"),
        F.col("worst_broker"),
        F.col("worst_queue_id"),
        F.col("max_queue_lag"),
    )
    return F.concat_ws(", ", text, _over())


def _why_stalled(queue: Column) -> Column:
    committed = F.concat(F.lit("commit stands at "), queue["consumer_offset"].cast("string"))
    return F.concat(
        F.coalesce(committed, F.lit("never committed")),
        F.format_string(", %s messages wait", queue["lag_upper"]),
        F.when(F.col("clients") == 0, F.lit(", no member subscribes")).otherwise(F.lit("")),
    )


def _why_blocked(queue: Column) -> Column:
    pulled = F.when(
        queue["pull_offset"] > queue["lowest_pull"],
        F.format_string("pull moved from %s to %s", queue["lowest_pull"], queue["pull_offset"]),
    )
    cached = F.when(
        queue["cache"]["messages"] > 0,
        F.format_string(
            "%s in the cache of %s", queue["cache"]["messages"], queue["cache"]["client_id"]
        ),
    )
    return F.concat_ws(", ", _why_stalled(queue), pulled, cached)


def _named(queues: Column, text: Callable[[Column], Column]) -> Column:
    """The first of some queues, each with its text."""

    def one(queue: Column) -> Column:
        of = F.concat(F.lit(" of "), queue["client_id"])
        name = F.concat_ws("/", queue["broker"], queue["queue_id"].cast("string"))
        return F.concat(name, F.coalesce(of, F.lit("")), F.lit(": "), text(queue))

    more = F.size(queues) - NAMED
    return F.concat_ws(
        "; ",
        F.transform(F.slice(queues, 1, NAMED), one),
        F.when(more > 0, F.format_string("and %s more", more)),
    )
