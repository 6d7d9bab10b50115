"""Progress of every group on every topic: ``progress.groups``.

Sums are over the known queues. A queue of an unreachable broker, of a quarantined row or of a
broadcasting client without a broker-side offset counts as unknown, never as zero.
"""

from dataclasses import replace

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import (
    GROUP_ID,
    GROUP_QUEUE,
    GROUP_TOPIC,
    GROUP_TOPIC_ID,
    Added,
    at_least_zero,
    column,
    is_of_users,
)
from spark.progress.consume_modes import GRPC_CLIENT_ID, is_lite
from spark.progress.filtering import NOTHING, Evidence, with_filtered_lag
from spark.progress.group_sums import (
    REPORTED_OF_GROUP,
    WORST_CLIENT_COLUMNS,
    Members,
    WorstClient,
    group_members,
    sums_of_worst_clients,
    without_leftover_commits,
)
from spark.progress.popped import (
    NO_WITNESSES,
    Witnesses,
    with_acknowledgements,
    with_inflight,
)
from spark.progress.queues import RawFrames
from spark.progress.retry_topics import OwnTopic, belongs_to_group, topics_of_groups
from spark.progress.unknown_queues import (
    Beyond,
    Broadcast,
    queues_of_broadcasting_groups,
    queues_of_unreachable_brokers,
    queues_with_invalid_rows_only,
    unreachable_messages,
)
from spark.tuning import inside, resolved, small
from tidemark.lake.clocks import Window
from tidemark.lake.system_topics import NamedTopics
from tidemark.lake.tables import progress
from tidemark.model.snapshots import WITHOUT_QUEUES, SnapshotSource, SnapshotStatus
from tidemark.rocketmq import names

HEALTH = {column.name for column in progress.HEALTH}
"""Columns that need several observations; `spark.progress.health` adds them."""

OF_ONE_OBSERVATION = [name for name in progress.GROUPS.column_names if name not in HEALTH]
"""Columns of ``progress.groups`` that follow from one observation."""


class ReportedOfGroup(Added):
    """Facts about a group that a member, a broker or a problem states; NULL where it does not."""

    has_members = column("boolean", "it has a member")
    has_silent_member = column(
        "boolean", "a member reports no subscription, as members with assigned queues do"
    )
    has_grpc = column("boolean", "a member speaks gRPC")
    has_remoting = column("boolean", "a member speaks the remoting protocol")
    shared_id = column("string", "a client id with several connections at one broker")
    holder = column("string", "a broker that holds commits of it")
    configured = column("string", "a broker that has its configuration")
    hidden = column("boolean", "it has queues on an unreachable broker")
    members_unknown = column("boolean", "members may be online on a broker that did not report")


class AboutGroup(Added):
    """Facts about a group on all topics together."""

    has_members = column("boolean", "it has a member; NULL without one")
    has_silent_member = column("boolean", "a member reports no subscription")
    has_grpc = column("boolean", "a member speaks gRPC")
    has_remoting = column("boolean", "a member speaks the remoting protocol")
    most_connections = column("int", "most connections of a client id at one broker")
    shared_ids = column("array<string>", "client ids with several connections at one broker")
    holders = column("array<string>", "brokers that hold commits of it")
    configured = column("array<string>", "brokers that have its configuration")
    members_unknown = column("boolean", "members may be online on a broker that did not report")
    hidden = column("boolean", "it has queues on an unreachable broker")
    retries_waiting = column("array<string>", "its retry topics with messages, or maybe with some")
    has_dlq = column("boolean", "it has a dead-letter topic; NULL without one")
    dead_letters = column("bigint", "messages in its dead-letter topic, as far as known")


