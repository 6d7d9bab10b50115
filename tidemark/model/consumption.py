"""Words about consumption: conditions and events of queues, modes, assignments and stacks."""

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


class ConsumeMode(StrEnum):
    """Ways in which brokers hand messages to a group: the values of ``consume_mode``."""

    PULL = "pull"
    POP = "pop"


class AssignmentState(StrEnum):
    """States of a queue's assignment: the values of ``state`` in ``progress.assignments``."""

    OK = "OK"
    UNOWNED = "UNOWNED"
    CONTESTED = "CONTESTED"
    MOVED = "MOVED"
    UNKNOWN = "UNKNOWN"


class IdleReason(StrEnum):
    """Reasons why a member holds no queue: the values of ``reason`` in ``progress.idle_clients``.

    The first true one counts.
    """

    NO_READABLE_QUEUE = "NO_READABLE_QUEUE"
    NOT_REBALANCED = "NOT_REBALANCED"
    MORE_CLIENTS_THAN_QUEUES = "MORE_CLIENTS_THAN_QUEUES"
    HASH_LUCK = "HASH_LUCK"
    NO_QUEUE_IN_ROOM = "NO_QUEUE_IN_ROOM"
    NOT_CONFIGURED = "NOT_CONFIGURED"
    UNKNOWN = "UNKNOWN"


class StackOutcome(StrEnum):
    """Outcomes of the request for the stacks of a member's consume threads."""

    REPORTED = "REPORTED"
    NO_CONSUME_THREADS = "NO_CONSUME_THREADS"
    NO_STACKS = "NO_STACKS"
    NO_RESPONSE = "NO_RESPONSE"
    GRPC = "GRPC"
    WOULD_COMMIT = "WOULD_COMMIT"
    REPORTS_OFF = "REPORTS_OFF"
    RECENT = "RECENT"


class LookupOutcome(StrEnum):
    """Outcomes of the lookup of the first unconsumed message of a queue."""

    KNOWN = "KNOWN"
    OFF = "OFF"
    POPPED = "POPPED"
    NEVER_COMMITTED = "NEVER_COMMITTED"
    GONE = "GONE"
    TOO_LARGE = "TOO_LARGE"
    FAILED = "FAILED"
