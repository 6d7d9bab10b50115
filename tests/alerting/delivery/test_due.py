"""Due notifications: each transition once, in order, and none of a muted incident."""

from datetime import timedelta

from alerting.delivery.due import Entry, due
from alerting.delivery.outbox import LONGEST_RETRY_PAUSE, retry_pause
from alerting.incidents.incident import Incident
from tests.support.notified_incidents import (
    DONE,
    FIRING,
    RESOLVED,
    entry,
    incident,
    minute,
)


def due_now(
    now: float, *incidents: Incident, entries: tuple[Entry, ...] = (), reason: str | None = None
) -> tuple[list[str], list[str | None]]:
    """The transitions due on channel ``hook``, and the statuses of the entries that change."""
    known = {(each.incident_id, each.transition): each for each in entries}
    found = due(incidents, known, "hook", minute(now), lambda incident: reason)
    return [each.transition.transition for each in found.notifications], [
        each.status for each in found.changed
    ]


def test_each_transition_is_due_until_it_was_delivered():
    assert due_now(1, FIRING) == (["FIRING"], [])
    assert due_now(1, FIRING, entries=(entry("FIRING", 0, **DONE),)) == ([], [])
    assert due_now(9, RESOLVED, entries=(entry("FIRING", 0, **DONE),)) == (["RESOLVED"], [])
    assert due_now(9, RESOLVED) == (["FIRING", "RESOLVED"], [])


def test_later_notifications_wait_for_a_failed_one():
    failed = entry("FIRING", 0, attempts=2, next_attempt_at=minute(10), last_error="gone")
    assert due_now(9, RESOLVED, entries=(failed,)) == ([], [])
    assert due_now(10, RESOLVED, entries=(failed,)) == (["FIRING", "RESOLVED"], [])
    pauses = [retry_pause(attempts) for attempts in range(1, 100)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[1], pauses[-1]) == (
        timedelta(seconds=15),
        timedelta(seconds=30),
        LONGEST_RETRY_PAUSE,
    )


def test_a_resolution_long_ago_is_notified_as_late():
    assert due_now(70, RESOLVED) == (["FIRING", "RESOLVED"], [])
    late = due([RESOLVED], {}, "hook", minute(70)).notifications
    assert [each.late for each in late] == [True, True]
    assert [each.late for each in due([RESOLVED], {}, "hook", minute(69)).notifications] == [
        False,
        False,
    ]
    delivered = {(RESOLVED.incident_id, "FIRING"): entry("FIRING", 0, **DONE)}
    (resolution,) = due([RESOLVED], delivered, "hook", minute(900)).notifications
    assert not resolution.late, "whoever got the firing waits for it"
    assert due_now(600, FIRING) == (["FIRING"], []), "it is still open"


def test_a_muted_notification_is_sent_later_if_still_open():
    assert due_now(1, FIRING, reason="quiet hours") == ([], ["PENDING"])
    muted = entry("FIRING", 0, last_error="quiet hours")
    assert due_now(2, FIRING, entries=(muted,), reason="quiet hours") == ([], [])
    assert due_now(2, FIRING, entries=(muted,)) == (["FIRING"], [])
    assert due_now(9, RESOLVED, entries=(muted,), reason="quiet hours") == (
        [],
        ["WITHHELD", "WITHHELD"],
    )
    # Where the firing was delivered, the resolution follows later.
    sent = entry("FIRING", 0, **DONE)
    assert due_now(9, RESOLVED, entries=(sent,), reason="quiet hours") == ([], ["PENDING"])
    waits = entry("RESOLVED", 9, last_error="quiet hours")
    assert due_now(900, RESOLVED, entries=(sent, waits)) == (["RESOLVED"], [])


def test_an_incident_resolved_while_muted_is_never_sent():
    muted = entry("FIRING", 0, last_error="inhibited by incident abc")
    assert due_now(10, RESOLVED, entries=(muted,)) == ([], ["WITHHELD", "WITHHELD"])
    # A notification that failed was not muted.
    failed = entry("FIRING", 0, last_error="gone", attempts=1, next_attempt_at=minute(9))
    assert due_now(10, RESOLVED, entries=(failed,)) == (["FIRING", "RESOLVED"], [])


def test_each_reopening_is_notified_or_muted_by_itself():
    first = (entry("FIRING", 0, **DONE), entry("RESOLVED", 9, **DONE))
    back = (("FIRING", 0), ("RESOLVED", 9), ("FIRING_2", 20))
    reopened, resolved_again = incident(*back), incident(*back, ("RESOLVED_2", 30))
    assert due_now(21, reopened, entries=first, reason="quiet hours") == ([], ["PENDING"])
    muted = entry("FIRING_2", 20, last_error="quiet hours")
    assert due_now(31, resolved_again, entries=(*first, muted), reason="quiet hours") == (
        [],
        ["WITHHELD"] * 2,
    )
    assert due_now(31, resolved_again, entries=(*first, muted)) == ([], ["WITHHELD", "WITHHELD"])
    assert due_now(31, reopened, entries=(*first, muted)) == (["FIRING_2"], [])
    # The first firing was muted and resolved; the second is still open.
    first_muted = entry("FIRING", 0, last_error="quiet hours")
    assert due_now(21, reopened, entries=(first_muted,)) == (["FIRING_2"], ["WITHHELD", "WITHHELD"])


def test_a_resolution_is_sent_only_where_the_firing_was():
    not_sent = entry("FIRING", 0, status="WITHHELD")
    assert due_now(9, RESOLVED, entries=(not_sent,)) == ([], ["WITHHELD"])
