"""Health of a group on a topic: its states, and the codes and numbers of their reasons."""

from collections.abc import Mapping
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


TROUBLE = (
    Health.LOSING,
    Health.BLOCKED,
    Health.STALLED,
    Health.STOPPED,
    Health.UNSUBSCRIBED,
    Health.FALLING_BEHIND,
)
"""States in which a group certainly needs a person, the worst first."""


class HealthReason(StrEnum):
    """Reasons of a state of health: the values of ``health_reason_code`` in ``progress.groups``."""

    MESSAGES_EXPIRED = "MESSAGES_EXPIRED"
    QUEUES_UNKNOWN = "QUEUES_UNKNOWN"
    LAG_UNKNOWN = "LAG_UNKNOWN"
    FEW_OBSERVATIONS = "FEW_OBSERVATIONS"
    NO_SUBSCRIBER = "NO_SUBSCRIBER"
    NO_MEMBER_ONLINE = "NO_MEMBER_ONLINE"
    MESSAGES_UNFINISHED = "MESSAGES_UNFINISHED"
    POPPED_UNFINISHED = "POPPED_UNFINISHED"
    COMMITS_STAND = "COMMITS_STAND"
    LAG_RISES = "LAG_RISES"
    IN_FLIGHT_UNKNOWN = "IN_FLIGHT_UNKNOWN"
    LAG_FALLS = "LAG_FALLS"
    NO_TRAFFIC = "NO_TRAFFIC"
    CONSUMES = "CONSUMES"


_OVER = ("observations", "span_ms")
_LAG = ("lag", "lag_before", *_OVER)
_HELD_BACK = ("queues", "queues_named")

FACTS: Mapping[HealthReason, tuple[str, ...]] = {
    HealthReason.MESSAGES_EXPIRED: ("lost", "lost_before", *_OVER, "queues", "queues_named"),
    HealthReason.QUEUES_UNKNOWN: (),
    HealthReason.LAG_UNKNOWN: (),
    HealthReason.FEW_OBSERVATIONS: ("known", "observations"),
    HealthReason.NO_SUBSCRIBER: ("lag", *_OVER),
    HealthReason.NO_MEMBER_ONLINE: ("lag", *_OVER),
    HealthReason.MESSAGES_UNFINISHED: ("queues", "queues_named", "acks_counted"),
    HealthReason.POPPED_UNFINISHED: ("in_flight", "in_flight_before", *_OVER, "acks_counted"),
    HealthReason.COMMITS_STAND: ("queues", "queues_named", "acks_counted"),
    HealthReason.LAG_RISES: (
        *_LAG,
        *("rising_steps", "steps", "rise_seconds", "rise_messages"),
        *_HELD_BACK,
    ),
    HealthReason.IN_FLIGHT_UNKNOWN: (*_LAG, "acks_counted"),
    HealthReason.LAG_FALLS: (*_LAG, "redelivered_tps", *_HELD_BACK),
    HealthReason.NO_TRAFFIC: _OVER,
    HealthReason.CONSUMES: (*_LAG, "redelivered_tps", *_HELD_BACK),
}
"""Facts that each reason states: fields of ``health_facts``, of which the others are NULL.

Its words also state columns of the row: ``queues, queues_unknown, online, lag_is_lower_bound,
worst_broker, worst_queue_id, max_queue_lag``.
"""


class CacheLimit(StrEnum):
    """Limits of a client's cache of a queue, in the order in which clients check them."""

    CACHED_MESSAGES = "CACHED_MESSAGES"
    CACHED_MIB = "CACHED_MIB"
    CACHED_SPAN = "CACHED_SPAN"
