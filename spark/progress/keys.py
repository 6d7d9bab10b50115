"""Keys of the rows of ``progress.*``: groups, their topics and their queues."""

from spark.columns import QUEUE, SNAPSHOT

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
