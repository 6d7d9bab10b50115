"""Who holds which queue, and who should: ``progress.assignments``, ``progress.idle_clients``.

What members hold they tell themselves (`GET_CONSUMER_RUNNING_INFO`), in some snapshots only; of
others, and of groups of which nobody told, nothing is known and there are no rows. Members of a
broadcasting group each read every queue, and what brokers hand out by POP is nobody's: neither is
assigned. That a group is handed a topic by POP its members tell, where they hold something of it;
a Java push consumer says of itself that it shares queues like any other (seen on 5.3.3).

Whom the strategy gives a queue to is `rocketmq.allocation` said once more in SQL, so that no
Python has to run beside Spark's executors; a test holds both to the same owners. Strategies that go
by what users wrote (rooms, a list) give nothing that could be expected. ``CONSISTENT_HASH`` is
taken to have its default number of virtual nodes, for members do not tell theirs.
"""

from collections.abc import Callable
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from lake.tables import progress
from lake.window import Window
from rocketmq import names
from rocketmq.allocation import (
    AVG,
    AVG_BY_CIRCLE,
    CONFIG,
    CONSISTENT_HASH,
    MACHINE_ROOM,
    READABLE,
    VIRTUAL_NODES,
)
from spark.columns import SNAPSHOT, inside, reaching_back
from spark.progress import of_users

HISTORY = timedelta(hours=1)
"""How far back the previous owner of a queue is looked for: ``raw.client_queues`` of this long
before a window have to be given with it."""

GROUP = (*SNAPSHOT, "consumer_group")
PAIR = (*GROUP, "topic")
QUEUE = ("broker", "queue_id")

_OF_GROUP = ["snapshot_id", "consumer_group"]
"""What is enough to join on: a snapshot is of one time and cluster."""


def assignments(
    clients: DataFrame, client_queues: DataFrame, topics: DataFrame, window: Window
) -> DataFrame:
    """``progress.assignments`` of a window.

    Args:
        clients: ``raw.clients`` of the window.
        client_queues: ``raw.client_queues`` of the window and of `HISTORY` before it.
        topics: ``raw.topics`` of the window.
        window: what is computed.

    Returns:
        One row per snapshot, group of which a member told what it holds, topic and queue: the
        readable ones, and those that members hold beside them. Then their route is not the one we
        see (a broker that is silent to us, a topic that has just changed), and what to expect of
        that topic is not known.
    """
    held = client_queues.where(~F.coalesce("dropped", F.lit(False)) & of_users()).select(
        *PAIR, *QUEUE, "client_id", F.coalesce("popped", F.lit(False)).alias("popped")
    )
    groups = _groups(clients.where(inside(window)), held.where(inside(window)))
    expected = _expected(groups, _routes(topics.where(inside(window))))
    over_group, over_pair = SparkWindow.partitionBy(*GROUP), SparkWindow.partitionBy(*PAIR)
    before = reaching_back(HISTORY, "cluster", "consumer_group", "topic", *QUEUE, until=-1)
    return (
        _queues(expected, held)
        .withColumns(
            {
                # Queues that are held and not readable know nothing of their group.
                "strategy": F.max("strategy").over(over_group),
                "all_told": F.max("all_told").over(over_group),
                "is_our_route": F.every(F.col("is_readable").isNotNull()).over(over_pair),
                "is_popped": F.coalesce(F.some("popped").over(over_pair), F.lit(False)),
                "previous": F.last("owners", ignorenulls=True).over(before),
            }
        )
        # What is told of groups that do not share, and of the time before, gives no rows.
        .where(inside(window) & F.col("all_told").isNotNull() & ~F.col("is_popped"))
        .withColumns(
            {
                "expected_client_id": F.when(F.col("is_our_route"), F.col("expected_client_id")),
                "actual_client_id": F.get("owners", F.lit(0)),
                "previous_client_id": F.get("previous", F.lit(0)),
                "rebalanced": _rebalanced(),
            }
        )
        .withColumn("state", _state())
        .select(*progress.ASSIGNMENTS.column_names)
    )


