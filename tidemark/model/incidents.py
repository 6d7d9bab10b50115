"""Incidents of alert rules: transitions, notifications, and what people do about them and rows."""

from enum import StrEnum
from typing import Self


class Severity(StrEnum):
    """Severities of alert rules and of their incidents, the worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class IncidentState(StrEnum):
    """The state of an incident, as ``alerting.incidents.state`` has it."""

    PENDING = "PENDING"
    FIRING = "FIRING"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    RESOLVED = "RESOLVED"


class NotificationStatus(StrEnum):
    """The state of a notification on a channel, as ``alerting.notifications.status`` has it."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    WITHHELD = "WITHHELD"


class TransitionKind(StrEnum):
    """The change of an incident that people are notified of."""

    FIRING = "FIRING"
    RESOLVED = "RESOLVED"
    ACKNOWLEDGED = "ACKNOWLEDGED"


class TransitionName(str):
    """The stored name of a transition: ``FIRING``, and ``FIRING_2`` after the first reopening.

    Attributes:
        kind: the change.
        number: 1 from the opening on, and one more after each reopening.
    """

    kind: TransitionKind
    number: int

    def __new__(cls, stored: str) -> Self:
        """Parse a stored name.

        Raises:
            ValueError: it is not the name of a transition.
        """
        kind, separator, number = stored.partition("_")
        self = super().__new__(cls, stored)
        self.kind = TransitionKind(kind)
        self.number = int(number) if separator else 1
        return self

    @classmethod
    def of(cls, kind: TransitionKind, number: int) -> Self:
        """Return the name of a change."""
        return cls(kind if number == 1 else f"{kind}_{number}")


class ActionKind(StrEnum):
    """The actions of people that the audit trail lists."""

    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    SILENCED = "silenced"
    UNSILENCED = "unsilenced"
    ANNOTATED = "annotated"
    ANNOTATION_REMOVED = "annotation_removed"
    RELEASED = "released"
    DROPPED = "dropped"
    UNDONE = "undone"
    DIAGNOSED = "diagnosed"
    REFUSED = "refused"
