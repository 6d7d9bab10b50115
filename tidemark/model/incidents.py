"""Incidents of alert rules and the notifications about them."""

from enum import StrEnum


class Severity(StrEnum):
    """Severities of alert rules and of their incidents, the worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class IncidentState(StrEnum):
    """States of an incident: the values of ``state`` in ``alerting.incidents``."""

    PENDING = "PENDING"
    FIRING = "FIRING"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    RESOLVED = "RESOLVED"


class NotificationStatus(StrEnum):
    """States of a notification to one channel: ``status`` of ``alerting.notifications``."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    WITHHELD = "WITHHELD"
