"""Events of the queues that clients hold: new owners, expired pulls, lost order locks.

They follow from reports of members (`GET_CONSUMER_RUNNING_INFO`), so only deep snapshots have them.
A state that lasts is one event, at the first report of it within `HISTORY`.

Messages that a client has received and not confirmed are delivered again when it loses the queue:
the new owner begins at the committed offset.
"""

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import (
    GROUP_TOPIC_HISTORY,
    SNAPSHOT,
    Added,
    at_least_zero,
    column,
    is_of_users,
    milliseconds,
    unknown_of,
    with_new,
)
from spark.progress.events import CLIENT_RESTARTED, ONLY_OF_CLIENTS, member_changes
from spark.tuning import inside
from tidemark.lake.clocks import Window
from tidemark.lake.system_topics import NamedTopics
from tidemark.lake.tables import progress
from tidemark.model.consumption import AssignmentState, EventKind

PULL_EXPIRES = timedelta(seconds=120)
"""Time without a pull after which a push client drops a queue (`PULL_MAX_IDLE_TIME`)."""

LOCK_EXPIRES = timedelta(seconds=60)
"""Time after which a broker gives an order lock that was not renewed to another client
(`RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME`); clients renew every 20 s."""

MEMBER_JOINED = "member joined"
MEMBER_LEFT = "member left"
QUEUE_COUNT_CHANGED = "queue count changed"
NOT_PULLED = "not pulled for 120 s"
CLIENT_STANDS = "no queue of the client is pulled"
ONE_QUEUE_STANDS = "other queues of the client are pulled"
ANOTHER_HOLDS = "another member holds the queue"

QUEUE = (*GROUP_TOPIC_HISTORY, "broker", "queue_id")
"""A queue of a group over time."""

OWNED = ("snapshot_id", "consumer_group", "topic", "broker", "queue_id")
"""A queue of a group in a snapshot."""

MEMBERS = ("members", "starts")


class Report(Added):
    """The state of a queue that a client holds."""

    is_expired = column("boolean", "it was not pulled for so long that the client drops it")
    is_unlocked = column("boolean", "an ordered client holds it without its lock")


class OwnerChange(Added):
    """The observation at which the former owner of a queue was last seen."""

    previous_snapshot_id = column("string", "its snapshot")
    previous_queues = column("bigint", "queues of the topic then")
    was_expired = column("boolean", "the former owner had not pulled the queue for too long")


def client_events(
    assignments: DataFrame,
    client_queues: DataFrame,
    clients: DataFrame,
    queues: DataFrame,
    window: Window,
    system_topics: NamedTopics = (),
) -> DataFrame:
    """Compute the events of clients' queues in a window.

    Args:
        assignments: ``progress.assignments`` of the window and of `assignments.HISTORY` before it.
        client_queues: ``raw.client_queues`` of the same snapshots.
        clients: ``raw.clients`` of the same snapshots.
        queues: ``progress.queues`` of the window and of each previous observation.
        window: the window to compute.
        system_topics: system topics that their names do not show, by cluster.

    Returns:
        One row per event with the columns of `tidemark.lake.tables.progress.EVENTS`.
    """
    reports = _reports(client_queues.where(is_of_users(system_topics)), clients)
    changes = _owner_changes(assignments, window)
    rebalanced = _with_members(_with_handed_out(changes, reports, queues), clients)
    happened = with_new(
        rebalanced,
        kind=F.lit(EventKind.REBALANCED),
        likely_cause=_likely_cause(),
        **unknown_of(progress.EVENTS, "evidence"),
    )
    begun = with_new(_states(reports, window), **unknown_of(progress.EVENTS, *ONLY_OF_CLIENTS))
    columns = progress.EVENTS.column_names
    return happened.select(*columns).unionByName(begun.select(*columns))


# Events of clients' reports about their queues.


