"""What happened to queues and brokers between two observations: ``progress.events``.

An event is a transition: two observations of a queue that follow each other, and what one shows
that the other did not. A state that lasts is one event, at its first observation. What was not
observed before (the first look at a cluster, a queue of a broker that was silent for longer than a
day) has no event, for nobody saw it happen.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.steps import EVERY
from lake.tables import progress
from spark.columns import SNAPSHOT, at_least_zero, milliseconds

KEY = ("broker", "topic", "queue_id", "consumer_group", "client_key")
"""A queue as one group, or one broadcasting client, reads it, within a step."""

STEP = (*SNAPSHOT, "broker", "previous_at")

FAR = 100
"""A commit that advances so much further than messages were delivered has skipped some."""

DELIVERED_TIMES = 10
"""Nor is a commit far ahead of what was delivered below so many times of it: the broker counts
every 10 s (`StatsItem`), and what it counted last may be little of what came since."""

COVERED_SECONDS = 90
"""The longest step that the broker's count of the last minute says something of."""

CLIENT_RESTARTED = "client restarted"
REBALANCE = "rebalance"
RESET = "reset by an operator"
BROKER_RESTARTED = "broker restarted before it persisted"
LOCAL_FILE = "local file deleted or edited"
RECREATED_TOPIC = "topic recreated"
NOBODY_ONLINE = "nobody online"


def events(
    queues: DataFrame,
    groups: DataFrame,
    clients: DataFrame,
    brokers: DataFrame,
    stats: DataFrame,
    steps: DataFrame,
) -> DataFrame:
    """``progress.events`` of a window.

    Args:
        queues: ``progress.queues`` of the window and of every ``previous_snapshot_id``.
        groups: ``progress.groups`` of the same observations; says when nobody was online.
        clients: ``raw.clients`` of them.
        brokers: ``raw.brokers`` of the window.
        stats: ``raw.broker_stats`` of the window.
        steps: the window's steps, one row each, with the fields of `lake.steps.Step`.

    Returns:
        One row per transition, with the columns of `lake.tables.progress.EVENTS`.
    """
    seen = steps.where("NOT down")
    compared = _evidence(_compared(queues, seen), groups, clients, brokers, stats)
    found = F.explode(F.array_compact(_found()))
    happened = compared.select(*STEP, *KEY[1:-1], "client_id", found.alias("event"))
    return _shaped(happened.select("*", "event.*")).unionByName(_shaped(_down(steps)))


def _shaped(rows: DataFrame) -> DataFrame:
    return rows.select(*progress.EVENTS.column_names)


def _down(steps: DataFrame) -> DataFrame:
    """Brokers that did not answer any more."""
    nothing = {
        **dict.fromkeys(("topic", "consumer_group", "client_id", "likely_cause"), "string"),
        **dict.fromkeys(("from_offset", "to_offset", "messages"), "bigint"),
        "queue_id": "int",
    }
    return steps.where("down").select(
        *STEP,
        F.lit("BROKER_DOWN").alias("kind"),
        *[F.lit(None).cast(kind).alias(name) for name, kind in nothing.items()],
    )


def _compared(queues: DataFrame, steps: DataFrame) -> DataFrame:
    """One row per step and queue, of which something may have happened: ``now``, ``before``."""
    rows = queues.withColumn("client_key", F.coalesce("client_id", F.lit("")))
    state = ("consumer_offset", "max_offset", "min_offset", "lost", "offset_store")
    now = F.struct(*state, "previous_consumer_offset", "previous_max_offset")
    steps = F.broadcast(steps)
    later = rows.select("snapshot_id", *KEY, now.alias("now")).join(
        steps.select("snapshot_id", "broker"), on=["snapshot_id", "broker"]
    )
    earlier = rows.select(
        F.col("snapshot_id").alias("previous_snapshot_id"), *KEY, F.struct(*state).alias("before")
    ).join(
        steps.select("snapshot_id", "previous_snapshot_id", "broker"),
        on=["previous_snapshot_id", "broker"],
    )
    return (
        later.join(earlier.drop("previous_snapshot_id"), on=["snapshot_id", *KEY], how="full")
        .where(~F.coalesce(_is_dull(), F.lit(False)))
        .join(steps, on=["snapshot_id", "broker"])
        .withColumn("client_id", F.nullif("client_key", F.lit("")))
    )


