"""The text of a summary: incidents that opened and resolved before they could be notified."""

from collections import Counter
from collections.abc import Sequence

from alerting.delivery.digests import incident_line
from alerting.delivery.messages import (
    MOST_IN_FULL,
    Notification,
    first_short_enough,
    severity_order,
)
from alerting.incidents.incident import Incident


def summary_title(notifications: Sequence[Notification]) -> str:
    """Return how many incidents resolved without a notification."""
    count = len(_incidents(notifications))
    what = "incident" if count == 1 else "incidents"
    return f"Tidemark: {count} {what} opened and resolved before anybody was notified"


def summary_body(notifications: Sequence[Notification], room: int | None = None) -> str:
    """Return how many each rule had, and one line for each of the worst.

    Args:
        notifications: of incidents that are over.
        room: bytes that the text may take; where they are too few, fewer lines are shown.
    """
    incidents = _incidents(notifications)
    rules = Counter(each.rule for each in incidents).most_common()
    heading = f"By rule: {', '.join(f'{count} {rule}' for rule, count in rules)}"

    def shortened(most: int) -> str:
        lines = [heading, *(incident_line(each) for each in incidents[:most])]
        if len(incidents) > most:
            lines.append(f"and {len(incidents) - most} more: tidemark incidents list --all")
        return "\n".join(lines)

    return first_short_enough(map(shortened, range(MOST_IN_FULL, -1, -1)), room)


def _incidents(notifications: Sequence[Notification]) -> list[Incident]:
    """Return each incident once: the worst first, then the oldest."""
    found = {each.incident.incident_id: each.incident for each in notifications}
    return sorted(found.values(), key=lambda each: (severity_order(each.severity), each.opened_at))
