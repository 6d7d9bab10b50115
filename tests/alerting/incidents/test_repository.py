"""Incidents that the next observations may change, as they are read from the table."""

from msgspec.structs import replace

from tests.support.notified_incidents import RESOLVED, incident, minute
from tidemark.alerting.incidents.repository import current_incidents, save


def test_recurrences_that_have_begun_are_current(lake):
    opened, begun = incident(("FIRING", 0), group="open"), {"last_true_at": minute(65)}
    recurring = replace(RESOLVED, **begun, streak=2, streak_at=minute(64))
    over = replace(incident(("FIRING", 0), ("RESOLVED", 9), group="over"), **begun)
    save(lake, [], [opened, recurring, over])
    ids = {number: _ids(lake, number) for number in (69, 70, 125, 126)}
    both = {opened.incident_id, recurring.incident_id}
    assert ids == {69: {*both, over.incident_id}, 70: both, 125: both, 126: {opened.incident_id}}


def _ids(lake, number):
    return {item.incident_id for item in current_incidents(lake, minute(number)).incidents}
