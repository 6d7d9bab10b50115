"""Events of queues and brokers between two observations: ``progress.events``.

An event is a transition between two consecutive observations of a queue. A state that lasts is one
event, at its first observation. A queue without an earlier observation has no event: in the first
snapshot of a cluster, or on a broker that was unreachable for longer than a day.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import (
    SNAPSHOT,
    Added,
    at_least_zero,
    column,
    is_topic_of_users,
    milliseconds,
    unknown_of,
    with_new,
)
from spark.progress.consume_modes import is_lite
from spark.progress.timeline import without_skew
from spark.tuning import hashed, small
from tidemark.lake.system_topics import NamedTopics
from tidemark.lake.tables import progress
from tidemark.model.consumption import EventKind
from tidemark.planning.observation_steps import EVERY
from tidemark.rocketmq.names import StatsName


class Ends(Added):
    """Facts about both ends of a step."""

    members = column("array<string>", "client ids of the group's members")
    starts = column(
        "array<struct<client_id:string,started_at:timestamp>>", "when its members were started"
    )
    subscribed = column("array<string>", "topics that they subscribe to")
    filtered = column("array<string>", "topics that they subscribe to with a filter")
    master = column("string", "address of the broker's master")
    delivered_tps = column("double", "messages a second that it and its slaves delivered last")
    previous_members = column("array<string>", "`members` at the begin")
    previous_starts = column(
        "array<struct<client_id:string,started_at:timestamp>>", "`starts` at the begin"
    )
    previous_master = column("string", "`master` at the begin")
    previous_online = column("boolean", "a client was online at the begin")


def with_evidence(
    compared: DataFrame, groups: DataFrame, clients: DataFrame, brokers: DataFrame, stats: DataFrame
) -> DataFrame:
    """Add online members and masters at both ends of a step, and the delivered messages.

    Args:
        compared: rows with ``snapshot_id``, ``previous_snapshot_id``, ``broker``,
            ``consumer_group`` and ``topic``.
        groups: ``progress.groups``, as for `spark.progress.events.events`.
        clients: ``raw.clients``.
        brokers: ``raw.brokers``.
        stats: ``raw.broker_stats``.

    Returns:
        The same rows. A column of the step's begin is named ``previous_<name>``.
    """
    online = groups.select("snapshot_id", "consumer_group", "topic", "online")
    starts = F.when(F.col("started_at").isNotNull(), F.struct("client_id", "started_at"))
    members = clients.groupBy("snapshot_id", "consumer_group").agg(
        *Ends.named(
            members=F.collect_set("client_id"),
            starts=F.collect_set(starts),
            subscribed=F.flatten(F.collect_set("subscriptions.topic")),
            filtered=F.flatten(F.collect_set(_filtered_topics())),
        ),
    )
    boots = brokers.groupBy("snapshot_id", "broker").agg(
        F.min_by(without_skew(F.col("booted_at"), F.col("clock_skew_ms")), "broker_id").alias(
            "booted_at"
        ),
        *Ends.named(master=F.min_by("address", "broker_id")),
    )
    masters = _at_begin(boots, ["broker"], ["master"])
    for frame, key, columns in (
        (online, ["consumer_group", "topic"], ["online"]),
        (members, ["consumer_group"], ["members", "starts", "subscribed", "filtered"]),
    ):
        compared = compared.join(frame, on=["snapshot_id", *key], how="left").join(
            _at_begin(frame, key, columns), on=["previous_snapshot_id", *key], how="left"
        )
    return (
        compared.join(small(boots), on=["snapshot_id", "broker"], how="left")
        .join(small(masters), on=["previous_snapshot_id", "broker"], how="left")
        .join(
            _delivered(stats), on=["snapshot_id", "broker", "consumer_group", "topic"], how="left"
        )
    )


def _filtered_topics() -> Column:
    """Return the topics that a member subscribes to with a filter."""
    all_messages = ("*", "")
    filtered = F.filter(
        "subscriptions",
        lambda column: (
            (column["expression_type"] == "SQL92")
            | ~F.trim(F.coalesce(column["expression"], F.lit(""))).isin(*all_messages)
        ),
    )
    return F.transform(filtered, lambda column: column["topic"])


def _delivered(stats: DataFrame) -> DataFrame:
    """Return messages a second that a broker and its slaves delivered in the last minute."""
    return (
        stats.where((F.col("stats_name") == StatsName.SERVED) & (F.col("stats_window") == "minute"))
        .groupBy("snapshot_id", "broker", "consumer_group", "topic")
        .agg(*Ends.named(delivered_tps=F.sum("tps")))
    )


def _at_begin(frame: DataFrame, key: list[str], columns: list[str]) -> DataFrame:
    """Rename columns and ``snapshot_id`` to ``previous_<name>``.

    They are named, because a frame's own list of columns would make Spark resolve its plan.
    """
    renamed = [F.col(name).alias(f"previous_{name}") for name in ("snapshot_id", *columns)]
    return frame.select(*key, *renamed)


def has_other_master() -> Column:
    """Return whether another replica is master than at the previous observation."""
    return Ends.master != Ends.previous_master


def topic_events(
    topics: DataFrame, queue_offsets: DataFrame, steps: DataFrame, system_topics: NamedTopics = ()
) -> DataFrame:
    """Compute the events of topics of a window.

    Args:
        topics: ``raw.topics`` of the window and of every ``previous_snapshot_id``.
        queue_offsets: valid ``raw.queue_offsets`` of them.
        steps: the window's steps, one row each, with the fields of
            `tidemark.planning.observation_steps.Step`.
        system_topics: system topics that their names do not show, by cluster.

    Returns:
        One row per step and topic with fewer ``read_queues``, with the columns of
        `tidemark.lake.tables.progress.EVENTS`. ``messages`` are those of the queues in between; as
        they were before, where the later snapshot does not have them, as of queues without a
        commit.
    """
    seen = small(steps.where(~F.col("down")))
    now = topics.select("snapshot_id", "broker", "topic", F.col("read_queues").alias("now"))
    before = topics.select(
        F.col("snapshot_id").alias("previous_snapshot_id"),
        *("broker", "topic", F.col("read_queues").alias("before")),
    )
    shrunk = (
        now.join(seen, on=["snapshot_id", "broker"], how="inner")
        .join(before, on=["previous_snapshot_id", "broker", "topic"], how="inner")
        .where((F.col("now") < F.col("before")) & is_topic_of_users(system_topics))
        .select(
            *SNAPSHOT, "previous_snapshot_id", "previous_at", "broker", "topic", "now", "before"
        )
    )
    stored = queue_offsets.select(
        F.col("snapshot_id").alias("stored_in"),
        *("broker", "topic", "queue_id"),
        (F.col("max_offset") - F.col("min_offset")).alias("stored"),
    )
    is_of_step = F.col("stored_in").isin(F.col("snapshot_id"), F.col("previous_snapshot_id"))
    is_lost = F.col("queue_id").between(F.col("now"), F.col("before") - 1)
    key = [*SNAPSHOT, "previous_at", "broker", "topic", "now", "before"]
    is_now = F.col("stored_in") == F.col("snapshot_id")
    left = F.when(is_of_step & is_lost, F.col("stored"))
    frame = (
        stored.join(small(shrunk), on=["broker", "topic"], how="right")
        .groupBy(*key, "queue_id")
        .agg(F.max_by(left, F.when(left.isNotNull(), is_now.cast("int"))).alias("left"))
        .groupBy(*key)
        .agg(F.try_sum("left").alias("messages"))
    )
    unknown = unknown_of(
        progress.EVENTS,
        *("queue_id", "consumer_group", "client_id", "previous_client_id"),
        *("from_offset", "to_offset", "unowned_ms", "likely_cause"),
    )
    evidence = F.format_string("read queues %d, before %d", "now", "before")
    return with_new(
        frame, **(unknown | {"kind": F.lit(EventKind.SHRUNK), "evidence": evidence})
    ).select(*progress.EVENTS.column_names)


KEY = ("broker", "topic", "queue_id", "consumer_group", "client_key")
"""A queue as a group, or a broadcasting client, consumes it, within a step."""

STEP = (*SNAPSHOT, "broker", "previous_at")
"""A broker between two consecutive observations."""

SKIPPED_MESSAGES = 100
"""Advance of a commit, in messages beyond those delivered, from which it skipped some."""

DELIVERED_TIMES = 10
"""Advance of a commit, in multiples of the delivered messages, from which it skipped some. The
broker counts every 10 s (`StatsItem`), so its latest count may cover little of the step."""

COVERED_SECONDS = 90
"""The longest step that the broker's count of the last minute covers well enough."""

