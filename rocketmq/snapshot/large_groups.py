"""Groups whose members would take more memory than a snapshot may.

A row is written for each member with all subscriptions of its group, and for each queue of these
subscriptions that never committed. So a few kilobytes from a broker may cause any number of rows.
"""

from collections import Counter
from collections.abc import Iterable

from rocketmq.names import CONNECTIONS
from rocketmq.records import Problem
from rocketmq.snapshot.broker_reading import BrokerReading
from rocketmq.snapshot.online import Online
from rocketmq.snapshot.problems import Problems

MOST_SUBSCRIPTIONS = 1_000_000
"""Subscriptions of all members of a snapshot: 10,000 members with 100 topics each."""

MOST_QUEUES = 1_000_000
"""Queues of the subscriptions of all groups of a snapshot."""

TEXT_OF_ONE = 100
"""Characters of expressions and tags that count as a subscription more."""


def leave_out_large_groups(
    online: Online, readings: Iterable[BrokerReading], problems: Problems
) -> Online:
    """Return online members without the groups beyond the limits, which one problem names.

    The smallest groups stay.

    Args:
        online: online members at any broker.
        readings: readings of masters, with their topics.
        problems: receives the groups that are left out. Their members are unknown then.
    """
    readings = list(readings)
    queues: Counter[str] = Counter()
    for reading in readings:
        for topic, config in (reading.topics or {}).items():
            queues[topic] += len(config.readable_queues)
    weights = {group: _weight(online, group, queues) for group in online}
    subscriptions = rows = 0
    left_out = []
    for group in sorted(weights, key=lambda group: (sum(weights[group]), group)):
        subscriptions, rows = subscriptions + weights[group][0], rows + weights[group][1]
        if subscriptions > MOST_SUBSCRIPTIONS or rows > MOST_QUEUES:
            left_out.append(group)
    for broker in {broker for group in left_out for broker in online[group]}:
        address = next((each.address for each in readings if each.broker == broker), broker)
        groups = sorted(group for group in left_out if broker in online[group])
        message = (
            f"{len(groups)} groups are left out: the members of a snapshot have at most "
            f"{MOST_SUBSCRIPTIONS} subscriptions, to {MOST_QUEUES} queues"
        )
        problems.add(Problem(address, CONNECTIONS + " ".join(groups), None, message))
    return {group: online[group] for group in online.keys() - left_out}


def _weight(online: Online, group: str, queues: Counter[str]) -> tuple[int, int]:
    """Return the subscriptions of all members of a group, and the queues of these."""
    connections = online[group].values()
    members = sum(len(connection.connections) for connection in connections)
    merged = {topic: it for each in connections for topic, it in each.subscriptions.items()}
    texts = sum(len(it.expression or "") + sum(map(len, it.tags or ())) for it in merged.values())
    each = len(merged) + texts // TEXT_OF_ONE
    return members * each, sum(queues[topic] for topic in merged)
