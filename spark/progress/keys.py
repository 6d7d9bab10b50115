"""Keys of the rows of ``progress.*``, and which topics and groups are users' own."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark.columns import QUEUE, SNAPSHOT
from tidemark.lake.system_topics import NamedTopics
from tidemark.rocketmq import names


def is_of_users(named: NamedTopics = ()) -> Column:
    """Return whether topic and group are users' own, not RocketMQ's.

    Args:
        named: system topics that no name shows, by cluster.
    """
    group = F.col("consumer_group")
    system_group = group.isin(*names.SYSTEM_GROUPS) | group.startswith(names.SYSTEM_GROUP_PREFIX)
    return is_topic_of_users(named) & ~system_group


def is_topic_of_users(named: NamedTopics = ()) -> Column:
    """Return whether the topic is users' own; `named` as for `is_of_users`."""
    topic = F.col("topic")
    users_own = ~topic.isin(*names.SYSTEM_TOPICS) & ~topic.startswith(names.SYSTEM_TOPIC_PREFIX)
    if not named:
        return users_own
    return users_own & ~F.concat_ws("/", "cluster", topic).isin(["/".join(pair) for pair in named])


QUEUE_ID = ("broker", "topic", "queue_id")
"""The key for joins of queues in one snapshot."""

GROUP = (*SNAPSHOT, "consumer_group")
"""A group in a snapshot."""

GROUP_TOPIC = (*GROUP, "topic")
"""A group on a topic in a snapshot."""

GROUP_QUEUE = (*GROUP_TOPIC, "broker", "queue_id")
"""A queue of a group in a snapshot."""

GROUP_ID = ("snapshot_id", "consumer_group")
"""The key for joins on `GROUP`; a snapshot has one instant and one cluster."""

GROUP_TOPIC_ID = (*GROUP_ID, "topic")
"""The key for joins on `GROUP_TOPIC`."""

GROUP_TOPIC_HISTORY = ("cluster", "consumer_group", "topic")
"""A group on a topic over time."""

CONSUMED_QUEUE = (*QUEUE, "consumer_group", "client_id")
"""A queue as a group, or a broadcasting client, consumes it over time."""