ONLY_OF_CLIENTS = ("previous_client_id", "unowned_ms", "evidence")
"""Columns of ``progress.events`` that events of queues between two observations do not have."""

CLIENT_RESTARTED = "client restarted"
REBALANCE = "rebalance"
RESET = "reset by an operator"
BROKER_RESTARTED = "broker restarted before it persisted"
OTHER_MASTER = "another replica became master"
LOCAL_FILE = "local file deleted or edited"
RECREATED_TOPIC = "topic recreated"
BEYOND_END = "commit was beyond the end of the queue"
NO_CLIENT_ONLINE = "nobody online"


_STATE = (
    "consumer_offset:bigint,max_offset:bigint,min_offset:bigint,lost:bigint,offset_store:string"
)


class Compared(Added):
    """A queue at both ends of a step; see `with_evidence` for what else is known of these."""

    now = column(
        f"struct<{_STATE},previous_consumer_offset:bigint,previous_max_offset:bigint>",
        "at the end; NULL where it has no row",
    )
    before = column(f"struct<{_STATE}>", "at the begin; NULL where it has no row")
    client_key = column("string", "the broadcasting client, empty for a clustering group")


def events(
    queues: DataFrame,
    groups: DataFrame,
    clients: DataFrame,
    brokers: DataFrame,
    stats: DataFrame,
    steps: DataFrame,
) -> DataFrame:
    """Compute ``progress.events`` of a window.

    Args:
        queues: ``progress.queues`` of the window and of every ``previous_snapshot_id``.
        groups: ``progress.groups`` of the same observations, which show when no client was online.
        clients: ``raw.clients`` of them.
        brokers: ``raw.brokers`` of the same observations.
        stats: ``raw.broker_stats`` of the window.
        steps: the window's steps, one row each, with the fields of
            `tidemark.planning.observation_steps.Step`.

    Returns:
        One row per transition, with the columns of `tidemark.lake.tables.progress.EVENTS`.
    """
    seen = steps.where(~F.col("down"))
    compared = with_evidence(_compared(queues, seen), groups, clients, brokers, stats)
    event = F.explode(F.array_compact(_possible_events())).alias("event")
    happened = compared.select(*STEP, *KEY[1:-1], "client_id", event)
    rows = with_new(
        happened.select("*", "event.*"), **unknown_of(progress.EVENTS, *ONLY_OF_CLIENTS)
    )
    return rows.select(*progress.EVENTS.column_names).unionByName(_down(steps))


