"""Owners of queues, and members without one: ``progress.assignments``, ``progress.idle_clients``.

Members report the queues that they hold (`GET_CONSUMER_RUNNING_INFO`), in deep snapshots only.
Other snapshots, and groups without a reporting member, have no rows. Queues have no owner in a
broadcasting group, whose members each consume all queues, nor in topics that brokers serve by POP.
The queues that members hold of a topic show POP; a Java push consumer reports the same consume type
either way (seen on 5.3.3).
"""

from collections.abc import Callable
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import (
    GROUP,
    GROUP_ID,
    GROUP_TOPIC,
    GROUP_TOPIC_HISTORY,
    GROUP_TOPIC_ID,
    Added,
    column,
    is_of_users,
    reaching_back,
    with_new,
    with_replaced,
)
from spark.tuning import inside, small
from tidemark.lake.clocks import Window
from tidemark.lake.system_topics import NamedTopics
from tidemark.lake.tables import progress
from tidemark.model.consumption import AssignmentState, IdleReason
from tidemark.rocketmq import names
from tidemark.rocketmq.allocation import (
    AVG,
    AVG_BY_CIRCLE,
    CONFIG,
    CONSISTENT_HASH,
    MACHINE_ROOM,
    READABLE,
    VIRTUAL_NODES,
)


def expected_owners(
    *, strategy: Column, topic: Column, queues: Column, members: Column, ring: Column
) -> Column:
    """Return the owner of each queue as an array; NULL for other strategies.

    Args:
        strategy: how the group allocates queues.
        topic: the topic of the queues.
        queues: array of structs of broker and queue id, in order.
        members: array of client ids, in order.
        ring: their `hash_ring`.
    """

    def average(place: Column) -> Column:
        least, longer = F.floor(F.size(queues) / F.size(members)), F.size(queues) % F.size(members)
        ahead = longer * (least + 1)
        return F.when(place < ahead, F.floor(place / (least + 1))).otherwise(
            longer + F.floor((place - ahead) / F.greatest(least, F.lit(1)))
        )

    def by_place(index: Callable[[Column], Column]) -> Column:
        return F.transform(queues, lambda _, place: F.get(members, index(place).cast("int")))

    def by_hash(queue: Column) -> Column:
        text = "MessageQueue [topic=%s, brokerName=%s, queueId=%d]"
        at = _hash(F.format_string(text, topic, queue["broker"], queue["queue_id"]))
        ahead = F.filter(ring, lambda place: place["at"] >= at)
        return F.coalesce(F.get(ahead, F.lit(0)), F.get(ring, F.lit(0)))["member"]

    return (
        F.when(strategy == AVG, by_place(average))
        .when(strategy == AVG_BY_CIRCLE, by_place(lambda place: place % F.size(members)))
        .when(strategy == CONSISTENT_HASH, F.transform(queues, by_hash))
    )


def hash_ring(strategy: Column, members: Column) -> Column:
    """Return the hash ring of members for ``CONSISTENT_HASH``: an array of places, sorted.

    It is a column of its own, because `expected_owners` would compute it for every queue.
    """

    def places(member: Column, index: Column) -> Column:
        return F.transform(
            F.sequence(F.lit(0), F.lit(VIRTUAL_NODES - 1)),
            lambda place: F.struct(
                _hash(F.concat(member, F.lit("-"), place.cast("string"))).alias("at"),
                # The later of two places with the same hash comes first and counts.
                (-index * VIRTUAL_NODES - place).alias("order"),
                member.alias("member"),
            ),
        )

    every = F.array_sort(F.flatten(F.transform(members, places)))
    return F.when(strategy == CONSISTENT_HASH, every)


def _hash(text: Column) -> Column:
    """Return the first 4 bytes of the MD5, unsigned."""
    return F.conv(F.substring(F.md5(text), 1, 8), 16, 10).cast("bigint")