def _is_dull() -> Column:
    """Whether a queue just stayed what it was, or went on by a little: most rows."""
    step = F.col("now.consumer_offset") - F.col("now.previous_consumer_offset")
    return (
        step.between(0, FAR - 1)
        & F.col("before.consumer_offset").isNotNull()
        & (F.col("now.max_offset") >= F.col("now.previous_max_offset"))
        & (F.col("now.consumer_offset").between(F.col("now.min_offset"), F.col("now.max_offset")))
    )


# Evidence: who was online at both ends, and whether the broker was restarted between them.


def _evidence(
    compared: DataFrame, groups: DataFrame, clients: DataFrame, brokers: DataFrame, stats: DataFrame
) -> DataFrame:
    online = groups.select("snapshot_id", "consumer_group", "topic", "online")
    starts = F.when(F.col("started_at").isNotNull(), F.struct("client_id", "started_at"))
    members = clients.groupBy("snapshot_id", "consumer_group").agg(
        F.collect_set("client_id").alias("members"),
        F.collect_set(starts).alias("starts"),
        F.flatten(F.collect_set("subscriptions.topic")).alias("read"),
        F.flatten(F.collect_set(_topics_in_part())).alias("read_in_part"),
    )
    boots = brokers.groupBy("snapshot_id", "broker").agg(
        F.min_by("booted_at", "broker_id").alias("booted_at")
    )
    for frame, key in (
        (online, ["consumer_group", "topic"]),
        (members, ["consumer_group"]),
    ):
        compared = compared.join(frame, on=["snapshot_id", *key], how="left").join(
            _of_previous(frame, key), on=["previous_snapshot_id", *key], how="left"
        )
    return compared.join(F.broadcast(boots), on=["snapshot_id", "broker"], how="left").join(
        _delivered(stats), on=["snapshot_id", "broker", "consumer_group", "topic"], how="left"
    )


def _topics_in_part() -> Column:
    """The topics of which a member does not ask for every message."""
    everything = ("*", "")
    part = F.filter(
        "subscriptions",
        lambda each: (
            (each["expression_type"] == "SQL92")
            | ~F.trim(F.coalesce(each["expression"], F.lit(""))).isin(*everything)
        ),
    )
    return F.transform(part, lambda each: each["topic"])


def _delivered(stats: DataFrame) -> DataFrame:
    """Messages a second that a broker, slaves too, handed to a group in the last minute."""
    return (
        stats.where("stats_name = 'GROUP_GET_NUMS' AND stats_window = 'minute'")
        .groupBy("snapshot_id", "broker", "consumer_group", "topic")
        .agg(F.sum("tps").alias("delivered_tps"))
    )


def _of_previous(frame: DataFrame, key: list[str]) -> DataFrame:
    """The same columns, named as those of the observation before."""
    return frame.select(
        *[F.col(name).alias(name if name in key else f"previous_{name}") for name in frame.columns]
    )


def _nobody() -> Column:
    """Whether nobody was online at either end."""
    return F.coalesce(~F.col("online") & ~F.col("previous_online"), F.lit(False))


def _skips(skipped: Column) -> Column:
    """Whether a commit advanced by far more than was delivered.

    With nobody online nothing was. Else the broker has to have told, members must have stayed, and
    have asked for every message: what their filter leaves out is not delivered.
    """
    gone, come, again = _changes()
    seconds = milliseconds("previous_at", "observed_at") / 1000
    everything = F.array_contains("read", F.col("topic")) & ~F.array_contains(
        "read_in_part", F.col("topic")
    )
    outrun = skipped >= F.col("delivered_tps") * seconds * DELIVERED_TIMES + FAR
    stayed = (gone == 0) & (come == 0) & ~again
    told = (seconds <= COVERED_SECONDS) & stayed & everything & outrun
    return (_nobody() & (skipped >= FAR)) | F.coalesce(told, F.lit(False))