def _down(steps: DataFrame) -> DataFrame:
    """Return an event for each broker that became unreachable."""
    others = [name for name in progress.EVENTS.column_names if name not in (*STEP, "kind")]
    rows = with_new(
        steps.where(F.col("down")).select(*STEP),
        kind=F.lit(EventKind.BROKER_DOWN),
        **unknown_of(progress.EVENTS, *others),
    )
    return rows.select(*progress.EVENTS.column_names)


def _compared(queues: DataFrame, steps: DataFrame) -> DataFrame:
    """Return one row per step and queue that may have an event, with ``now`` and ``before``."""
    rows = Compared.to(queues, client_key=F.coalesce("client_id", F.lit("")))
    state = ("consumer_offset", "max_offset", "min_offset", "lost", "offset_store")
    now = F.struct(*state, "previous_consumer_offset", "previous_max_offset")
    steps = small(steps)
    later = rows.select("snapshot_id", *KEY, *Compared.named(now=now)).join(
        steps.select("snapshot_id", "broker"), on=["snapshot_id", "broker"]
    )
    earlier = rows.select(
        F.col("snapshot_id").alias("previous_snapshot_id"),
        *KEY,
        *Compared.named(before=F.struct(*state)),
    ).join(
        steps.select("snapshot_id", "previous_snapshot_id", "broker"),
        on=["previous_snapshot_id", "broker"],
    )
    return (
        later.join(
            hashed(earlier.select("snapshot_id", *KEY, "before")),
            on=["snapshot_id", *KEY],
            how="full",
        )
        .where(~F.coalesce(_is_uneventful(), F.lit(False)))
        .join(steps, on=["snapshot_id", "broker"])
        .transform(with_new, client_id=F.nullif(Compared.client_key, F.lit("")))
    )