def _groups(clients: DataFrame, held: DataFrame) -> DataFrame:
    """One row per snapshot and group that shares its queues and of which a member told.

    ``members`` are all of them, in the order in which clients count themselves; ``strategy`` is
    NULL where they do not agree. A pull consumer that holds nothing has not told: the old kind
    (`DefaultMQPullConsumer`) never does.
    """
    pulls = F.col("consume_type").eqNullSafe("CONSUME_ACTIVELY")
    told = (F.col("subscriptions_source") == "client") & ~pulls
    alone = F.col("message_model").eqNullSafe("BROADCASTING")
    pops = F.col("consume_type").eqNullSafe("CONSUME_POP")
    strategies = F.collect_set("allocation_strategy")
    return (
        clients.select(
            *GROUP,
            F.col("client_id").alias("member"),
            F.when(told, F.col("client_id")).alias("told"),
            (~alone & ~pops).alias("shares"),
            "allocation_strategy",
            F.col("subscriptions.topic").alias("topics"),
        )
        .unionByName(
            held.select(*GROUP, F.col("client_id").alias("told")), allowMissingColumns=True
        )
        .groupBy(*GROUP)
        .agg(
            F.array_sort(F.collect_set("member")).alias("members"),
            F.collect_set("told").alias("told"),
            F.some("shares").alias("shares"),
            F.when(F.size(strategies) == 1, F.get(strategies, F.lit(0))).alias("strategy"),
            F.array_distinct(F.flatten(F.collect_list("topics"))).alias("topics"),
        )
        .where(F.col("shares") & F.arrays_overlap("members", "told"))
        .withColumns({"all_told": F.size(F.array_except("members", "told")) == 0, "ring": ring()})
    )


def _routes(topics: DataFrame) -> DataFrame:
    """One row per snapshot and topic: its readable queues in the order clients put them in."""
    own = F.transform(
        F.sequence(F.lit(0), F.col("read_queues") - 1),
        lambda queue_id: F.struct(F.col("broker").alias("broker"), queue_id.alias("queue_id")),
    )
    return (
        topics.where((F.col("perm").bitwiseAND(READABLE) > 0) & (F.col("read_queues") > 0))
        .groupBy("snapshot_id", "topic")
        .agg(F.array_distinct(F.array_sort(F.flatten(F.collect_list(own)))).alias("queues"))
    )


def _expected(groups: DataFrame, routes: DataFrame) -> DataFrame:
    """One row per snapshot, group and readable queue of its topics: who gets it."""
    busiest = F.array_max(
        F.transform(
            "members", lambda member: F.size(F.filter("expected", lambda each: each == member))
        )
    )
    return (
        routes.join(
            F.broadcast(groups.withColumn("topic", F.explode("topics")).where(of_users())),
            on=["snapshot_id", "topic"],
            how="inner",
        )
        .withColumn("expected", expected_owners())
        .withColumn("strategy_skew", busiest * F.size("members") / F.size("queues"))
        .select("*", F.posexplode("queues").alias("place", "queue"))
        .select(
            *PAIR,
            "queue.*",
            F.get("expected", F.col("place")).alias("expected_client_id"),
            "strategy_skew",
            "strategy",
            "all_told",
            F.lit(True).alias("is_readable"),
        )
    )


def _queues(expected: DataFrame, held: DataFrame) -> DataFrame:
    """One row per snapshot, group and queue that is readable or held: what is known of both."""
    expected_of = ("expected_client_id", "strategy_skew", "strategy", "all_told", "is_readable")
    owners = F.array_sort(F.collect_set("client_id"))
    return (
        expected.unionByName(held.dropna(), allowMissingColumns=True)
        .groupBy(*PAIR, *QUEUE)
        .agg(
            *(F.max(name).alias(name) for name in (*expected_of, "popped")),
            F.when(F.size(owners) > 0, owners).alias("owners"),
        )
    )


def _state() -> Column:
    owners, expected = F.coalesce(F.size("owners"), F.lit(0)), F.col("expected_client_id")
    return (
        F.when(owners > 1, "CONTESTED")
        .when(owners == 0, F.when(F.col("all_told"), "UNOWNED").otherwise("UNKNOWN"))
        .when(expected.isNull(), "UNKNOWN")
        .when(expected == F.col("actual_client_id"), "OK")
        .otherwise("MOVED")
    )


def _rebalanced() -> Column:
    is_known = F.col("previous").isNotNull() & (F.col("owners").isNotNull() | F.col("all_told"))
    return F.when(is_known, ~F.col("owners").eqNullSafe(F.col("previous")))


