"""Due notifications: each transition once, in order, and none of a muted incident."""

from datetime import timedelta
from typing import Any

import pytest

from tests.support.notified_incidents import (
    DONE,
    FIRING,
    RESOLVED,
    entry,
    incident,
    minute,
    notification,
)
from tidemark.alerting.delivery.channels import LogChannel
from tidemark.alerting.delivery.notification_log import Entry, NotificationLog, OpenNotifications
from tidemark.alerting.delivery.receivers import ChannelRoute
from tidemark.alerting.delivery.stages import (
    LONGEST_RETRY_PAUSE,
    Candidate,
    Due,
    Earlier,
    GroupPause,
    Stage,
    Stages,
    Unmuted,
    Waiting,
    Withheld,
    after_digest_period,
    after_earlier_transitions,
    after_its_firing,
    after_retry_pause,
    not_sent_yet_or_repeated,
    on_a_route,
    retry_pause,
    worth_a_page,
)
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.incidents.repository import save
from tidemark.alerting.rules.routing import Node
from tidemark.lake.tables.alerting import NOTIFICATIONS
from tidemark.model.incidents import NotificationStatus, TransitionKind


def due_now(
    now: float, *incidents: Incident, entries: tuple[Entry, ...] = (), reason: str | None = None
) -> tuple[list[str], list[str | None]]:
    """The transitions due on channel ``hook``, and the statuses of the entries that change."""
    result = due(now, *incidents, entries=entries, reason=reason)
    candidates = [candidate for group in result.groups for candidate in group]
    transitions = [candidate.notification.transition.transition for candidate in candidates]
    return transitions, [entry.status for entry in result.changed]


def due(
    now: float, *incidents: Incident, entries: tuple[Entry, ...] = (), reason: str | None = None
) -> Due:
    stages = Stages(
        channel=LogChannel(),
        entries={entry.key: entry for entry in entries},
        routes={incident.incident_id: ChannelRoute() for incident in incidents},
        mutes=[lambda incident, now: reason],
    )
    return stages.due(incidents, minute(now))


def late(now: float, *entries: Entry) -> list[bool]:
    """Whether the notifications that are due are about a resolution long ago."""
    (group,) = due(now, RESOLVED, entries=entries).groups
    return [candidate.notification.late for candidate in group]


def test_each_transition_is_due_until_it_was_delivered():
    assert due_now(1, FIRING) == (["FIRING"], [])
    assert due_now(1, FIRING, entries=(entry("FIRING", 0, **DONE),)) == ([], [])
    assert due_now(9, RESOLVED, entries=(entry("FIRING", 0, **DONE),)) == (["RESOLVED"], [])
    assert due_now(9, RESOLVED) == (["FIRING", "RESOLVED"], [])


def test_later_notifications_wait_for_a_failed_one():
    failed = entry("FIRING", 0, attempts=2, next_attempt_at=minute(10), failure="gone")
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
    assert late(70) == [True, True]
    assert late(69) == [False, False]
    assert late(900, entry("FIRING", 0, **DONE)) == [False], "whoever got the firing waits for it"
    assert due_now(600, FIRING) == (["FIRING"], []), "it is still open"


def test_a_muted_notification_is_sent_later_if_still_open():
    assert due_now(1, FIRING, reason="quiet hours") == ([], ["PENDING"])
    muted = entry("FIRING", 0, muted="quiet hours")
    assert due_now(2, FIRING, entries=(muted,), reason="quiet hours") == ([], [])
    assert due_now(2, FIRING, entries=(muted,)) == (["FIRING"], [])
    assert due_now(9, RESOLVED, entries=(muted,), reason="quiet hours") == (
        [],
        ["WITHHELD", "WITHHELD"],
    )
    # Where the firing was delivered, the resolution follows later.
    sent = entry("FIRING", 0, **DONE)
    assert due_now(9, RESOLVED, entries=(sent,), reason="quiet hours") == ([], ["PENDING"])
    waits = entry("RESOLVED", 9, muted="quiet hours")
    assert due_now(900, RESOLVED, entries=(sent, waits)) == (["RESOLVED"], [])


def test_an_incident_resolved_while_muted_is_never_sent():
    muted = entry("FIRING", 0, muted="inhibited by incident abc")
    assert due_now(10, RESOLVED, entries=(muted,)) == ([], ["WITHHELD", "WITHHELD"])
    # A notification that failed was not muted.
    failed = entry("FIRING", 0, failure="gone", attempts=1, next_attempt_at=minute(9))
    assert due_now(10, RESOLVED, entries=(failed,)) == (["FIRING", "RESOLVED"], [])


def test_each_reopening_is_notified_or_muted_by_itself():
    first = (entry("FIRING", 0, **DONE), entry("RESOLVED", 9, **DONE))
    back = (("FIRING", 0), ("RESOLVED", 9), ("FIRING_2", 20))
    reopened, resolved_again = incident(*back), incident(*back, ("RESOLVED_2", 30))
    assert due_now(21, reopened, entries=first, reason="quiet hours") == ([], ["PENDING"])
    muted = entry("FIRING_2", 20, muted="quiet hours")
    assert due_now(31, resolved_again, entries=(*first, muted), reason="quiet hours") == (
        [],
        ["WITHHELD"] * 2,
    )
    assert due_now(31, resolved_again, entries=(*first, muted)) == ([], ["WITHHELD", "WITHHELD"])
    assert due_now(31, reopened, entries=(*first, muted)) == (["FIRING_2"], [])
    # The first firing was muted and resolved; the second is still open.
    first_muted = entry("FIRING", 0, muted="quiet hours")
    assert due_now(21, reopened, entries=(first_muted,)) == (["FIRING_2"], ["WITHHELD", "WITHHELD"])