def _is_uneventful() -> Column:
    """Return whether a queue stayed as it was or advanced by little, as most queues do."""
    step = Compared.now["consumer_offset"] - Compared.now["previous_consumer_offset"]
    return (
        step.between(0, SKIPPED_MESSAGES - 1)
        & Compared.before["consumer_offset"].isNotNull()
        & (Compared.now["max_offset"] >= Compared.now["previous_max_offset"])
        & (
            Compared.now["consumer_offset"].between(
                Compared.now["min_offset"], Compared.now["max_offset"]
            )
        )
    )


def _is_offline() -> Column:
    """Return whether no client was online at either end of the step.

    A commit that advances makes `online` unknown where no member is observed
    (`spark.progress.groups`), so after the step it suffices that no member is reported. A source
    that never shows members, such as files, does not show them before the step either.
    """
    seen = F.coalesce("online", Ends.members.isNotNull() | Ends.previous_members.isNotNull())
    return F.coalesce(~seen & ~Ends.previous_online, F.lit(False))


def _skips(skipped: Column) -> Column:
    """Return whether a commit advanced by far more than the delivered messages.

    Without clients online nothing is delivered. Otherwise the broker must report a count, and the
    members must stay the same and subscribe without filters: filtered messages are not delivered.
    """
    left, joined, restarted = member_changes()
    seconds = milliseconds(F.col("previous_at"), F.col("observed_at")) / 1000
    unfiltered = F.array_contains(Ends.subscribed, F.col("topic")) & ~F.array_contains(
        Ends.filtered, F.col("topic")
    )
    delivered = Ends.delivered_tps * seconds
    far_ahead = skipped >= delivered * DELIVERED_TIMES + SKIPPED_MESSAGES
    same_members = (left == 0) & (joined == 0) & ~restarted
    online_skip = (seconds <= COVERED_SECONDS) & same_members & unfiltered & far_ahead
    offline_skip = _is_offline() & (skipped >= SKIPPED_MESSAGES)
    return offline_skip | F.coalesce(online_skip, F.lit(False))


def member_changes() -> tuple[Column, Column, Column]:
    """Return the numbers of members that left and joined, and whether one was restarted."""
    left = F.size(F.array_except(Ends.previous_members, Ends.members))
    joined = F.size(F.array_except(Ends.members, Ends.previous_members))
    restarted = F.exists(
        Ends.starts,
        lambda now: F.exists(
            Ends.previous_starts,
            lambda before: (
                (now["client_id"] == before["client_id"])
                & (now["started_at"] > before["started_at"])
            ),
        ),
    )
    return left, joined, restarted


