"""Actions of people."""

from enum import StrEnum


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
