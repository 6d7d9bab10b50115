"""Health of every group on every topic: the rules of its states, in the order they are tried.

The first true rule gives the state. `RULES_OF_TROUBLE` and `RULES_OF_CALM` are their order,
`tidemark.settings.health.Thresholds` has the thresholds, and `spark.progress.health_reasons` the
words.

Health follows from the last `tidemark.settings.sections.OBSERVATIONS` observations of a group on a
topic and from nothing before them, so a tick that reads only these and a backfill of a year give
the same rows.

Lag alone is no alarm. A queue is *standing* when it has lagged for longer than a healthy consumer
takes to commit and its commit has not advanced in any of these observations. One new message on a
quiet topic does not make a queue standing, nor does a commit that comes with the next poll.

A standing queue is a fault whichever members are online; the reason states the unknown facts about
them. An unknown value never makes a group healthy: `OK` and `IDLE` of a POP group need a known
acknowledgement, or a known number of messages in flight.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import GROUP_TOPIC_HISTORY, Added, column, matches, milliseconds
from spark.progress import health_reasons as reasons
from spark.progress.consume_modes import is_lite
from spark.progress.groups import OF_ONE_OBSERVATION
from spark.progress.health_reasons import Reason
from spark.progress.queue_progress import (
    KNOWN,
    QUEUE,
    GroupHistory,
    QueueHistory,
    QueuesOfGroup,
    Track,
    group_progress,
    in_observations,
    queue_progress,
)
from spark.tuning import inside, resolved, small
from tidemark.lake.clocks import Window
from tidemark.model.health import Health, HealthReason
from tidemark.rocketmq.names import RETRY_PREFIX
from tidemark.settings.health import DEFAULTS, Override, Thresholds

Threshold = Callable[[str], Column]
"""Returns the threshold of that name, as it holds for a row."""

WORSE_THAN_CATCHING_UP = (
    Health.LOSING,
    Health.STOPPED,
    Health.BLOCKED,
    Health.STALLED,
    Health.FALLING_BEHIND,
)
"""States after which a lag that falls is `CATCHING_UP`, however small it is."""


_STATE = "struct<health:string,reason:string>"


class Judged(Added):
    """Columns that the rules compare, and what they decide."""

    first = column(KNOWN, "the first known observation")
    last = column(KNOWN, "the last known observation")
    unhealthy = column(f"array<{QUEUE}>", "the standing queues that count; see `counts_for_health`")
    trouble = column(_STATE, "the state by `RULES_OF_TROUBLE`; NULL where none of them is true")
    was_worse = column("boolean", "one of the observations was `WORSE_THAN_CATCHING_UP`")
    state = column(_STATE, "the state")
    named_queues = column(f"array<{QUEUE}>", "the queues that its reason names")


def rule_1_losing(_: Threshold) -> Column:
    """Rule 1, `LOSING`: more messages expired unconsumed than at the first known observation."""
    expired = Judged.last["lost"] > _initially_lost()
    return _state(Health.LOSING, HealthReason.MESSAGES_EXPIRED, expired)


def rule_2_unknown(threshold: Threshold) -> Column:
    """Rule 2, `UNKNOWN`: the lag is unknown now, or too few observations are known."""
    is_unknown = GroupHistory.value.isNull()
    too_few = F.size(GroupHistory.known) < threshold("known")
    reason = (
        F.when(~F.col("complete"), HealthReason.QUEUES_UNKNOWN)
        .when(is_unknown, HealthReason.LAG_UNKNOWN)
        .otherwise(HealthReason.FEW_OBSERVATIONS)
    )
    return _state(Health.UNKNOWN, reason, is_unknown | too_few)


def rule_3_unsubscribed(_: Threshold) -> Column:
    """Rule 3, `UNSUBSCRIBED`: members are online, and none subscribes to the topic.

    A retry topic belongs to its group. The number of clients is unknown where a member reports no
    subscription: such a member may be assigned the topic.
    """
    nobody = (F.col("clients") == 0) & ~F.col("topic").startswith(RETRY_PREFIX)
    return _state(Health.UNSUBSCRIBED, HealthReason.NO_SUBSCRIBER, F.col("online") & nobody)


def rule_4_stopped(_: Threshold) -> Column:
    """Rule 4, `STOPPED`: messages wait, no member is online, and nothing progresses without one."""
    no_progress = ~_progressed() | (~GroupHistory.was_online & ~_stepped_offline())
    stopped = (GroupHistory.value > 0) & ~F.col("online") & no_progress & ~_acknowledges()
    return _state(Health.STOPPED, HealthReason.NO_MEMBER_ONLINE, stopped)


def rule_5_blocked(_: Threshold) -> Column:
    """Rule 5, `BLOCKED`: messages of a standing queue were handed out and are not finished."""
    blocked = (F.size(_blocked_queues()) > 0) & ~_acknowledged()
    return _state(Health.BLOCKED, HealthReason.MESSAGES_UNFINISHED, blocked)


def rule_6_blocked_by_pops(_: Threshold) -> Column:
    """Rule 6, `BLOCKED`: a POP group has messages in flight and is not known to finish any."""
    flying = GroupHistory.in_flight
    stays = (F.size(flying) > 1) & (F.array_min(flying) > 0)
    no_fewer = _newest(flying) >= F.get(flying, F.lit(0))
    holds = GroupHistory.pops & stays & no_fewer & ~_progressed() & ~_acknowledges()
    return _state(Health.BLOCKED, HealthReason.POPPED_UNFINISHED, holds)


def rule_7_stalled(_: Threshold) -> Column:
    """Rule 7, `STALLED`: a queue is standing, and none of its messages is known to be worked on."""
    stalled = (F.size(_stalled_queues()) > 0) & ~_acknowledged()
    return _state(Health.STALLED, HealthReason.COMMITS_STAND, stalled)


def rule_8_falling_behind(threshold: Threshold) -> Column:
    """Rule 8, `FALLING_BEHIND`: the lag rises in most steps, by more than a while's production."""
    is_rising = _rising_steps() >= threshold("rising_steps")
    rise = Judged.last["value"] - Judged.first["value"]
    return _state(
        Health.FALLING_BEHIND,
        HealthReason.LAG_RISES,
        is_rising & (rise > _production_in_rise_seconds(threshold)),
    )


