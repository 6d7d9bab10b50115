"""Health of a group on a topic: the values of ``health`` in ``progress.groups``."""

from enum import StrEnum


class Health(StrEnum):
    """States of health, in the order in which `spark.progress.health` tries their rules."""

    LOSING = "LOSING"
    UNKNOWN = "UNKNOWN"
    UNSUBSCRIBED = "UNSUBSCRIBED"
    STOPPED = "STOPPED"
    BLOCKED = "BLOCKED"
    STALLED = "STALLED"
    FALLING_BEHIND = "FALLING_BEHIND"
    CATCHING_UP = "CATCHING_UP"
    IDLE = "IDLE"
    OK = "OK"
