"""Health of every group on every topic: ``health, health_reason`` of ``progress.groups``.

Health follows from the last `OBSERVATIONS` observations of a group on a topic and from nothing
before them, so a tick that reads only these and a backfill of a year give the same rows.

Lag alone is no alarm. A queue is *standing* when it has lagged for longer than a healthy consumer
takes to commit and its commit has not advanced in any of these observations. One new message on a
quiet topic does not make a queue standing, nor does a commit that comes with the next poll.

A standing queue is a fault whichever members are online; the reason states the unknown facts about
them. An unknown value never makes a group healthy: `OK` and `IDLE` of a POP group need a known
acknowledgement, or a known number of messages in flight.
"""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from lake.window import Window
from rocketmq.names import RETRY_PREFIX
from settings.constants import OBSERVATIONS
from settings.health_thresholds import DEFAULTS, Override, Thresholds
from spark.columns import inside, with_new
from spark.progress import health_reasons as reasons
from spark.progress.consume_modes import POP, is_lite
from spark.progress.groups import OF_ONE_OBSERVATION
from spark.progress.health_thresholds import Threshold, threshold_column
from spark.progress.keys import GROUP_TOPIC_HISTORY
from spark.progress.queue_progress import counts_for_health, is_blocked, queue_progress
from tidemark.model.health import Health

WORSE_THAN_CATCHING_UP = (
    Health.LOSING,
    Health.STOPPED,
    Health.BLOCKED,
    Health.STALLED,
    Health.FALLING_BEHIND,
)
"""States after which a lag that falls is `CATCHING_UP`, however small it is."""


def with_health(
    groups: DataFrame,
    earlier: DataFrame,
    queues: DataFrame,
    client_queues: DataFrame | None,
    numbers: DataFrame,
    window: Window,
    thresholds: Thresholds = DEFAULTS,
    overrides: Sequence[Override] = (),
) -> DataFrame:
    """Add health to the group rows of a window.

    Args:
        groups: rows of `spark.progress.groups.groups`, of the window only.
        earlier: ``progress.groups`` of the observations before the window, with their health.
        queues: ``progress.queues`` of the window and of the observations before it.
        client_queues: ``raw.client_queues`` of them; None when no client was requested.
        numbers: ``snapshot_id, number, counts_for``, one row per
            `lake.recent_observations.Observation`. A snapshot of several tracks has several rows;
            its health is that of the one that counts for itself.
        window: the window to compute.
        thresholds: of groups that no override matches.
        overrides: thresholds of some groups; the first that matches applies.

    Returns:
        One row per row of `groups`, with its columns and those of `lake.tables.progress.HEALTH`.
    """
    counting = numbers.select("snapshot_id", F.explode("counts_for").alias("counts_for", "ago"))
    threshold = partial(threshold_column, defaults=thresholds, overrides=overrides)
    before = earlier.select(*OF_ONE_OBSERVATION, F.col("health").alias("earlier_health"))
    rows = groups.unionByName(before, allowMissingColumns=True)
    progress = queue_progress(queues, client_queues, counting, threshold)
    return (
        rows.join(F.broadcast(numbers.select(*_of_track())), "snapshot_id", "left")
        .join(progress, on=["snapshot_id", *GROUP_TOPIC_HISTORY], how="left")
        .transform(with_new, _value())
        .transform(with_new, _over_observations())
        .where(inside(window))
        .transform(
            with_new,
            {
                "first": F.get("known", F.lit(0)),
                "last": F.get("known", _newest("known")),
                "unhealthy": F.filter("standing", counts_for_health),
            },
        )
        .transform(with_new, {"trouble": _trouble(threshold)})
        .transform(with_new, {"was_worse": _was_worse()})
        .transform(with_new, {"state": F.coalesce("trouble", *_calm(threshold))})
        .where(F.coalesce("counts_for_itself", F.lit(True)))
        .select(
            *OF_ONE_OBSERVATION,
            "state.*",
            F.when(F.col("has_limit"), F.size("held_back")).alias("queues_flow_controlled"),
        )
    )


def _of_track() -> list[Column]:
    own = F.map_contains_key(F.col("counts_for"), F.col("snapshot_id"))
    return [F.col("snapshot_id"), F.col("number"), own.alias("counts_for_itself")]