def rule_9_unknown_in_flight(_: Threshold) -> Column:
    """Rule 9, `UNKNOWN`: a POP group may hold messages, and no acknowledgement shows otherwise."""
    is_bound = F.coalesce("lag_is_lower_bound", F.lit(True))
    # An endpoint's number may be wrong, and 0 shows nothing; above 0 it forbids to call all done.
    is_witnessed = F.coalesce(F.col("inflight_witness") > 0, F.lit(False))
    may_hold = GroupHistory.pops & (is_bound | is_witnessed) & ~_acknowledges()
    return _state(Health.UNKNOWN, HealthReason.IN_FLIGHT_UNKNOWN, may_hold)


def rule_10_catching_up(threshold: Threshold) -> Column:
    """Rule 10, `CATCHING_UP`: the lag falls, after trouble or from more than a while's production.

    The larger rate of production counts, because the rest of a burst at a healthy group is no
    shrinking backlog.
    """
    first, last = Judged.first["value"], Judged.last["value"]
    ripple = F.greatest("produce_tps", GroupHistory.produced_tps) * threshold("rise_seconds")
    had_trouble = F.coalesce(first > ripple, F.lit(False)) | Judged.was_worse
    falls = (last < first) & (last > 0)
    return _state(Health.CATCHING_UP, HealthReason.LAG_FALLS, falls & had_trouble)