def test_a_resolution_is_sent_only_where_the_firing_was():
    not_sent = entry("FIRING", 0, status="WITHHELD")
    assert due_now(9, RESOLVED, entries=(not_sent,)) == ([], ["WITHHELD"])


def candidate(transition: str = "FIRING", **other: Any) -> Candidate:
    """A transition of an open incident that the channel ``log`` gets at once."""
    one = incident(("FIRING", 0), ("RESOLVED", 9)) if transition == "RESOLVED" else FIRING
    values = {
        "notification": notification(one, -1),
        "channel": LogChannel(),
        "route": ChannelRoute(),
        "recorded": None,
        "entry": entry(transition, 0),
        "earlier": Earlier(),
    }
    return Candidate(**values | other)


class Pager(LogChannel):
    pages = True


class Digest(LogChannel):
    every = timedelta(hours=1)


NODE = Node(place="routes", group_wait=120.0, repeat_interval=3600.0)
SENT = entry("FIRING", 0, next_attempt_at=minute(61), **DONE)
HAS_FIRING = Earlier(expected=TransitionKind.FIRING)
KEPT_BY: dict[str, tuple[Stage, Candidate, float, type | None, str | None]] = {
    "delivered before": (not_sent_yet_or_repeated, candidate(entry=SENT), 5, None, None),
    "a repeat without a route": (not_sent_yet_or_repeated, candidate(entry=SENT), 61, None, None),
    "its firing": (
        after_its_firing,
        candidate("RESOLVED"),
        9,
        Withheld,
        "its firing was not notified",
    ),
    "a silence": (Unmuted(lambda one, now: "silenced"), candidate(), 1, Waiting, "silenced"),
    "a silence that outlived it": (
        Unmuted(lambda one, now: "silenced"),
        candidate("RESOLVED"),
        9,
        Withheld,
        "resolved while silenced",
    ),
    "its route": (on_a_route, candidate(route=None), 1, Waiting, "no route leads here any more"),
    "a pager": (
        worth_a_page,
        candidate(
            channel=Pager(), notification=notification(incident(("FIRING", 0), severity="info"))
        ),
        1,
        Waiting,
        "info opens no page",
    ),
    "an earlier transition": (
        after_earlier_transitions,
        candidate(earlier=Earlier(is_waiting=True)),
        1,
        Waiting,
        "an earlier transition waits",
    ),
    "a digest": (
        after_digest_period,
        candidate(channel=Digest(), entry=entry("FIRING", 0, next_attempt_at=minute(60))),
        59,
        Waiting,
        "the digest period lasts",
    ),
    "a failure": (
        after_retry_pause,
        candidate(entry=entry("FIRING", 0, attempts=2, next_attempt_at=minute(2))),
        1,
        Waiting,
        "the pause after a failure lasts",
    ),
    "its group": (
        GroupPause(notified={}, first={("a",): minute(0)}),
        candidate(route=ChannelRoute(node=NODE, group=("a",))),
        1,
        Waiting,
        "its group waits",
    ),
}


@pytest.mark.parametrize(("stage", "one", "at", "kind", "reason"), KEPT_BY.values(), ids=KEPT_BY)
def test_a_stage_keeps_a_candidate_with_its_reason(
    stage: Stage, one: Candidate, at: float, kind: type | None, reason: str | None
):
    outcome = stage(one, minute(at))
    assert (type(outcome) if outcome else None, getattr(outcome, "reason", None)) == (kind, reason)


@pytest.mark.parametrize(
    ("stage", "one", "at"),
    [
        (
            after_its_firing,
            candidate("RESOLVED", earlier=Earlier(expected=TransitionKind.FIRING)),
            9,
        ),
        (Unmuted(lambda one, now: None), candidate(), 1),
        (worth_a_page, candidate(channel=Pager()), 1),
        (after_digest_period, KEPT_BY["a digest"][1], 60),
        (after_retry_pause, KEPT_BY["a failure"][1], 2),
        (KEPT_BY["its group"][0], KEPT_BY["its group"][1], 2),
    ],
)
def test_a_stage_passes_a_candidate_as_it_is(stage: Stage, one: Candidate, at: float):
    assert stage(one, minute(at)) is one


def test_a_route_repeats_a_firing_notification():
    outcome = not_sent_yet_or_repeated(
        candidate(entry=SENT, route=ChannelRoute(node=NODE, group=("a",))), minute(61)
    )
    assert isinstance(outcome, Candidate)
    assert outcome.notification.repeat == 1


@pytest.mark.parametrize(
    ("columns", "meaning"),
    [
        ({"attempts": 1}, "failure"),
        ({}, "muted"),
        ({"status": NotificationStatus.WITHHELD, "attempts": 1}, "withheld"),
    ],
)
def test_last_error_is_read_as_one_of_three(lake, columns: dict[str, Any], meaning: str):
    save(lake, [], [FIRING])
    log = NotificationLog(lake, [FIRING], OpenNotifications())
    written = entry("FIRING", 0, **columns, **{meaning: "so"})
    log.write([written])
    assert NotificationLog(lake, [FIRING], OpenNotifications()).at_start == {
        "hook": {written.key: written}
    }
    (row,) = lake.read(NOTIFICATIONS).to_pylist()
    assert row["last_error"] == "so"