def _reports(client_queues: DataFrame, clients: DataFrame) -> DataFrame:
    """Return one row per report of a held queue, with the range of unconfirmed messages."""
    own = ("consume_type", "consume_orderly", "message_model")
    owned = ~F.coalesce("dropped", F.lit(False)) & ~F.coalesce("popped", F.lit(False))
    cached = F.col("cached_messages") > 0
    return (
        client_queues.where(owned)
        .join(
            clients.select("snapshot_id", "consumer_group", "client_id", *own),
            on=["snapshot_id", "consumer_group", "client_id"],
            how="left",
        )
        .transform(
            with_new,
            from_offset=F.col("commit_offset"),
            to_offset=F.when(cached, F.try_add("cached_max_offset", F.lit(1))).when(
                F.col("cached_messages") == 0, F.col("commit_offset")
            ),
            is_expired=_is_expired(),
            is_unlocked=_is_unlocked(),
        )
    )


def _is_expired() -> Column:
    """Return whether a push client has not pulled the queue for so long that it drops it."""
    polls = F.col("consume_type").eqNullSafe("CONSUME_ACTIVELY")
    return _is_older(F.col("last_pull_at"), PULL_EXPIRES) & ~polls


def _is_unlocked() -> Column:
    """Return whether an ordered client holds the queue without its lock."""
    broadcasts = F.col("message_model").eqNullSafe("BROADCASTING")
    without = ~F.coalesce("locked", F.lit(True)) | _is_older(F.col("last_lock_at"), LOCK_EXPIRES)
    return F.coalesce("consume_orderly", F.lit(False)) & ~broadcasts & without


def _is_older(instant: Column, age: timedelta) -> Column:
    return F.coalesce(
        milliseconds(instant, F.col("observed_at")) > round(age.total_seconds() * 1000),
        F.lit(False),
    )


def _states(reports: DataFrame, window: Window) -> DataFrame:
    """Return an event for each queue that began to be expired, or without its lock."""
    history = SparkWindow.partitionBy(*QUEUE, "client_id").orderBy("observed_at", "snapshot_id")
    of_client = SparkWindow.partitionBy("snapshot_id", "consumer_group", "client_id")
    of_queue = SparkWindow.partitionBy(*OWNED)
    expired = F.when(F.every(Report.is_expired).over(of_client), CLIENT_STANDS).otherwise(
        ONE_QUEUE_STANDS
    )
    unlocked = F.when(F.count("client_id").over(of_queue) > 1, ANOTHER_HOLDS)
    was = {name: F.lag(name).over(history) for name in ("is_expired", "is_unlocked")}
    begins = {name: F.col(name) & ~F.coalesce(F.col(f"was_{name}"), F.lit(False)) for name in was}
    events = F.array_compact(
        F.array(
            F.when(begins["is_expired"], _state(EventKind.PULL_EXPIRED, "expired_cause")),
            F.when(begins["is_unlocked"], _state(EventKind.ORDER_LOCK_LOST, "unlocked_cause")),
        )
    )
    return (
        with_new(
            reports,
            **{f"was_{name}": value for name, value in was.items()},
            previous_at=F.lag("observed_at").over(history),
            expired_cause=expired,
            unlocked_cause=unlocked,
        )
        .where(inside(window) & (Report.is_expired | Report.is_unlocked))
        .transform(with_new, messages=at_least_zero(F.col("to_offset") - F.col("from_offset")))
        .transform(with_new, event=F.explode(events))
        .select("*", "event.*")
    )


def _state(kind: str, likely_cause: str) -> Column:
    return F.struct(F.lit(kind).alias("kind"), F.col(likely_cause).alias("likely_cause"))


# New owners.


