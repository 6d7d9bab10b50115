"""Expectations that are no longer declared, whose open incidents are resolved.

An expectation that is no longer validated has no further result, so no rule would resolve its
incidents. An expectation without a result may also wait for rows or for a run, so only the
declarations show that it was removed.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from alerting.incidents.incident import Evaluation, Incident
from alerting.incidents.repository import find, incidents_lease, save_closed
from lake.catalog import Lake

REASON = "the expectation is no longer declared and is not validated"

Named = tuple[str, str]
"""Full name of a table and name of one of its expectations."""


def without_result(
    incidents: Iterable[Incident], evaluation: Evaluation
) -> dict[Named, list[Incident]]:
    """Return the open incidents about expectations of which an evaluation holds no result."""
    known = {(alert.rule, alert.subject) for alert in evaluation.alerts} | evaluation.untrue
    found: dict[Named, list[Incident]] = {}
    for each in incidents:
        if each.kind == "quality" and each.is_open and (each.rule, each.subject) not in known:
            named = each.row["table"], each.row["expectation"]
            found.setdefault(named, []).append(each)
    return found


def close_undeclared(lake: Lake, incidents: Collection[Incident], now: datetime) -> int:
    """Close incidents about expectations that are no longer declared.

    Returns:
        How many incidents changed.

    Raises:
        LeaseError: see `incidents_lease`.
    """
    if not incidents:
        return 0
    with incidents_lease(lake):
        found = find(lake, [each.incident_id for each in incidents])
        return save_closed(lake, [each for each in found if each.is_open], now, REASON)