def _value() -> dict[str, Column]:
    """Return ``value``, the lag that health compares, and whether the group ``was_online`` before.

    ``value`` is NULL when unknown: a sum over incomplete queues is unknown.
    """
    value = F.when(F.col("online"), F.col("lag_upper")).otherwise(F.col("readable_lag"))
    before = SparkWindow.partitionBy(*GROUP_TOPIC_HISTORY).orderBy("number")
    return {
        "value": F.when(F.col("complete"), value),
        "was_online": F.max("online").over(before.rangeBetween(-1, -1)),
        "pops": F.col("consume_mode").eqNullSafe(POP) & ~is_lite(),
    }


def _over_observations() -> dict[str, Column]:
    """Return facts from the last `OBSERVATIONS` of a group.

    ``observations``: how many there are; ``since``: instant of the oldest; ``known``: structs of
    those with a value, oldest first; ``offline``: numbers of those at whose ends no client was
    online; ``produced_tps``: mean rate of production; ``largest_ack_tps``: the largest rate of
    acknowledgements, NULL where none is known; ``redelivered``: the largest rate of redelivered
    messages; ``in_flight``: the known numbers of messages in flight, oldest first;
    ``was_worse_earlier``: whether an observation before the window was in one of the states
    `WORSE_THAN_CATCHING_UP`.
    """
    order = SparkWindow.partitionBy(*GROUP_TOPIC_HISTORY).orderBy("number")
    all_of_them = order.rangeBetween(1 - OBSERVATIONS, 0)
    # The step into the first observation that counts began outside.
    steps = order.rangeBetween(2 - OBSERVATIONS, 0)
    known = F.when(F.col("value").isNotNull(), F.struct("observed_at", "value", "lost"))
    # An advance without a member online makes `online` unknown, see `spark.progress.groups`.
    seen = (F.coalesce(name, F.lit(False)) for name in ("online", "was_online"))
    offline = ~next(seen) & ~next(seen)
    produced = F.when(F.col("value").isNotNull(), F.col("produce_tps"))
    return {
        "observations": F.count(F.lit(1)).over(all_of_them),
        "since": F.min("observed_at").over(all_of_them),
        "known": F.collect_list(known).over(all_of_them),
        "offline": F.collect_list(F.when(offline, F.col("number"))).over(steps),
        "largest_ack_tps": F.max("ack_tps").over(all_of_them),
        "redelivered": F.max("redelivered_tps").over(all_of_them),
        "in_flight": F.collect_list("inflight").over(all_of_them),
        "was_worse_earlier": F.max(F.col("earlier_health").isin(*WORSE_THAN_CATCHING_UP)).over(
            all_of_them
        ),
        "produced_tps": F.avg(produced).over(all_of_them),
    }


def _newest(array: str) -> Column:
    return F.size(array) - 1


def _stepped_offline() -> Column:
    """Return whether a commit advanced while no client was online."""

    def stepped(number: Column) -> Column:
        ago = (F.col("number") - number).cast("int")
        return F.getbit("stepped", ago) == 1

    return F.coalesce(F.exists("offline", stepped), F.lit(False))


def _rising_steps() -> Column:
    """Count the steps between known observations that go up or stay level."""
    values, steps = F.col("known.value"), F.greatest(_newest("known"), F.lit(0))
    rising = F.zip_with(
        F.slice(values, F.lit(2), steps), F.slice(values, F.lit(1), steps), lambda b, a: b >= a
    )
    return F.size(F.filter(rising, lambda step: step))


def _is_unsubscribed() -> Column:
    """Return whether no client subscribes to the topic; a retry topic belongs to its group.

    Unknown where a member reports no subscription: such a member may be assigned the topic.
    """
    return (F.col("clients") == 0) & ~F.col("topic").startswith(RETRY_PREFIX)


def _acknowledges() -> Column:
    """Return whether the group is known to acknowledge: the progress of a POP group.

    Its commits move when messages are popped.
    """
    return F.coalesce(F.col("largest_ack_tps") > 0, F.lit(False))


def _holds_popped() -> Column:
    """Return whether a POP group has had messages in flight and is not known to finish any."""
    flying = F.col("in_flight")
    stays = (F.size(flying) > 1) & (F.array_min(flying) > 0)
    no_fewer = F.get(flying, F.size(flying) - 1) >= F.get(flying, F.lit(0))
    return F.col("pops") & stays & no_fewer & ~_progressed() & ~_acknowledges()


def _may_hold_popped() -> Column:
    """Return whether a POP group may hold popped messages: no acknowledgement shows otherwise."""
    is_bound = F.coalesce("lag_is_lower_bound", F.lit(True))
    # An endpoint's number may be wrong, and 0 shows nothing; above 0 it forbids to call all done.
    is_witnessed = F.coalesce(F.col("inflight_witness") > 0, F.lit(False))
    return F.col("pops") & (is_bound | is_witnessed) & ~_acknowledges()