def _cause_of_move() -> Column:
    """Return the likely cause of a commit that moved other than by consumption."""
    left, joined, restarted = member_changes()
    booted = F.col("booted_at") > F.col("previous_at")
    return (
        F.when(Compared.now["offset_store"] == "client_file", LOCAL_FILE)
        # The client returns to existing offsets. `AHEAD_OF_BROKER` has the cause of the fallen end.
        .when(Compared.before["consumer_offset"] > Compared.before["max_offset"], BEYOND_END)
        # A slave has the commits of its master a minute late, and perhaps not its last messages.
        .when(has_other_master(), OTHER_MASTER)
        .when(booted, BROKER_RESTARTED)
        .when(restarted | ((left > 0) & (joined > 0)), CLIENT_RESTARTED)
        .when((left > 0) | (joined > 0), REBALANCE)
        .when(_is_offline(), RESET)
        # The same members, none of them restarted, on a broker that stayed up.
        .when((left == 0) & (joined == 0) & ~booted, RESET)
    )


# The kinds.


def _possible_events() -> Column:
    """Return an array of the events of a row, NULL for each kind that did not happen."""
    commit, was = Compared.now["consumer_offset"], Compared.now["previous_consumer_offset"]
    maximum, minimum = Compared.now["max_offset"], Compared.now["min_offset"]
    max_was, before = Compared.now["previous_max_offset"], Compared.before["consumer_offset"]
    recreated = F.coalesce(maximum < max_was, F.lit(False))
    # Brokers keep the position of the slowest broadcasting member, which moves as members come and
    # go (`BroadcastOffsetManager`).
    moved = ~recreated & (Compared.now["offset_store"] != "broker_broadcast")
    is_known = Compared.before.isNotNull()
    was_ahead = F.coalesce(before > Compared.before["max_offset"], F.lit(False))
    was_lost = F.coalesce(Compared.before["lost"] > 0, F.lit(False))
    # Rows of clients, which only some snapshots request, do not disappear in the others.
    is_incomplete = F.exists("lacking", lambda topic: topic.isin(F.col("topic"), F.lit(EVERY)))
    # Nor do lite topics, which come and go with the sessions that they are for.
    is_complete = ~is_incomplete & (Compared.client_key == "") & ~is_lite(F.col("topic"))
    booted = F.col("booted_at") > F.col("previous_at")
    of_broker = F.when(has_other_master(), OTHER_MASTER).when(booted, BROKER_RESTARTED)
    repeated = at_least_zero(F.least(was, maximum) - F.greatest(commit, minimum))
    skipped = commit - F.greatest(was, minimum)
    return F.array(
        _event(EventKind.RECREATED, recreated, max_was, maximum, at_least_zero(max_was - was),
               of_broker),
        _event(EventKind.REWOUND, moved & (commit < was), was, commit, repeated, _cause_of_move()),
        _event(EventKind.SKIPPED, moved & _skips(skipped), was, commit, skipped, F.lit(RESET)),
        _event(EventKind.LOST, (Compared.now["lost"] > 0) & is_known & ~was_lost, commit, minimum,
               Compared.now["lost"], F.when(_is_offline(), NO_CLIENT_ONLINE)),
        _event(EventKind.AHEAD_OF_BROKER, (commit > maximum) & is_known & ~was_ahead, maximum,
               commit, commit - maximum,
               F.when(has_other_master(), OTHER_MASTER).when(recreated, RECREATED_TOPIC)
               .when(booted, BROKER_RESTARTED)),
        _event(EventKind.DISAPPEARED, before.isNotNull() & commit.isNull()
               & (Compared.now.isNotNull() | is_complete), before, commit, None,
               F.when(has_other_master(), OTHER_MASTER)),
        _event(EventKind.FIRST_COMMIT, commit.isNotNull() & before.isNull()
               & (is_known | is_complete), before, commit, None, None),
    )  # fmt: skip


def _event(
    kind: EventKind,
    condition: Column,
    start: Column,
    end: Column,
    messages: Column | None,
    likely_cause: Column | None,
) -> Column:
    """Return an event where the condition holds, else NULL."""
    return F.when(
        condition,
        F.struct(
            F.lit(kind).alias("kind"),
            start.alias("from_offset"),
            end.alias("to_offset"),
            (F.lit(None) if messages is None else messages).cast("bigint").alias("messages"),
            (F.lit(None) if likely_cause is None else likely_cause)
            .cast("string")
            .alias("likely_cause"),
        ),
    )