def idle_clients(assigned: DataFrame, clients: DataFrame, window: Window) -> DataFrame:
    """``progress.idle_clients`` of a window.

    Args:
        assigned: ``progress.assignments`` of the window.
        clients: ``raw.clients`` of the window.
        window: what is computed.

    Returns:
        One row per snapshot, member that told it holds nothing, and topic it subscribes to. The
        retry topic is left out: its one queue a broker never suffices for all, and says nothing.
    """
    retry = F.col("topic").startswith(names.RETRY_PREFIX)
    of_topics = (
        assigned.where(inside(window) & ~retry)
        .groupBy("snapshot_id", "consumer_group", "topic")
        .agg(
            F.max("strategy").alias("strategy"),
            F.count(F.lit(1)).cast("int").alias("queues"),
            F.collect_set("expected_client_id").alias("expected"),
            F.flatten(F.collect_set("owners")).alias("holders"),
        )
    )
    over_group = SparkWindow.partitionBy(*_OF_GROUP)
    over_client = SparkWindow.partitionBy(*_OF_GROUP, "client_id")
    told = F.col("subscriptions_source") == "client"
    return (
        clients.where(inside(window))
        .withColumn("clients", F.size(F.collect_set("client_id").over(over_group)))
        .where(told)
        .withColumn("topic", F.explode(F.array_distinct("subscriptions.topic")))
        .where(of_users() & ~retry)
        .join(F.broadcast(of_topics), on=["snapshot_id", "consumer_group", "topic"], how="left")
        .withColumns(
            {
                "is_assigned": F.some(F.col("queues").isNotNull()).over(over_group),
                "holds": F.some(
                    F.coalesce(F.array_contains("holders", F.col("client_id")), F.lit(False))
                ).over(over_client),
                "queues": F.coalesce("queues", F.lit(0)),
            }
        )
        .where("is_assigned AND NOT holds")
        .withColumn("reason", _reason())
        .select(*progress.IDLE_CLIENTS.column_names)
        .distinct()
    )


def _reason() -> Column:
    strategy = F.col("strategy")
    return (
        F.when(F.col("queues") == 0, "NO_READABLE_QUEUE")
        .when(F.array_contains("expected", F.col("client_id")), "NOT_REBALANCED")
        .when(F.col("clients") > F.col("queues"), "MORE_CLIENTS_THAN_QUEUES")
        .when(strategy == CONSISTENT_HASH, "HASH_LUCK")
        .when(strategy.startswith(MACHINE_ROOM), "NO_QUEUE_IN_ROOM")
        .when(strategy == CONFIG, "NOT_CONFIGURED")
        .otherwise("UNKNOWN")
    )


# Strategies, as `rocketmq.allocation` has them. Members and brokers are in Spark's order of texts,
# which is Java's but for characters beyond the 16-bit ones.


def expected_owners() -> Column:
    """The owner of each of ``queues``, as an array; NULL where the strategy does not tell.

    Of a row with ``strategy``, ``topic``, ``queues`` (array of broker and queue id), ``members``,
    both in order, and ``ring``.
    """
    strategy = F.col("strategy")
    return (
        F.when(strategy == AVG, _by_place(_average))
        .when(strategy == AVG_BY_CIRCLE, _by_place(lambda place: place % F.size("members")))
        .when(strategy == CONSISTENT_HASH, _by_hash())
    )


def ring() -> Column:
    """The ring of ``members`` for ``CONSISTENT_HASH``: places with the member that sits there.

    A column of its own, for inside `expected_owners` it would be made anew for every queue.
    """

    def places(member: Column, index: Column) -> Column:
        return F.transform(
            F.sequence(F.lit(0), F.lit(VIRTUAL_NODES - 1)),
            lambda place: F.struct(
                _hash(F.concat(member, F.lit("-"), place.cast("string"))).alias("at"),
                # Of two places with the same hash the later one stands.
                (-index * VIRTUAL_NODES - place).alias("order"),
                member.alias("member"),
            ),
        )

    every = F.array_sort(F.flatten(F.transform("members", places)))
    return F.when(F.col("strategy") == CONSISTENT_HASH, every)


def _by_place(index: Callable[[Column], Column]) -> Column:
    return F.transform("queues", lambda queue, place: F.get("members", index(place).cast("int")))


def _average(place: Column) -> Column:
    queues, members = F.size("queues"), F.size("members")
    least, longer = F.floor(queues / members), queues % members
    ahead = longer * (least + 1)
    return F.when(place < ahead, F.floor(place / (least + 1))).otherwise(
        longer + F.floor((place - ahead) / F.greatest(least, F.lit(1)))
    )


def _by_hash() -> Column:
    def owner(queue: Column) -> Column:
        at = _hash(
            F.format_string(
                "MessageQueue [topic=%s, brokerName=%s, queueId=%d]",
                F.col("topic"),
                queue["broker"],
                queue["queue_id"],
            )
        )
        ahead = F.filter("ring", lambda place: place["at"] >= at)
        return F.coalesce(F.get(ahead, F.lit(0)), F.get("ring", F.lit(0)))["member"]

    return F.transform("queues", owner)


def _hash(text: Column) -> Column:
    """The first 4 bytes of the MD5, unsigned."""
    return F.conv(F.substring(F.md5(text), 1, 8), 16, 10).cast("bigint")