def rule_11_idle(_: Threshold) -> Column:
    """Rule 11, `IDLE`: no lag, nothing written, consumed, in flight or redelivered."""
    traffic = _progressed() | F.coalesce(QueuesOfGroup.written, F.lit(False))
    signs = (F.col("inflight"), F.col("inflight_witness"), GroupHistory.redelivered)
    unfinished = F.greatest(*(F.coalesce(sign > 0, F.lit(False)) for sign in signs))
    idle = (GroupHistory.value == 0) & ~(traffic | _acknowledges() | unfinished)
    return _state(Health.IDLE, HealthReason.NO_TRAFFIC, idle)


def rule_12_ok(_: Threshold) -> Column:
    """Rule 12, `OK`: none of the others is true."""
    return _state(Health.OK, HealthReason.CONSUMES, F.lit(True))


RULES_OF_TROUBLE = (
    rule_1_losing,
    rule_2_unknown,
    rule_3_unsubscribed,
    rule_4_stopped,
    rule_5_blocked,
    rule_6_blocked_by_pops,
    rule_7_stalled,
    rule_8_falling_behind,
    rule_9_unknown_in_flight,
)
"""Rules that need no earlier state, in order."""

RULES_OF_CALM = (rule_10_catching_up, rule_11_idle, rule_12_ok)
"""Rules of a group without trouble now, in order: they need to know its earlier states."""


def is_standing(threshold: Threshold) -> Column:
    """Return whether a queue lags and its commit is not further than at the first observation.

    Whatever it did between: a consumer that starts over again and again makes no progress. The row
    is one of a queue in `spark.progress.queue_progress`.
    """
    lagging_for = milliseconds(QueueHistory.lags_since, F.col("observed_at"))
    # The commits of a recreated queue before it fell were those of another one.
    is_same_queue = F.col("max_offset") >= QueueHistory.highest_written
    return (
        (F.col("lag_upper") > 0)
        & (QueueHistory.commit <= QueueHistory.first_commit)
        & (is_same_queue | (F.coalesce(QueueHistory.stepped, F.lit(0)) == 0))
        & (QueueHistory.lagged >= threshold("standing"))
        & (lagging_for >= threshold("standing_for"))
    )


def counts_for_health(queue: Column) -> Column:
    """Return whether a standing queue counts for the health of its group.

    A queue without a commit counts only while a client is known to be online, which could make the
    first commit. A broker-side commit of a group that is broadcasting now does not count: the group
    made it in clustering mode and no longer uses it. A queue does not count while messages of a
    higher priority are consumed, because it waits by design.
    """
    is_leftover = (F.col("message_model") == "BROADCASTING") & queue["from_broker"]
    commit_expected = queue["consumer_offset"].isNotNull() | F.coalesce("online", F.lit(False))
    has_its_turn = ~(QueuesOfGroup.first_rank < queue["priority_rank"])
    expected = commit_expected & F.coalesce(has_its_turn, F.lit(True))
    return ~F.coalesce(is_leftover, F.lit(False)) & expected


