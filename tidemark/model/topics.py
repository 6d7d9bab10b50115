"""Topics: why messages of one cannot be read."""

from enum import StrEnum


class UnreadableReason(StrEnum):
    """Reasons why no consumer can read messages of a topic; the first true one counts."""

    NO_READ_PERMISSION = "NO_READ_PERMISSION"
    BEYOND_READ_QUEUES = "BEYOND_READ_QUEUES"