HISTORY = timedelta(hours=1)
"""Time in which the previous owner of a queue is searched: inputs need ``raw.client_queues`` of
this time before the window."""

QUEUE = ("broker", "queue_id")
"""A queue of a topic."""


class Sharing(Added):
    """How a group with a reporting member shares its queues."""

    members = column("array<string>", "all members in the order in which clients sort them")
    strategy = column("string", "how they allocate queues; NULL when members differ")
    all_reported = column("boolean", "every member reported its queues")
    ring = column(
        "array<struct<at:bigint,order:int,member:string>>", "see `hash_ring`; NULL without one"
    )


class Expected(Added):
    """The expectation about a queue."""

    is_readable = column("boolean", "true of a readable queue, NULL of others that members hold")


class Reporting(Added):
    """Facts about a queue from the rows of its topic, and from reports before."""

    is_our_route = column("boolean", "members hold no queue that the snapshot does not show")
    is_popped = column("boolean", "a member pops queues of the topic")
    previous = column("array<string>", "its owners at the report before")


def assignments(
    clients: DataFrame,
    client_queues: DataFrame,
    topics: DataFrame,
    window: Window,
    system_topics: NamedTopics = (),
) -> DataFrame:
    """Compute ``progress.assignments`` of a window.

    Args:
        clients: ``raw.clients`` of the window.
        client_queues: ``raw.client_queues`` of the window and of `HISTORY` before it.
        topics: ``raw.topics`` of the window.
        window: the window to compute.
        system_topics: system topics that their names do not show, by cluster.

    Returns:
        One row per snapshot, group with a reporting member, topic and queue, with the columns of
        `tidemark.lake.tables.progress.ASSIGNMENTS`. Queues are the readable ones and others that
        members hold. Such others show that members have another route than the snapshot (a broker
        is unreachable from here, or the topic has just changed), so the expected owners of the
        topic are unknown.
    """
    users_own = is_of_users(system_topics)
    owned = client_queues.where(~F.coalesce("dropped", F.lit(False)) & users_own).select(
        *GROUP_TOPIC, *QUEUE, "client_id", F.coalesce("popped", F.lit(False)).alias("popped")
    )
    groups = _groups(clients.where(inside(window)), owned.where(inside(window)))
    subscribed = with_new(groups, topic=F.explode("topics")).where(users_own)
    expected = _expected(subscribed, _routes(topics.where(inside(window))))
    group, group_topic = SparkWindow.partitionBy(*GROUP), SparkWindow.partitionBy(*GROUP_TOPIC)
    before = reaching_back(HISTORY, *GROUP_TOPIC_HISTORY, *QUEUE, until=-1)
    return (
        _queues(expected, owned)
        .transform(
            with_replaced,
            strategy=F.max(Sharing.strategy).over(group),
            all_reported=F.max(Sharing.all_reported).over(group),
        )
        .transform(
            Reporting.to,
            is_our_route=F.every(Expected.is_readable.isNotNull()).over(group_topic),
            is_popped=F.coalesce(F.some("popped").over(group_topic), F.lit(False)),
            previous=F.last("owners", ignorenulls=True).over(before),
        )
        # Reports of groups that do not share queues, and from before the window, give no rows.
        .where(inside(window) & Sharing.all_reported.isNotNull() & ~Reporting.is_popped)
        .transform(
            with_replaced,
            expected_client_id=F.when(Reporting.is_our_route, F.col("expected_client_id")),
        )
        .transform(
            with_new,
            actual_client_id=F.get("owners", F.lit(0)),
            previous_client_id=F.get(Reporting.previous, F.lit(0)),
            rebalanced=_rebalanced(),
        )
        .transform(with_new, state=_state())
        .select(*progress.ASSIGNMENTS.column_names)
    )