def is_handed_out(queue: Column) -> Column:
    """Return whether messages of a standing queue were handed out and are not finished."""
    pulled = F.coalesce(queue["pull_offset"] > queue["lowest_pull"], F.lit(False))
    return pulled | F.coalesce(queue["cache"]["messages"] > 0, F.lit(False))


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
            `tidemark.planning.run_plan.Observation`. A snapshot of several tracks has
            several rows; its health is that of the one that counts for itself.
        window: the window to compute.
        thresholds: of groups that no override matches.
        overrides: thresholds of some groups; the first that matches applies.

    Returns:
        One row per row of `groups`, with its columns and those of
        `tidemark.lake.tables.progress.HEALTH`.
    """
    threshold = partial(threshold_column, defaults=thresholds, overrides=overrides)
    before = earlier.select(
        *OF_ONE_OBSERVATION,
        *Track.named(earlier_worse=F.col("health").isin(*WORSE_THAN_CATCHING_UP)),
    )
    progress = queue_progress(queues, client_queues, numbers, is_standing(threshold))
    return (
        resolved(groups)
        .unionByName(before, allowMissingColumns=True)
        .join(small(numbers.select(*_track_columns())), "snapshot_id", "left")
        .join(progress, on=["snapshot_id", *GROUP_TOPIC_HISTORY], how="left")
        .transform(group_progress)
        .where(inside(window))
        .transform(resolved)
        .transform(
            Judged.to,
            first=F.get(GroupHistory.known, F.lit(0)),
            last=_newest(GroupHistory.known),
            unhealthy=F.filter(QueuesOfGroup.standing, counts_for_health),
        )
        .transform(Judged.to, trouble=_first_true(RULES_OF_TROUBLE, threshold))
        .transform(Judged.to, was_worse=_was_worse())
        .transform(
            Judged.to, state=F.coalesce(Judged.trouble, _first_true(RULES_OF_CALM, threshold))
        )
        .where(F.coalesce(Track.counts_for_itself, F.lit(True)))
        .transform(Reason.to, reason=Judged.state["reason"])
        .transform(Judged.to, named_queues=_named_queues())
        .transform(Reason.to, facts=reasons.facts(_facts(threshold)))
        .select(
            *OF_ONE_OBSERVATION,
            "state.health",
            reasons.text().alias("health_reason"),
            F.when(QueuesOfGroup.has_limit, F.size(QueuesOfGroup.held_back)).alias(
                "queues_flow_controlled"
            ),
            Reason.reason.alias("health_reason_code"),
            Reason.facts.alias("health_facts"),
        )
    )


def threshold_column(name: str, defaults: Thresholds, overrides: Sequence[Override]) -> Column:
    """Return a threshold for each row.

    Args:
        name: a field of `tidemark.settings.health.Thresholds`.
        defaults: of groups that no override matches.
        overrides: the first that matches a row applies.

    Returns:
        A number; durations in milliseconds.
    """
    chosen = F.lit(_number(defaults, name))
    for override in reversed(overrides):
        own = F.lit(_number(override.thresholds, name))
        chosen = F.when(matches(override.match), own).otherwise(chosen)
    return chosen


def _number(thresholds: Thresholds, name: str) -> float | int:
    value = getattr(thresholds, name)
    return value // timedelta(milliseconds=1) if isinstance(value, timedelta) else value


def _first_true(rules: Sequence[Callable[[Threshold], Column]], threshold: Threshold) -> Column:
    """Return the state of the first rule that is true, a struct; NULL where none is."""
    return F.coalesce(*(rule(threshold) for rule in rules))


def _state(health: Health, reason: HealthReason | Column, condition: Column) -> Column:
    """Return a struct of ``health`` and ``reason``, NULL where the state does not hold."""
    reason = F.lit(reason) if isinstance(reason, HealthReason) else reason
    return F.when(condition, F.struct(F.lit(health).alias("health"), reason.alias("reason")))


def _track_columns() -> list[Column]:
    own = F.map_contains_key(F.col("counts_for"), F.col("snapshot_id"))
    return [
        F.col("snapshot_id"),
        *Track.named(number=F.col("number"), counts_for_itself=own),
    ]


def _was_worse() -> Column:
    """Return whether one of the observations was in a state `WORSE_THAN_CATCHING_UP`."""
    is_worse = Judged.trouble["health"].isin(*WORSE_THAN_CATCHING_UP)
    in_window = F.max(is_worse).over(in_observations())
    return F.coalesce(in_window, F.lit(False)) | F.coalesce(
        GroupHistory.was_worse_earlier, F.lit(False)
    )


def _newest(array: Column) -> Column:
    return F.get(array, F.size(array) - 1)


def _initially_lost() -> Column:
    """Return the first known number of lost messages: it is unknown before the first commit."""
    return F.get(F.filter(GroupHistory.known["lost"], lambda lost: lost.isNotNull()), F.lit(0))


def _progressed() -> Column:
    return F.coalesce(QueuesOfGroup.progressed, F.lit(False))


def _stepped_offline() -> Column:
    """Return whether a commit advanced while no client was online."""

    def stepped(number: Column) -> Column:
        ago = (Track.number - number).cast("int")
        return F.getbit(QueuesOfGroup.stepped, ago) == 1

    return F.coalesce(F.exists(GroupHistory.offline, stepped), F.lit(False))


def _acknowledges() -> Column:
    """Return whether the group is known to acknowledge: the progress of a POP group.

    Its commits move when messages are popped.
    """
    return F.coalesce(GroupHistory.largest_ack_tps > 0, F.lit(False))


def _acknowledged() -> Column:
    """Return whether acknowledgements are the progress of the group's standing queues.

    Brokers count acknowledgements of lite topics at the topic that these belong to.
    """
    return (GroupHistory.pops | is_lite(F.col("topic"))) & _acknowledges()


def _blocked_queues() -> Column:
    return F.filter(Judged.unhealthy, is_handed_out)


def _stalled_queues() -> Column:
    return F.filter(Judged.unhealthy, lambda queue: ~is_handed_out(queue))


def _rising_steps() -> Column:
    """Count the steps between known observations that go up or stay level."""
    values, steps = (
        GroupHistory.known["value"],
        F.greatest(F.size(GroupHistory.known) - 1, F.lit(0)),
    )
    rising = F.zip_with(
        F.slice(values, F.lit(2), steps), F.slice(values, F.lit(1), steps), lambda b, a: b >= a
    )
    return F.size(F.filter(rising, lambda step: step))


def _production_in_rise_seconds(threshold: Threshold) -> Column:
    """Return the messages that are produced in the time that a rise is compared with.

    Production as it is now: the mean of a quiet topic's window is lower than its next message.
    """
    return F.coalesce("produce_tps", GroupHistory.produced_tps) * threshold("rise_seconds")


def _named_queues() -> Column:
    """Return the queues that the reason of a row names."""
    reason = Judged.state["reason"]
    return (
        F.when(reason == HealthReason.MESSAGES_EXPIRED, QueuesOfGroup.losing)
        .when(reason == HealthReason.MESSAGES_UNFINISHED, _blocked_queues())
        .when(reason == HealthReason.COMMITS_STAND, _stalled_queues())
        .otherwise(QueuesOfGroup.held_back)
    )


def _facts(threshold: Threshold) -> dict[str, Column]:
    """Return the values that reasons may state, by field of ``health_facts``."""
    is_of_value = Reason.reason.isin(HealthReason.NO_SUBSCRIBER, HealthReason.NO_MEMBER_ONLINE)
    flying, named = GroupHistory.in_flight, F.size(Judged.named_queues)
    return {
        "observations": GroupHistory.observations,
        "span_ms": milliseconds(GroupHistory.since, F.col("observed_at")),
        "known": F.size(GroupHistory.known),
        "lag": F.when(is_of_value, GroupHistory.value).otherwise(Judged.last["value"]),
        "lag_before": Judged.first["value"],
        "lost": Judged.last["lost"],
        "lost_before": _initially_lost(),
        "in_flight": _newest(flying),
        "in_flight_before": F.get(flying, F.lit(0)),
        "acks_counted": F.when(GroupHistory.pops, GroupHistory.largest_ack_tps.isNotNull()),
        "redelivered_tps": GroupHistory.redelivered,
        "rising_steps": _rising_steps(),
        "steps": F.size(GroupHistory.known) - 1,
        "rise_seconds": threshold("rise_seconds"),
        "rise_messages": _production_in_rise_seconds(threshold),
        "queues_named": F.when(named > 0, named),
        "queues": F.when(
            named > 0,
            F.transform(F.slice(Judged.named_queues, 1, reasons.NAMED_QUEUES), reasons.queue_facts),
        ),
    }