class AcrossTopics(Added):
    """Facts about a group from its rows of all topics, its retry topics and those of POP."""

    retries = column("bigint", "its lag on its retry topics")
    retries_are_bound = column("boolean", "that is a lower bound; NULL where that is unknown")
    retries_read = column("array<string>", "its retry topics with a known lag")
    retries_tps = column(
        "double", "messages written there per second, 0 without a queue, NULL with an unknown rate"
    )
    written_tps = column("double", "messages written to its other topics, as far as known")
    retries_unknown = column("bigint", "most unknown queues of one of its retry topics")
    progressed = column("boolean", "any commit or acknowledgement advanced")


class Subscribers(Added):
    """Members of a group on a topic."""

    subscribers = column("int", "how many subscribe to the topic")


class Coverage(Added):
    """Parts of the cluster that a snapshot covers."""

    has_all_topics = column(
        "boolean",
        "every broker named its topics, so a missing topic does not exist, whatever other requests "
        "failed",
    )
    from_files = column("boolean", "it was read from files, without requests for clients")
    proxy_may_know = column(
        "boolean",
        "a proxy that nobody requested may know members that brokers do not report",
    )
    with_groups = column("array<string>", "brokers that reported their consumer groups")


def groups(
    queues: DataFrame,
    raw: RawFrames,
    unreachable: DataFrame,
    window: Window,
    evidence: Evidence = NOTHING,
    listed: DataFrame | None = None,
    system_topics: NamedTopics = (),
    committed: DataFrame | None = None,
    witnesses: Witnesses = NO_WITNESSES,
) -> DataFrame:
    """Compute ``progress.groups`` of a window, without health.

    Args:
        queues: ``progress.queues`` of the window.
        raw: raw rows of the window and of each `last_snapshot_id`. ``queue_offsets`` has only valid
            rows; other tables have quarantined rows too, because they show what is unknown. Rows
            of ``consumer_offsets`` that are in `queues` may be missing. Duplicates count once.
        unreachable: ``snapshot_id, broker, last_snapshot_id``: one row per snapshot and broker that
            it should hold and does not.
        window: the window to compute.
        evidence: rows from which filtered lag is estimated.
        listed: ``raw.queue_offsets`` of the window and of each `last_snapshot_id`, quarantined rows
            included. None where no row of the window is quarantined: then every row of
            ``consumer_offsets`` is in `queues`, and those of `raw` are all.
        system_topics: system topics that their names do not show, by cluster.
        committed: ``raw.consumer_offsets`` of the window; None where those of `raw` are all.
        witnesses: other reports of messages in flight.

    Returns:
        One row per snapshot, group and topic, with the columns of
        `tidemark.lake.tables.progress.GROUPS` except `HEALTH`.
    """
    raw = replace(raw, consumer_offsets=_without_client_files(raw))
    users_own = is_of_users(system_topics)
    members = group_members(raw.clients.where(inside(window)))
    known = without_leftover_commits(queues, members)
    hidden = queues_of_unreachable_brokers(
        raw.consumer_offsets,
        raw.snapshots,
        unreachable,
        raw.queue_offsets if listed is None else listed,
        raw.topics,
    )
    topics, brokers, configured = (
        frame.where(inside(window)) for frame in (raw.topics, raw.brokers, raw.consumer_groups)
    )
    written = raw.queue_offsets.where(inside(window))
    broadcast = queues_of_broadcasting_groups(members, written, topics)
    beyond, consumed_beyond = unreachable_messages(
        written, topics, (raw.consumer_offsets if committed is None else committed)
    )
    missing = hidden
    if listed is not None:
        named = raw.consumer_offsets.where(inside(window))
        invalid = queues_with_invalid_rows_only(named, queues, listed.where(inside(window)), topics)
        missing = hidden.unionByName(invalid)
    unknown = (
        missing.unionByName(broadcast, allowMissingColumns=True)
        .where(users_own)
        .groupBy(*GROUP_QUEUE)
        .agg(*Broadcast.named(is_broadcast=F.max(Broadcast.is_broadcast)))
    )
    about_groups = _about_groups(
        members,
        _groups_with_unknown_members(hidden, raw.snapshots),
        _holders(known, configured),
        topics_of_groups(raw.queue_offsets, raw.topics),
    )
    return (
        _group_topics(
            sums_of_worst_clients(known), unknown, members.where(users_own & _is_consumed())
        )
        .transform(with_acknowledgements, evidence.throughput)
        .transform(with_inflight, raw.clients.where(inside(window)), brokers, witnesses)
        .transform(_with_other_topics)
        .transform(resolved)
        .join(about_groups, on=list(GROUP_ID), how="left")
        .join(small(beyond), on=["snapshot_id", "topic"], how="left")
        .join(small(consumed_beyond), on=list(GROUP_TOPIC_ID), how="left")
        .join(
            small(_coverage(raw.snapshots, topics, brokers, configured)),
            on="snapshot_id",
            how="left",
        )
        .select(*_observation_columns(_completeness() | _membership()))
        .transform(resolved)
        .transform(with_filtered_lag, known, raw.clients.where(inside(window)), evidence)
        .select(*OF_ONE_OBSERVATION)
    )


