"""Events of whole topics between two observations of a broker: kind ``SHRUNK``.

A topic whose number of read queues is reduced keeps the messages of the others, which its route
then hides from consumers.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake.system_topics import NamedTopics
from lake.tables import progress
from spark.columns import SNAPSHOT, with_new
from spark.progress.users_own import topic_of_users
from tidemark.model.queues import EventKind

_NOT_OF_TOPICS = {
    **dict.fromkeys(("consumer_group", "client_id", "likely_cause"), "string"),
    **dict.fromkeys(("from_offset", "to_offset", "unowned_ms"), "bigint"),
    **{"queue_id": "int", "previous_client_id": "string"},
}
"""Columns that events of topics do not have, and their types."""


def topic_events(
    topics: DataFrame, queue_offsets: DataFrame, steps: DataFrame, system_topics: NamedTopics = ()
) -> DataFrame:
    """Compute the events of topics of a window.

    Args:
        topics: ``raw.topics`` of the window and of every ``previous_snapshot_id``.
        queue_offsets: valid ``raw.queue_offsets`` of them.
        steps: the window's steps, one row each, with the fields of `lake.observation_steps.Step`.
        system_topics: system topics that their names do not show, by cluster.

    Returns:
        One row per step and topic with fewer ``read_queues``, with the columns of
        `lake.tables.progress.EVENTS`. ``messages`` are those of the queues in between; as they
        were before, where the later snapshot does not have them, as of queues without a commit.
    """
    seen = F.broadcast(steps.where("NOT down"))
    now = topics.select("snapshot_id", "broker", "topic", F.col("read_queues").alias("now"))
    before = topics.select(
        F.col("snapshot_id").alias("previous_snapshot_id"),
        *("broker", "topic", F.col("read_queues").alias("before")),
    )
    shrunk = (
        now.join(seen, on=["snapshot_id", "broker"], how="inner")
        .join(before, on=["previous_snapshot_id", "broker", "topic"], how="inner")
        .where((F.col("now") < F.col("before")) & topic_of_users(system_topics))
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
    found = (
        stored.join(F.broadcast(shrunk), on=["broker", "topic"], how="right")
        .groupBy(*key, "queue_id")
        .agg(F.max_by(left, F.when(left.isNotNull(), is_now.cast("int"))).alias("left"))
        .groupBy(*key)
        .agg(F.try_sum("left").alias("messages"))
    )
    unknown = {name: F.lit(None).cast(kind) for name, kind in _NOT_OF_TOPICS.items()}
    evidence = F.format_string("read queues %d, before %d", "now", "before")
    return with_new(
        found, unknown | {"kind": F.lit(EventKind.SHRUNK), "evidence": evidence}
    ).select(*progress.EVENTS.column_names)
