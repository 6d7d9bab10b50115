"""Conditions that select users' own topics and groups; RocketMQ's own stay in ``raw.*``."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from lake.system_topics import NamedTopics
from rocketmq import names


def of_users(named: NamedTopics = ()) -> Column:
    """Return whether topic and group are users' own, not RocketMQ's.

    Args:
        named: system topics that no name shows, by cluster.
    """
    group = F.col("consumer_group")
    system_group = group.isin(*names.SYSTEM_GROUPS) | group.startswith(names.SYSTEM_GROUP_PREFIX)
    return topic_of_users(named) & ~system_group


def topic_of_users(named: NamedTopics = ()) -> Column:
    """Return whether the topic is users' own; `named` as for `of_users`."""
    topic = F.col("topic")
    users_own = ~topic.isin(*names.SYSTEM_TOPICS) & ~topic.startswith(names.SYSTEM_TOPIC_PREFIX)
    if not named:
        return users_own
    return users_own & ~F.concat_ws("/", "cluster", topic).isin(["/".join(pair) for pair in named])