def _without_client_files(raw: RawFrames) -> DataFrame:
    """Leave out consumer offsets from clients' files: they are no observations of queues.

    With them, every group in a file would be unknown at an instant without a snapshot of brokers.
    """
    files = raw.snapshots.where(F.col("source").isin(*WITHOUT_QUEUES)).select("snapshot_id")
    return raw.consumer_offsets.join(small(files), on="snapshot_id", how="left_anti")


def _group_topics(sums: DataFrame, unknown: DataFrame, members: DataFrame) -> DataFrame:
    """Return a row for every group on every topic that it has queues of or subscribes to.

    One aggregation serves all three inputs, where joins would sort each of them. All queues of a
    broadcasting group are among the unknown ones, so those known of its worst client are deducted.
    """
    counted = WorstClient.queues_known + WorstClient.queues_unmeasured
    is_broadcast = F.max(Broadcast.is_broadcast) > 0
    return (
        sums.unionByName(
            unknown.select(*GROUP_TOPIC, F.lit(1).alias("unknown"), "is_broadcast"),
            allowMissingColumns=True,
        )
        .unionByName(
            members.select(*GROUP_TOPIC, F.col("client_id").alias("member")),
            allowMissingColumns=True,
        )
        .groupBy(*GROUP_TOPIC)
        .agg(
            (
                F.coalesce(F.sum("unknown"), F.lit(0))
                + F.coalesce(F.max(WorstClient.queues_unmeasured), F.lit(0))
                - F.when(is_broadcast, F.coalesce(F.max(counted), F.lit(0))).otherwise(0)
            ).alias("queues_unknown"),
            *Subscribers.named(subscribers=F.size(F.collect_set("member"))),
            *(F.max(name).alias(name) for name in WORST_CLIENT_COLUMNS),
        )
    )


def _is_consumed() -> Column:
    """Return whether a member consumes a topic that it subscribes to, not lite topics of it."""
    of_lite = F.coalesce(F.col("message_model").startswith(names.LITE_MODEL), F.lit(False))
    return ~of_lite | is_lite(F.col("topic"))