def _groups(clients: DataFrame, owned: DataFrame) -> DataFrame:
    """Return one row per snapshot and group that shares queues and has a reporting member.

    The rows have `Sharing`. A pull consumer that holds no queue does not count as reporting: the
    old kind (`DefaultMQPullConsumer`) never reports queues.
    """
    pulls = F.col("consume_type").eqNullSafe("CONSUME_ACTIVELY")
    reports = (F.col("subscriptions_source") == "client") & ~pulls
    broadcasts = F.col("message_model").eqNullSafe("BROADCASTING")
    pops = F.col("consume_type").eqNullSafe("CONSUME_POP")
    strategies = F.collect_set("allocation_strategy")
    return (
        clients.select(
            *GROUP,
            F.col("client_id").alias("member"),
            F.when(reports, F.col("client_id")).alias("reporting"),
            (~broadcasts & ~pops).alias("shares"),
            "allocation_strategy",
            F.col("subscriptions.topic").alias("topics"),
        )
        .unionByName(
            owned.select(*GROUP, F.col("client_id").alias("reporting")), allowMissingColumns=True
        )
        .groupBy(*GROUP)
        .agg(
            *Sharing.named(
                members=F.array_sort(F.collect_set("member")),
                strategy=F.when(F.size(strategies) == 1, F.get(strategies, F.lit(0))),
            ),
            F.collect_set("reporting").alias("reporting"),
            F.some("shares").alias("shares"),
            F.array_distinct(F.flatten(F.collect_list("topics"))).alias("topics"),
        )
        .where(F.col("shares") & F.arrays_overlap(Sharing.members, "reporting"))
        .transform(
            Sharing.to,
            all_reported=F.size(F.array_except(Sharing.members, "reporting")) == 0,
            ring=hash_ring(Sharing.strategy, Sharing.members),
        )
    )


def _routes(topics: DataFrame) -> DataFrame:
    """Return one row per snapshot and topic: its readable queues in the order of clients."""
    own = F.transform(
        F.sequence(F.lit(0), F.col("read_queues") - 1),
        lambda queue_id: F.struct(F.col("broker").alias("broker"), queue_id.alias("queue_id")),
    )
    return (
        topics.where((F.col("perm").bitwiseAND(READABLE) > 0) & (F.col("read_queues") > 0))
        .groupBy("snapshot_id", "topic")
        .agg(F.array_distinct(F.array_sort(F.flatten(F.collect_list(own)))).alias("queues"))
    )


def _expected(subscribed: DataFrame, routes: DataFrame) -> DataFrame:
    """Return one row per snapshot, group and readable queue of its topics, with expected owner."""
    busiest = F.array_max(
        F.transform(
            Sharing.members,
            lambda member: F.size(F.filter("expected", lambda column: column == member)),
        )
    )
    return (
        routes.join(
            small(subscribed),
            on=["snapshot_id", "topic"],
            how="inner",
        )
        .transform(
            with_new,
            expected=expected_owners(
                strategy=Sharing.strategy,
                topic=F.col("topic"),
                queues=F.col("queues"),
                members=Sharing.members,
                ring=Sharing.ring,
            ),
        )
        .transform(with_new, strategy_skew=busiest * F.size(Sharing.members) / F.size("queues"))
        .select("*", F.posexplode("queues").alias("place", "queue"))
        .select(
            *GROUP_TOPIC,
            "queue.*",
            F.get("expected", F.col("place")).alias("expected_client_id"),
            "strategy_skew",
            "strategy",
            "all_reported",
            *Expected.named(is_readable=F.lit(True)),
        )
    )


def _queues(expected: DataFrame, owned: DataFrame) -> DataFrame:
    """Return one row per snapshot, group and queue that is readable or held, with both facts."""
    expected_of = ("expected_client_id", "strategy_skew", "strategy", "all_reported", "is_readable")
    owners = F.array_sort(F.collect_set("client_id"))
    return (
        expected.unionByName(owned.dropna(), allowMissingColumns=True)
        .groupBy(*GROUP_TOPIC, *QUEUE)
        .agg(
            *(F.max(name).alias(name) for name in (*expected_of, "popped")),
            F.when(F.size(owners) > 0, owners).alias("owners"),
        )
    )