def _owner_changes(assignments: DataFrame, window: Window) -> DataFrame:
    """Return one row per queue that a member owns which did not own it at the last report."""
    of_topic = SparkWindow.partitionBy("snapshot_id", "consumer_group", "topic")
    order = SparkWindow.partitionBy(*QUEUE).orderBy("observed_at", "snapshot_id")
    before = order.rowsBetween(SparkWindow.unboundedPreceding, -1)
    is_owned = F.coalesce(F.size("owners"), F.lit(0)) > 0
    owned = F.when(is_owned, F.struct("snapshot_id", "observed_at", "owners", "queues"))
    without = F.when(F.col("state") == AssignmentState.UNOWNED, F.col("observed_at"))
    return (
        with_new(assignments, queues=F.count(F.lit(1)).over(of_topic))
        .transform(
            with_new,
            previous=F.last(owned, ignorenulls=True).over(before),
            era=F.count(owned).over(before),
        )
        .transform(
            with_new, unowned_since=F.min(without).over(SparkWindow.partitionBy(*QUEUE, "era"))
        )
        .transform(
            with_new,
            gained=F.array_except("owners", "previous.owners"),
            gave=F.array_except("previous.owners", "owners"),
        )
        .where(inside(window) & (F.size("gained") > 0))
        .select(
            *SNAPSHOT,
            *("consumer_group", "topic", "broker", "queue_id", "queues"),
            F.get("gained", F.lit(0)).alias("client_id"),
            F.coalesce(F.get("gave", F.lit(0)), F.get("previous.owners", F.lit(0))).alias(
                "previous_client_id"
            ),
            *OwnerChange.named(
                previous_snapshot_id=F.col("previous.snapshot_id"),
                previous_queues=F.col("previous.queues"),
            ),
            F.col("previous.observed_at").alias("previous_at"),
            F.coalesce(milliseconds(F.col("unowned_since"), F.col("observed_at")), F.lit(0)).alias(
                "unowned_ms"
            ),
        )
    )


def _with_handed_out(changes: DataFrame, reports: DataFrame, queues: DataFrame) -> DataFrame:
    """Add the messages that the former owner had not confirmed when it was last observed."""
    key = [name for name in OWNED if name != "snapshot_id"]
    by_client = reports.select(
        F.col("snapshot_id").alias("previous_snapshot_id"),
        *key,
        F.col("client_id").alias("previous_client_id"),
        F.col("from_offset").alias("client_from"),
        F.col("to_offset").alias("client_to"),
        *OwnerChange.named(was_expired=Report.is_expired),
    )
    by_broker = queues.where(F.col("client_id").isNull()).select(
        F.col("snapshot_id").alias("previous_snapshot_id"),
        *key,
        F.col("consumer_offset").alias("broker_from"),
        F.col("pull_offset").alias("broker_to"),
    )
    start = F.coalesce("broker_from", "client_from")
    end = F.greatest("broker_to", "client_to")
    return (
        changes.join(by_client, on=["previous_snapshot_id", *key, "previous_client_id"], how="left")
        .join(by_broker, on=["previous_snapshot_id", *key], how="left")
        .transform(with_new, from_offset=start, to_offset=end, messages=at_least_zero(end - start))
    )


def _with_members(changes: DataFrame, clients: DataFrame) -> DataFrame:
    """Add the members of the group at both observations, and when each was started."""
    started = F.when(F.col("started_at").isNotNull(), F.struct("client_id", "started_at"))
    members = clients.groupBy("snapshot_id", "consumer_group").agg(
        F.collect_set("client_id").alias("members"), F.collect_set(started).alias("starts")
    )
    former = members.select(
        F.col("snapshot_id").alias("previous_snapshot_id"),
        "consumer_group",
        *(F.col(name).alias(f"previous_{name}") for name in MEMBERS),
    )
    return changes.join(members, on=["snapshot_id", "consumer_group"], how="left").join(
        former, on=["previous_snapshot_id", "consumer_group"], how="left"
    )


def _likely_cause() -> Column:
    left, joined, restarted = member_changes()
    return (
        F.when(restarted | ((left > 0) & (joined > 0)), CLIENT_RESTARTED)
        .when(left > 0, MEMBER_LEFT)
        .when(joined > 0, MEMBER_JOINED)
        .when(F.col("queues") != OwnerChange.previous_queues, QUEUE_COUNT_CHANGED)
        .when(OwnerChange.was_expired, NOT_PULLED)
    )