def _about_groups(
    members: DataFrame, members_unknown: DataFrame, holders: DataFrame, own_topics: DataFrame
) -> DataFrame:
    """Return one row per snapshot and group: `AboutGroup` and columns of ``progress.groups``."""
    return (
        members.select(*GROUP_ID, *REPORTED_OF_GROUP, *_member_facts())
        .unionByName(members_unknown, allowMissingColumns=True)
        .unionByName(holders, allowMissingColumns=True)
        .unionByName(own_topics, allowMissingColumns=True)
        .groupBy(*GROUP_ID)
        .agg(
            F.min("message_model").alias("message_model"),
            F.min("consume_type").alias("consume_type"),
            F.min_by("version", Members.version_order).alias("client_version"),
            *AboutGroup.named(
                has_members=F.max(ReportedOfGroup.has_members),
                has_silent_member=F.max(ReportedOfGroup.has_silent_member),
                has_grpc=F.max(ReportedOfGroup.has_grpc),
                has_remoting=F.max(ReportedOfGroup.has_remoting),
                most_connections=F.max("connections"),
                shared_ids=F.collect_set(ReportedOfGroup.shared_id),
                holders=F.collect_set(ReportedOfGroup.holder),
                configured=F.collect_set(ReportedOfGroup.configured),
                members_unknown=F.max(ReportedOfGroup.members_unknown),
                hidden=F.max(ReportedOfGroup.hidden),
                retries_waiting=F.collect_set(OwnTopic.waiting),
                has_dlq=F.max(OwnTopic.has_dlq),
                dead_letters=F.try_sum(OwnTopic.dead_letters),
            ),
        )
    )


def _member_facts() -> list[Column]:
    """Return facts about a group from the rows of its members."""
    is_true = F.lit(True)
    speaks_grpc = F.col("client_id").rlike(GRPC_CLIENT_ID)
    return [
        *ReportedOfGroup.named(
            has_members=is_true,
            has_silent_member=F.when(F.col("topic").isNull(), is_true),
            has_grpc=F.when(speaks_grpc, is_true),
            has_remoting=F.when(~speaks_grpc, is_true),
            shared_id=F.when(F.col("connections") > 1, F.col("client_id")),
        ),
        F.col("connections"),
    ]


def _holders(known: DataFrame, configured: DataFrame) -> DataFrame:
    """Return the brokers that hold commits of a group, and those that have its configuration."""
    of_brokers = F.col("consumer_offset").isNotNull() & (F.col("offset_store") != "client_file")
    commits = known.where(of_brokers).select(
        *GROUP_ID, *ReportedOfGroup.named(holder=F.col("broker"))
    )
    configs = configured.select(*GROUP_ID, *ReportedOfGroup.named(configured=F.col("broker")))
    return commits.distinct().unionByName(configs, allowMissingColumns=True)