def _state() -> Column:
    owners, expected = F.coalesce(F.size("owners"), F.lit(0)), F.col("expected_client_id")
    return (
        F.when(owners > 1, AssignmentState.CONTESTED)
        .when(
            owners == 0,
            F.when(Sharing.all_reported, AssignmentState.UNOWNED).otherwise(
                AssignmentState.UNKNOWN
            ),
        )
        .when(expected.isNull(), AssignmentState.UNKNOWN)
        .when(expected == F.col("actual_client_id"), AssignmentState.OK)
        .otherwise(AssignmentState.MOVED)
    )


def _rebalanced() -> Column:
    is_known = Reporting.previous.isNotNull() & (F.col("owners").isNotNull() | Sharing.all_reported)
    return F.when(is_known, ~F.col("owners").eqNullSafe(Reporting.previous))


def idle_clients(
    assigned: DataFrame, clients: DataFrame, window: Window, system_topics: NamedTopics = ()
) -> DataFrame:
    """Compute ``progress.idle_clients`` of a window.

    Args:
        assigned: ``progress.assignments`` of the window.
        clients: ``raw.clients`` of the window.
        window: the window to compute.
        system_topics: system topics that their names do not show, by cluster.

    Returns:
        One row per snapshot, member that reports to hold no queue, and topic it subscribes to, with
        the columns of `tidemark.lake.tables.progress.IDLE_CLIENTS`. Retry topics are left out: with
        one queue per broker they always leave members idle.
    """
    retry = F.col("topic").startswith(names.RETRY_PREFIX)
    of_topics = (
        assigned.where(inside(window) & ~retry)
        .groupBy(*GROUP_TOPIC_ID)
        .agg(
            F.max("strategy").alias("strategy"),
            F.count(F.lit(1)).cast("int").alias("assigned"),
            F.collect_set("expected_client_id").alias("expected"),
            F.flatten(F.collect_set("owners")).alias("holders"),
        )
    )
    group = SparkWindow.partitionBy(*GROUP_ID)
    client = SparkWindow.partitionBy(*GROUP_ID, "client_id")
    reported = F.col("subscriptions_source") == "client"
    return (
        clients.where(inside(window))
        .transform(with_new, clients=F.size(F.collect_set("client_id").over(group)))
        .where(reported)
        .transform(with_new, topic=F.explode(F.array_distinct("subscriptions.topic")))
        .where(is_of_users(system_topics) & ~retry)
        .join(small(of_topics), on=list(GROUP_TOPIC_ID), how="left")
        .transform(
            with_new,
            queues=F.coalesce("assigned", F.lit(0)),
            is_assigned=F.some(F.col("assigned").isNotNull()).over(group),
            holds=F.some(
                F.coalesce(F.array_contains("holders", F.col("client_id")), F.lit(False))
            ).over(client),
        )
        .where(F.col("is_assigned") & ~F.col("holds"))
        .transform(with_new, reason=_idle_reason())
        .select(*progress.IDLE_CLIENTS.column_names)
        .distinct()
    )


def _idle_reason() -> Column:
    strategy = F.col("strategy")
    return (
        F.when(F.col("queues") == 0, IdleReason.NO_READABLE_QUEUE)
        .when(F.array_contains("expected", F.col("client_id")), IdleReason.NOT_REBALANCED)
        .when(F.col("clients") > F.col("queues"), IdleReason.MORE_CLIENTS_THAN_QUEUES)
        .when(strategy == CONSISTENT_HASH, IdleReason.HASH_LUCK)
        .when(strategy.startswith(MACHINE_ROOM), IdleReason.NO_QUEUE_IN_ROOM)
        .when(strategy == CONFIG, IdleReason.NOT_CONFIGURED)
        .otherwise(IdleReason.UNKNOWN)
    )