def _progressed() -> Column:
    return F.coalesce("progressed", F.lit(False))


def _of_state(name: str, condition: Column, reason: Column) -> Column:
    """Return a struct of ``health`` and ``health_reason``, NULL where the state does not hold."""
    return F.when(condition, F.struct(F.lit(name).alias("health"), reason.alias("health_reason")))


def _was_worse() -> Column:
    """Return whether one of the observations was in a state `WORSE_THAN_CATCHING_UP`."""
    order = SparkWindow.partitionBy(*GROUP_TOPIC_HISTORY).orderBy("number")
    is_worse = F.col("trouble.health").isin(*WORSE_THAN_CATCHING_UP)
    in_window = F.max(is_worse).over(order.rangeBetween(1 - OBSERVATIONS, 0))
    return F.coalesce(in_window, F.lit(False)) | F.coalesce("was_worse_earlier", F.lit(False))


def _trouble(threshold: Threshold) -> Column:
    """Return the first true state of those that need no earlier state, else NULL.

    The result is a struct of ``health`` and ``health_reason``.
    """
    value, online = F.col("value"), F.col("online")
    last = F.col("last.value")
    stopped = (~_progressed() | (~F.col("was_online") & ~_stepped_offline())) & ~_acknowledges()
    # Brokers count acknowledgements of lite topics at the topic that these belong to.
    acknowledged = (F.col("pops") | is_lite()) & _acknowledges()
    blocked = F.filter("unhealthy", is_blocked)
    stalled = F.filter("unhealthy", lambda queue: ~is_blocked(queue))
    rise, rise_seconds = last - F.col("first.value"), threshold("rise_seconds")
    # Production as it is now: the mean of a quiet topic's window is lower than its next message.
    enough = F.coalesce("produce_tps", "produced_tps") * rise_seconds
    steps = _rising_steps()
    too_few = F.size("known") < threshold("known")
    return F.coalesce(
        _of_state(Health.LOSING, F.col("last.lost") > reasons.initially_lost(), reasons.losing()),
        _of_state(Health.UNKNOWN, value.isNull() | too_few, reasons.unknown(value)),
        _of_state(Health.UNSUBSCRIBED, online & _is_unsubscribed(), reasons.unsubscribed()),
        _of_state(Health.STOPPED, (value > 0) & ~online & stopped, reasons.stopped()),
        _of_state(
            Health.BLOCKED,
            (F.size(blocked) > 0) & ~acknowledged,
            reasons.standing(blocked, reasons.blocked),
        ),
        _of_state(Health.BLOCKED, _holds_popped(), reasons.holds_popped()),
        _of_state(
            Health.STALLED,
            (F.size(stalled) > 0) & ~acknowledged,
            reasons.standing(stalled, reasons.stalled),
        ),
        _of_state(
            Health.FALLING_BEHIND,
            (steps >= threshold("rising_steps")) & (rise > enough),
            reasons.falling_behind(steps, _newest("known"), rise_seconds, enough),
        ),
        _of_state(Health.UNKNOWN, _may_hold_popped(), reasons.may_hold_popped()),
    )


def _calm(threshold: Threshold) -> list[Column]:
    """Return the states of a group without trouble now, each NULL where it does not hold."""
    first, last = F.col("first.value"), F.col("last.value")
    # The larger rate, because the rest of a burst at a healthy group is no shrinking backlog.
    ripple = F.greatest("produce_tps", "produced_tps") * threshold("rise_seconds")
    had_trouble = F.coalesce(first > ripple, F.lit(False)) | F.col("was_worse")
    traffic = _progressed() | F.coalesce("written", F.lit(False))
    signs = ("inflight", "inflight_witness", "redelivered")
    unfinished = F.greatest(*(F.coalesce(F.col(name) > 0, F.lit(False)) for name in signs))
    busy = traffic | _acknowledges() | unfinished
    return [
        _of_state(Health.CATCHING_UP, (last < first) & (last > 0) & had_trouble, _lag()),
        _of_state(Health.IDLE, (F.col("value") == 0) & ~busy, reasons.idle()),
        _of_state(Health.OK, F.lit(True), _lag()),
    ]


def _lag() -> Column:
    return reasons.joined(reasons.lag_change(), reasons.redelivered(), reasons.flow_controlled())
