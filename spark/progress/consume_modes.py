"""The way of handing a topic's messages to a group, by queues or by POP: ``consume_mode``.

A broker can be configured to use POP for a group (402), but gRPC clients pop without it. Other
signs then show POP: counters of acknowledgements, POP retry topics, and subscriptions without the
group's retry topic, to which a pulling member in cluster mode subscribes. A sign is remembered for
`REMEMBERED`, because members may leave while popped messages are in flight.

`tidemark.rocketmq.consume_modes` states the meaning of the numbers for each kind of consumption.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import GROUP_TOPIC_HISTORY, Added, column, with_new
from spark.progress.retry_topics import pop_retry_readings
from tidemark.model.consumption import ConsumeMode
from tidemark.rocketmq import names
from tidemark.rocketmq.consume_modes import (
    IS_BOUND,
    NUMBERS,
    PULLS,
    REMEMBERED,
    SHOWN_BY_OFFSETS,
    Certainty,
    Kind,
    Number,
    ReadyFrom,
    ready_from,
)

POP, PULL = ConsumeMode.POP.value, ConsumeMode.PULL.value

GRPC_CLIENT_ID = r"@\d+@\d+@[0-9A-Za-z]+$"
"""End of the client id of every gRPC client, see `tidemark.rocketmq.snapshot.online`."""

POP_CLIENT, PULLING_CLIENT = "CONSUME_POP", "CONSUME_ACTIVELY"


SIGN = "struct<at:timestamp,mode:string,both:boolean>"
"""Type of a sign: its instant, its mode, and whether signs of both modes are seen then."""


class Signs(Added):
    """Columns of `signs_of_modes`."""

    sign_now = column(SIGN, "the sign of this observation; NULL without one")
    last_sign = column(SIGN, "the last sign that is remembered; NULL without one")


def signs_of_modes(
    read: DataFrame,
    clients: DataFrame,
    topics: DataFrame,
    broker_stats: DataFrame | None,
    earlier: DataFrame | None = None,
) -> DataFrame:
    """Return the consume modes that snapshots show by other signs than 402, over time.

    A sign of POP outweighs one of pulling: members of both kinds share such a group. The sign of an
    instant is searched once for all queues of a group on a topic, which have it in common.

    Args:
        read: ``raw.consumer_offsets``.
        clients: ``raw.clients``.
        topics: ``raw.topics``.
        broker_stats: ``raw.broker_stats``; None where there are none.
        earlier: ``progress.queues`` of the previous observations; None where there are none.

    Returns:
        One row per instant, cluster, group and topic of `read` with a sign: these and `Signs`.
    """
    signs = [_signs_of_members(clients), *_signs_of_retry_topics(topics)]
    if broker_stats is not None:
        counted = F.col("stats_name").isin(*names.POP_COUNTERS) & (F.col("sum") > 0)
        signs.append(broker_stats.where(counted).select(*GROUP_TOPIC_AT, F.lit(POP).alias("mode")))
    both = F.min("mode") != F.max("mode")
    shown = (
        reduce(DataFrame.unionByName, signs)
        .where(F.col("mode").isNotNull() & F.col("topic").isNotNull())
        .groupBy(*GROUP_TOPIC_AT)
        .agg(_sign(F.col("observed_at"), F.min("mode"), both))
        .select(*GROUP_TOPIC_HISTORY, "sign")
    )
    if earlier is not None:
        known = earlier.where(F.col("consume_mode_at").isNotNull())
        # Brokers older than POP never use it, whatever the group shows elsewhere.
        last = known.groupBy(*GROUP_TOPIC_HISTORY, "consume_mode_at").agg(
            _sign(F.col("consume_mode_at"), F.min("consume_mode"), F.lit(False))
        )
        shown = shown.unionByName(last.select(*GROUP_TOPIC_HISTORY, "sign"))
    seen = shown.select(F.col("sign.at").alias("observed_at"), *GROUP_TOPIC_HISTORY, "sign")
    until_now = SparkWindow.partitionBy(*GROUP_TOPIC_HISTORY).orderBy("observed_at")
    last = F.max("sign").over(until_now)
    remembered = F.expr(f"INTERVAL '{REMEMBERED // timedelta(hours=1)}' HOUR")
    return (
        seen.unionByName(read.select(*GROUP_TOPIC_AT).distinct(), allowMissingColumns=True)
        .transform(with_new, last=last)
        .where(F.col("sign").isNull() & (F.col("last.at") >= F.col("observed_at") - remembered))
        .select(
            *GROUP_TOPIC_AT,
            *Signs.named(
                sign_now=F.when(F.col("last.at") == F.col("observed_at"), F.col("last")),
                last_sign=F.col("last"),
            ),
        )
    )


GROUP_TOPIC_AT = ("observed_at", *GROUP_TOPIC_HISTORY)
"""A group on a topic at an instant."""


def _sign(at: Column, mode: Column, both: Column) -> Column:
    return F.struct(at.alias("at"), mode.alias("mode"), both.alias("both")).alias("sign")


def consume_mode(
    *, request_mode: Column, sign_now: Column, last_sign: Column, never_pops: Column
) -> Column:
    """Return ``pop``, ``pull`` or NULL.

    Args:
        request_mode: the mode that the broker is set to (402).
        sign_now: the sign of this observation.
        last_sign: the last sign that is remembered.
        never_pops: whether the broker is older than POP.
    """
    shown = sign_now["mode"]
    return (
        F.when((request_mode == POP) | (shown == POP), POP)
        .when(never_pops | shown.isNotNull(), PULL)
        .otherwise(F.coalesce(last_sign["mode"], F.when(request_mode.isNotNull(), PULL)))
    )


def consume_kind(
    *,
    mode: Column,
    request_mode: Column,
    sign_now: Column,
    offset_store: Column,
    topic: Column,
    is_orderly: Column,
    pops_move_pulls: Column,
) -> Column:
    """Return the `Kind` of consumption; `kind_of` does so without Spark.

    Args:
        mode: of `consume_mode`.
        request_mode: the mode that the broker is set to (402).
        sign_now: the sign of this observation.
        offset_store: where the offsets are kept.
        topic: the consumed topic.
        is_orderly: whether gRPC members of the group consume in order.
        pops_move_pulls: whether pops move the pull offsets of the broker.
    """
    is_pop = mode == POP
    # Remoting clients pop where the broker is set to it, and never in order.
    pops_by_setting = F.coalesce(request_mode == POP, F.lit(False))
    in_order = is_orderly & ~pops_by_setting
    return (
        F.when(offset_store == "broker_broadcast", Kind.BROADCAST_BROKER.value)
        .when(offset_store == "client_file", Kind.BROADCAST_FILE.value)
        .when(is_lite(topic), Kind.LITE.value)
        .when(is_pop & sign_now["both"] & ~pops_by_setting, Kind.MIXED.value)
        .when(is_pop & in_order, Kind.POP_FIFO.value)
        .when(is_pop & pops_move_pulls, Kind.POP_KV.value)
        .when(is_pop, Kind.POP.value)
        .when(mode == PULL, Kind.PULL.value)
        .otherwise(Kind.UNKNOWN.value)
    )


def is_any(kind: Column, condition: Callable[[Kind], bool]) -> Column:
    """Return whether a kind is one for which a condition holds."""
    return kind.isin([item.value for item in Kind if condition(item)])


def lag_is_bound(kind: Column) -> Column:
    """Return whether lag is a lower bound for a kind of consumption; NULL for an unknown kind."""
    bounds = {item: IS_BOUND[NUMBERS[item][Number.LAG].certainty] for item in Kind}
    return _by_kind(kind, {item: F.lit(bound) for item, bound in bounds.items()})


def offsets_show_inflight(kind: Column, pull_source: Column, pops_move_pulls: Column) -> Column:
    """Return whether messages between commit and pull offset are those in flight.

    Popped messages are acknowledged one by one, in any order, so only reports of clients count.
    With the key-value store, pops move the pull offset of any group.
    """
    shown = is_any(kind, SHOWN_BY_OFFSETS.__contains__)
    is_sure = (kind == Kind.PULL.value) | ~F.coalesce(pops_move_pulls, F.lit(False))
    return (shown & is_sure) | pull_source.eqNullSafe("client_cache")


def ready_offset(kind: Column) -> Column:
    """Return the offset after which messages wait to be handed out; NULL where it is not known.

    It is one of the offsets of the row, by the kind of its consumption (`ready_from`).
    """
    columns = {item.value: F.col(item.value) for item in ReadyFrom}
    starts = {item: ready_from(item) for item in Kind}
    return _by_kind(
        kind, {item: columns[start] if start else F.lit(None) for item, start in starts.items()}
    )


def rates_by_kind(kind: Column, computed: Mapping[str, Column]) -> dict[str, Column]:
    """Return rates under names that state what moves the offsets in a kind of consumption.

    Args:
        kind: of `consume_kind`.
        computed: rates of ``max_offset``, ``consumer_offset`` and ``pull_offset``, by the names
            that they have of a group that pulls.
    """
    by_commit, by_pull = computed["consume_tps"], computed["pull_tps"]
    consumed = {item: NUMBERS[item][Number.CONSUME_TPS].certainty for item in Kind}
    pulled = {item: NUMBERS[item][Number.PULL_TPS] for item in Kind}
    return {
        **computed,
        "consume_tps": F.when(
            is_any(kind, lambda item: consumed[item] is Certainty.FACT), by_commit
        ),
        "pull_tps": F.when(is_any(kind, lambda item: PULLS in pulled[item].requests), by_pull).when(
            is_any(kind, lambda item: pulled[item].certainty is Certainty.FACT), by_commit
        ),
    }


def _by_kind(kind: Column, values: Mapping[Kind, Column]) -> Column:
    chosen = F.lit(None)
    for item, value in values.items():
        chosen = F.when(kind == item.value, value).otherwise(chosen)
    return chosen


def is_lite(topic: Column) -> Column:
    """Return whether a topic is a lite topic.

    Its messages are popped, but the commit follows the acknowledgements: it is the first message of
    the last popped batch that is not acknowledged (`QueueLevelConsumerManager.commitAndNext`).
    """
    return topic.startswith(names.LITE_PREFIX)


def _signs_of_members(clients: DataFrame) -> DataFrame:
    """Return the sign of each member on each topic that it subscribes to; NULL where it has none.

    Members that broadcast or poll (`DefaultLitePullConsumer`) never subscribe to a retry topic.
    """
    retry = F.concat(F.lit(names.RETRY_PREFIX), F.col("consumer_group"))
    takes_retries = F.array_contains(F.col("subscriptions.topic"), retry)
    broadcasts = F.col("message_model") == "BROADCASTING"
    polls = F.col("consume_type") == PULLING_CLIENT
    mode = (
        F.when(F.col("consume_type") == POP_CLIENT, POP)
        .when(takes_retries | broadcasts, PULL)
        .when(F.col("client_id").rlike(GRPC_CLIENT_ID) | ~polls, POP)
    )
    return clients.where(F.size("subscriptions") > 0).select(
        *("observed_at", "cluster", "consumer_group"),
        F.explode("subscriptions.topic").alias("topic"),
        mode.alias("mode"),
    )


def _signs_of_retry_topics(topics: DataFrame) -> list[DataFrame]:
    """Return signs for the groups and topics whose popped messages a POP retry topic takes."""
    named = topics.where(F.col("kind") == names.TopicKind.POP_RETRY).select(
        *("observed_at", "cluster"),
        F.col("topic").alias("retry"),
        F.explode(pop_retry_readings(F.col("topic"))).alias("read"),
    )
    mode = F.lit(POP).alias("mode")
    return [
        named.select("observed_at", "cluster", "read.*", mode),
        named.select(
            *("observed_at", "cluster", "read.consumer_group"), F.col("retry").alias("topic"), mode
        ),
    ]
