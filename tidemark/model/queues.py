"""Words about queues and topics: conditions, events, sources of delays, unreadable messages."""

from enum import StrEnum


class UnreadableReason(StrEnum):
    """Reasons why no consumer can read messages of a topic; the first true one counts."""

    NO_READ_PERMISSION = "NO_READ_PERMISSION"
    BEYOND_READ_QUEUES = "BEYOND_READ_QUEUES"


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
