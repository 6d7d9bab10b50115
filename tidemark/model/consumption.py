"""Ways of consuming: by queues or message by message."""

from enum import StrEnum


class ConsumeMode(StrEnum):
    """Ways in which brokers hand messages to a group: the values of ``consume_mode``."""

    PULL = "pull"
    POP = "pop"
