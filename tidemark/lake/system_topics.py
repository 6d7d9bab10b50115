"""Topics of RocketMQ itself that are named after the brokers and clusters of one deployment."""

from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.schema import all_of, equal_to, window_filter
from tidemark.lake.tables import raw
from tidemark.rocketmq.names import TopicKind, topic_kind

NamedTopics = tuple[tuple[str, str], ...]
"""Clusters and topics of them, in order."""


def system_topics(lake: Lake, window: Window) -> NamedTopics:
    """Return the system topics that no name shows, of each cluster in a window.

    A broker creates a topic of its own name and one of its cluster's name. The same name may be a
    user's topic in another cluster.
    """
    is_system = equal_to("kind", TopicKind.SYSTEM.value)
    where = all_of(window_filter(raw.TOPICS, window), is_system)
    result = lake.read(raw.TOPICS, where, columns=("cluster", "topic"))
    pairs = zip(result["cluster"].to_pylist(), result["topic"].to_pylist(), strict=True)
    known = (pair for pair in pairs if None not in pair)
    return tuple(sorted(pair for pair in set(known) if topic_kind(pair[1]) is not TopicKind.SYSTEM))