def _changes() -> tuple[Column, Column, Column]:
    """How many members are gone, how many have come, and whether one was started again."""
    gone = F.size(F.array_except("previous_members", "members"))
    come = F.size(F.array_except("members", "previous_members"))
    again = F.exists(
        "starts",
        lambda now: F.exists(
            "previous_starts",
            lambda before: (
                (now["client_id"] == before["client_id"])
                & (now["started_at"] > before["started_at"])
            ),
        ),
    )
    return gone, come, again


def _why_moved() -> Column:
    """The likely cause of a commit that went where consuming does not lead."""
    gone, come, again = _changes()
    booted = F.col("booted_at") > F.col("previous_at")
    return (
        F.when(F.col("now.offset_store") == "client_file", LOCAL_FILE)
        .when(F.col("before.consumer_offset") > F.col("before.max_offset"), RECREATED_TOPIC)
        .when(booted, BROKER_RESTARTED)
        .when(again | ((gone > 0) & (come > 0)), CLIENT_RESTARTED)
        .when((gone > 0) | (come > 0), REBALANCE)
        .when(_nobody(), RESET)
        # The same members as before, none of them started again, on a broker that stayed up.
        .when((gone == 0) & (come == 0) & ~booted, RESET)
    )


# The kinds.


def _found() -> Column:
    """Every kind that a row shows, NULLs between."""
    commit, was = F.col("now.consumer_offset"), F.col("now.previous_consumer_offset")
    maximum, minimum = F.col("now.max_offset"), F.col("now.min_offset")
    max_was, before = F.col("now.previous_max_offset"), F.col("before.consumer_offset")
    recreated = F.coalesce(maximum < max_was, F.lit(False))
    is_known = F.col("before").isNotNull()
    was_ahead = F.coalesce(before > F.col("before.max_offset"), F.lit(False))
    was_lost = F.coalesce(F.col("before.lost") > 0, F.lit(False))
    # What only some snapshots ask clients for is not gone from the others.
    lacking = F.exists("lacking", lambda topic: topic.isin(F.col("topic"), F.lit(EVERY)))
    told = ~lacking & (F.col("client_key") == "")
    booted = F.col("booted_at") > F.col("previous_at")
    again = at_least_zero(F.least(was, maximum) - F.greatest(commit, minimum))
    skipped = commit - F.greatest(was, minimum)
    return F.array(
        _event("RECREATED", recreated, max_was, maximum, at_least_zero(max_was - was),
               F.when(booted, BROKER_RESTARTED)),
        _event("REWOUND", ~recreated & (commit < was), was, commit, again, _why_moved()),
        _event("SKIPPED", ~recreated & _skips(skipped), was, commit, skipped, F.lit(RESET)),
        _event("LOST", (F.col("now.lost") > 0) & is_known & ~was_lost, commit, minimum,
               F.col("now.lost"), F.when(_nobody(), NOBODY_ONLINE)),
        _event("AHEAD_OF_BROKER", (commit > maximum) & is_known & ~was_ahead, maximum, commit,
               commit - maximum, F.when(recreated, RECREATED_TOPIC).when(booted, BROKER_RESTARTED)),
        _event("DISAPPEARED", before.isNotNull() & commit.isNull()
               & (F.col("now").isNotNull() | told), before, commit, None, None),
        _event("FIRST_COMMIT", commit.isNotNull() & before.isNull() & (is_known | told), before,
               commit, None, None),
    )  # fmt: skip


def _event(
    kind: str,
    condition: Column,
    start: Column,
    end: Column,
    messages: Column | None,
    cause: Column | None,
) -> Column:
    """An event where the condition holds, else NULL."""
    return F.when(
        condition,
        F.struct(
            F.lit(kind).alias("kind"),
            start.alias("from_offset"),
            end.alias("to_offset"),
            (F.lit(None) if messages is None else messages).cast("bigint").alias("messages"),
            (F.lit(None) if cause is None else cause).cast("string").alias("likely_cause"),
        ),
    )