def _groups_with_unknown_members(hidden: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return the groups whose members may be online on a broker that did not report them.

    ``hidden`` marks those with queues on an unreachable broker.
    """
    failed = snapshots.select("snapshot_id", F.explode("problems").alias("problem")).where(
        F.col("problem.operation").startswith(names.CONNECTIONS)
    )
    named = F.substring_index("problem.operation", names.CONNECTIONS, -1)
    requested = failed.select("snapshot_id", F.explode(F.split(named, " ")).alias("consumer_group"))
    groups = hidden.select(
        "snapshot_id", "consumer_group", *ReportedOfGroup.named(hidden=F.lit(True))
    )
    frame = groups.unionByName(requested, allowMissingColumns=True)
    return ReportedOfGroup.to(frame, members_unknown=F.lit(True))


def _with_other_topics(rows: DataFrame) -> DataFrame:
    """Add facts about a group from all its topics."""
    is_own, lag = _is_own_retry_topic(), F.col("lag")
    group = SparkWindow.partitionBy(*GROUP_ID)
    return AcrossTopics.to(
        rows,
        retries=F.try_sum(F.when(is_own, at_least_zero(lag))).over(group),
        retries_are_bound=_are_bound(group),
        retries_read=F.collect_set(F.when(is_own & lag.isNotNull(), F.col("topic"))).over(group),
        retries_tps=F.when(
            F.coalesce(
                F.max(F.when(is_own, F.col("produce_tps").isNull())).over(group), F.lit(False)
            ),
            F.lit(None).cast("double"),
        ).otherwise(
            F.coalesce(F.sum(F.when(is_own, F.col("produce_tps"))).over(group), F.lit(0.0))
        ),
        written_tps=F.sum(F.when(~is_own, F.col("produce_tps"))).over(group),
        retries_unknown=F.max(F.when(is_own, F.col("queues_unknown"))).over(group),
        progressed=F.max(
            F.coalesce(WorstClient.moved, F.lit(False)) | F.coalesce("acknowledged", F.lit(False))
        ).over(group),
    )


def _is_own_retry_topic() -> Column:
    return belongs_to_group(F.col("topic"), F.col("consumer_group"))


def _are_bound(group: WindowSpec) -> Column:
    """Return whether the lag of a group's retry topic is a lower bound, as that is popped too.

    NULL where nothing shows how one of them is consumed; false without a retry topic.
    """
    is_bound = F.col("lag_is_lower_bound")
    # From the largest: true, unknown, false.
    rank = F.when(is_bound, 2).when(is_bound.isNull(), 1).otherwise(0)
    largest = F.max(F.when(_is_own_retry_topic(), rank)).over(group)
    return F.when(largest == 2, F.lit(True)).when(F.coalesce(largest, F.lit(0)) == 0, F.lit(False))


def _coverage(
    snapshots: DataFrame, topics: DataFrame, brokers: DataFrame, configured: DataFrame
) -> DataFrame:
    """Return one row per snapshot: `Coverage`."""
    shared = F.when(F.col("topic") == names.PROXY_TOPIC, F.lit(True)).alias("behind_proxy")
    snapshots = snapshots.unionByName(
        topics.select("snapshot_id", shared, F.col("broker").alias("with_topics")),
        allowMissingColumns=True,
    ).unionByName(
        brokers.select("snapshot_id", F.col("broker").alias("expected")), allowMissingColumns=True
    )
    with_groups = configured.select("snapshot_id", F.col("broker").alias("reporting")).distinct()
    snapshots = snapshots.unionByName(with_groups, allowMissingColumns=True)
    source = F.coalesce("source", F.lit(SnapshotSource.REMOTE))
    holds_queues = F.max(~source.isin(*WITHOUT_QUEUES) & F.col("status").isNotNull())
    expected, with_topics = F.collect_set("expected"), F.collect_set("with_topics")
    named = (F.size(expected) > 0) & (F.size(F.array_except(expected, with_topics)) == 0)
    status = F.max("status")
    return snapshots.groupBy("snapshot_id").agg(
        *Coverage.named(
            has_all_topics=holds_queues
            & ((status == SnapshotStatus.COMPLETE) | (named & (status == SnapshotStatus.PARTIAL))),
            from_files=F.max(F.when(source != SnapshotSource.REMOTE, F.lit(True))),
            proxy_may_know=F.when(F.max("proxies_answered").isNull(), F.max("behind_proxy")),
            with_groups=F.collect_set("reporting"),
        ),
    )


_ESTIMATED = {column.name for column in progress.FILTERING}
"""Columns that `spark.progress.filtering` adds."""


def _observation_columns(computed: dict[str, Column]) -> list[Column]:
    """Return the columns of one observation, with those computed last, before filtered lag."""
    names = dict.fromkeys((*OF_ONE_OBSERVATION, "client_id"))
    return [computed.get(name, F.col(name)).alias(name) for name in names if name not in _ESTIMATED]


def _completeness() -> dict[str, Column]:
    known = F.coalesce(WorstClient.queues_known, F.lit(0))
    unknown = F.coalesce("queues_unknown", F.lit(0))
    has_all_topics = F.coalesce(Coverage.has_all_topics, F.lit(False)) & AboutGroup.hidden.isNull()
    zero = F.lit(0).cast("bigint")
    none_hidden = F.coalesce(AcrossTopics.retries_unknown, F.lit(0)) == 0
    # Messages wait in a retry topic, and how many of them the group has read is unknown.
    missing = F.size(F.array_except(AboutGroup.retries_waiting, AcrossTopics.retries_read)) > 0
    retries = F.coalesce(AcrossTopics.retries, F.when(has_all_topics & none_hidden, zero))
    retry_lag = F.when(~F.coalesce(missing, F.lit(False)), retries)
    no_dlq = AboutGroup.has_dlq.isNull()
    redelivered = F.when(
        F.coalesce(~missing, F.lit(True)) & (has_all_topics | (AcrossTopics.retries_tps > 0)),
        AcrossTopics.retries_tps,
    )
    return {
        "queues": (known + unknown).cast("int"),
        "queues_unknown": unknown.cast("int"),
        "queues_never_committed": F.coalesce("queues_never_committed", F.lit(0)).cast("int"),
        "complete": unknown == 0,
        "unreachable_messages": _unreachable(),
        "dlq_messages": F.coalesce(AboutGroup.dead_letters, F.when(has_all_topics & no_dlq, zero)),
        "retry_lag": retry_lag,
        "retry_lag_is_lower_bound": F.when(retry_lag.isNotNull(), AcrossTopics.retries_are_bound),
        "redelivered_tps": redelivered,
        "redelivered_share": F.when(
            AcrossTopics.written_tps > 0, redelivered / AcrossTopics.written_tps
        ),
        "registered": _registered(),
    }


def _registered() -> Column:
    """Return whether the group has a configuration where its commits are; NULL = unknown.

    A group without commits at brokers is compared with all brokers, and is unknown where none has
    its configuration.
    """
    holders, configured = AboutGroup.holders, AboutGroup.configured
    without_commits = F.size(holders) == 0
    is_configured = (without_commits & (F.size(configured) > 0)) | F.arrays_overlap(
        holders, configured
    )
    silent = F.array_except(holders, Coverage.with_groups)
    all_reported = ~without_commits & (F.size(silent) == 0) & AboutGroup.hidden.isNull()
    return F.when(is_configured, F.lit(True)).when(all_reported, F.lit(False))


def _unreachable() -> Column:
    """Return the messages beyond ``read_queues`` that the group has not consumed.

    Members of a broadcasting group each have their own progress, which brokers do not know.
    """
    is_broadcasting = F.coalesce("message_model", F.when(WorstClient.broadcast, "BROADCASTING"))
    unconsumed = Beyond.stored_beyond - F.coalesce(Beyond.consumed_beyond, F.lit(0))
    is_unknown = (is_broadcasting == "BROADCASTING") & (Beyond.stored_beyond > 0)
    return F.when(~F.coalesce(is_unknown, F.lit(False)), unconsumed)


def _membership() -> dict[str, Column]:
    members_known = (
        AboutGroup.members_unknown.isNull()
        & Coverage.from_files.isNull()
        & Coverage.proxy_may_know.isNull()
        # Progress shows a consumer, whatever the brokers report: they do not see members at a
        # proxy.
        & ~F.coalesce(AcrossTopics.progressed, F.lit(False))
    )
    # A member that reports no subscription may be assigned queues of any topic.
    all_report = ~F.coalesce(AboutGroup.has_silent_member, F.lit(False)) | (
        Subscribers.subscribers > 0
    )
    online = F.when(AboutGroup.has_members, F.lit(True)).when(members_known, F.lit(False))
    shadow = F.when(WorstClient.broadcast, F.lit("BROADCASTING"))
    both = F.coalesce(AboutGroup.has_grpc & AboutGroup.has_remoting, F.lit(False))
    nobody = F.when(~online, F.lit(0))
    shared = F.when(AboutGroup.most_connections.isNotNull(), F.size(AboutGroup.shared_ids))
    return {
        "online": online,
        "mixed_members": F.when(both, F.lit(True)).when(
            AboutGroup.members_unknown.isNull()
            & Coverage.proxy_may_know.isNull()
            & online.isNotNull(),
            F.lit(False),
        ),
        "duplicate_client_ids": F.coalesce(shared, nobody).cast("int"),
        "clients": F.when(online.isNotNull() & all_report, Subscribers.subscribers.cast("int")),
        "message_model": F.coalesce("message_model", shadow),
    }
