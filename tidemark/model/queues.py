"""Queues of groups: conditions, events, and the sources of their delays."""

from enum import StrEnum


class Condition(StrEnum):
    """Conditions of a group's queue, ``condition`` of ``progress.queues``: the first true one."""

    RECREATED = "RECREATED"
    AHEAD_OF_BROKER = "AHEAD_OF_BROKER"
    LOST = "LOST"
    NEVER_COMMITTED = "NEVER_COMMITTED"
    REWOUND = "REWOUND"
    OK = "OK"


class DelaySource(StrEnum):
    """Sources of the store time behind a delay: the values of ``delay_source``."""

    EXACT = "exact"
    INTERPOLATED = "interpolated"
    AT_LEAST = "at_least"


class EventKind(StrEnum):
    """Kinds of events: the values of ``kind`` in ``progress.events``."""

    REWOUND = "REWOUND"
    SKIPPED = "SKIPPED"
    LOST = "LOST"
    RECREATED = "RECREATED"
    AHEAD_OF_BROKER = "AHEAD_OF_BROKER"
    DISAPPEARED = "DISAPPEARED"
    FIRST_COMMIT = "FIRST_COMMIT"
    BROKER_DOWN = "BROKER_DOWN"
    REBALANCED = "REBALANCED"
    PULL_EXPIRED = "PULL_EXPIRED"
    ORDER_LOCK_LOST = "ORDER_LOCK_LOST"
    SERVED_BY_SLAVE = "SERVED_BY_SLAVE"
    SHRUNK = "SHRUNK"
