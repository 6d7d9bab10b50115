"""The stages of delivery: which notifications a channel is sent now, which wait, which never go.

A candidate is one transition of one incident on one channel. It passes the stages in the order of
`stages_of_transition`, read from top to bottom. The first stage that keeps it decides: it waits, it
is withheld for ever, or nothing is left to do. The candidates that pass are sent; those that a
route groups pass `GroupPause` as well.

Transitions of an incident are delivered in order, and its resolution only where its firing was
delivered. The same holds after each reopening. Every transition is notified, however late the
delivery is: an incident that had resolved for longer than `LATE_AFTER` before it could be notified
is late and goes into a summary.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace as replaced

from tidemark.alerting.delivery.channels import Channel
from tidemark.alerting.delivery.messages import Notification
from tidemark.alerting.delivery.notification_log import Entry, Key
from tidemark.alerting.delivery.pagers import no_page_for
from tidemark.alerting.delivery.receivers import ChannelRoute, Group
from tidemark.alerting.delivery.silences import Mute
from tidemark.alerting.incidents.incident import Incident, Transition
from tidemark.alerting.rules.routing import Node
from tidemark.model.incidents import (
    IncidentState,
    NotificationStatus,
    TransitionKind,
    TransitionName,
)

LATE_AFTER = timedelta(hours=1)
"""Time after the resolution of an incident from which it only goes into a summary."""

FIRST_RETRY_PAUSE = timedelta(seconds=15)
LONGEST_RETRY_PAUSE = timedelta(minutes=15)
"""Longest pause between two attempts; the pause doubles with each failure."""

A_MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
"""Digest periods count from here, so days start at midnight UTC and weeks on Monday."""


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """The earlier transitions of an incident on the same channel.

    Attributes:
        delivered: the last change that the channel has accepted.
        expected: the last change that it has accepted or will get, as it is due or waits.
        is_waiting: whether one of them waits, which later ones do not overtake.
    """

    delivered: TransitionKind | None = None
    expected: TransitionKind | None = None
    is_waiting: bool = False


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A transition of an incident that a channel may have to be notified of.

    Attributes:
        notification: the notification to send.
        channel: the channel.
        route: how the channel gets the incident; None where no route leads here any more.
        recorded: its entry in the log; None where there is none yet.
        entry: the same, or a new one, with the instant of the next attempt as it counts now.
        earlier: the earlier transitions of the incident.
    """

    notification: Notification
    channel: Channel
    route: ChannelRoute | None
    recorded: Entry | None
    entry: Entry
    earlier: Earlier

    @property
    def incident(self) -> Incident:
        """The incident."""
        return self.notification.incident

    @property
    def kind(self) -> TransitionKind:
        """The change of the incident."""
        return self.notification.state

    @property
    def node(self) -> Node | None:
        """The route of the rule files that the channel gets it by."""
        return self.route.node if self.route else None

    @property
    def is_latest(self) -> bool:
        """Whether the incident is open and this is its last transition."""
        return self.incident.is_open and not self.notification.is_superseded


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """The candidate is not sent now.

    Attributes:
        reason: why, in a few words.
        entry: how the log records it while it waits; None where it records nothing.
        holds_back: whether later transitions of the incident are not considered.
    """

    reason: str
    entry: Entry | None = None
    holds_back: bool = False


@dataclass(frozen=True, kw_only=True)
class Withheld:
    """The candidate is never sent.

    Attributes:
        reason: why, in a few words.
    """

    reason: str


Outcome = Candidate | Waiting | Withheld | None
"""Result of a stage: the candidate where it passes, or None where nothing is left to do."""

Stage = Callable[[Candidate, datetime], Outcome]


def stages_of_transition(mutes: Iterable[Mute]) -> Sequence[Stage]:
    """Return the stages of a firing or a resolution, in their order.

    Args:
        mutes: reasons to mute an incident: silences, inhibition, quiet hours.
    """
    return (
        not_sent_yet_or_repeated,
        after_its_firing,
        not_resolved_while_muted,
        *(Unmuted(mute) for mute in mutes),
        in_active_time_of_route,
        on_a_route,
        escalated_in_time,
        worth_a_page,
        after_earlier_transitions,
        after_digest_period,
        after_retry_pause,
    )


def not_sent_yet_or_repeated(candidate: Candidate, now: datetime) -> Outcome:
    """Pass what the channel has not got, and repeats of an open incident that are due.

    Digests repeat every open incident. A route repeats a firing one without an acknowledgement.
    """
    entry = candidate.entry
    if entry.status == NotificationStatus.PENDING:
        return candidate
    if not (entry.is_delivered and candidate.is_latest and entry.next_attempt_at):
        return None
    # A delivery in the future was recorded before the clock was set back.
    is_ahead = entry.delivered_at is not None and entry.delivered_at > now
    if not is_ahead and entry.next_attempt_at > now:
        return None
    by_route = candidate.node and candidate.incident.state == IncidentState.FIRING
    if not (candidate.channel.every or by_route):
        return None
    transition = candidate.notification.transition
    return replace(
        candidate,
        notification=Notification(
            incident=candidate.incident, transition=transition, repeat=entry.repeats + 1
        ),
        entry=replaced(entry, next_attempt_at=None),
        earlier=Earlier(),
    )


def after_its_firing(candidate: Candidate, now: datetime) -> Outcome:
    """Withhold a resolution whose firing the channel has not got and will not get."""
    firing = candidate.earlier.expected == TransitionKind.FIRING
    if candidate.kind == TransitionKind.RESOLVED and not firing:
        return Withheld(reason="its firing was not notified")
    return candidate


def not_resolved_while_muted(candidate: Candidate, now: datetime) -> Outcome:
    """Withhold a transition that was muted until a later one followed."""
    muted = candidate.recorded.muted if candidate.recorded else None
    unknown = candidate.earlier.expected != TransitionKind.FIRING
    if muted and unknown and candidate.notification.is_superseded:
        return Withheld(reason=f"resolved while {muted}")
    return candidate


@dataclass(frozen=True)
class Unmuted:
    """Pass an incident that is not muted; see `muted`."""

    mute: Mute

    def __call__(self, candidate: Candidate, now: datetime) -> Outcome:
        """Pass the candidate, or mute it."""
        reason = self.mute(candidate.incident, now)
        return muted(candidate, reason, now) if reason else candidate


def in_active_time_of_route(candidate: Candidate, now: datetime) -> Outcome:
    """Mute outside of the active time of the route, and within its mute time."""
    reason = candidate.node.mute_reason(now) if candidate.node else None
    return muted(candidate, reason, now) if reason else candidate


def muted(candidate: Candidate, reason: str, now: datetime) -> Waiting | Withheld:
    """Return a muted candidate, which waits while the incident is open.

    A resolution waits where its firing was delivered. A digest waits for the next period.
    """
    entry, digest_at = candidate.entry, digest_end(candidate.channel, now)
    if candidate.notification.repeat:
        later = replaced(entry, next_attempt_at=digest_at) if digest_at else None
        return Waiting(reason=reason, entry=later)
    if candidate.incident.is_open or candidate.earlier.expected == TransitionKind.FIRING:
        at = entry.next_attempt_at if is_paused(candidate, now) else digest_at
        waiting = replaced(entry, muted=reason, next_attempt_at=at)
        return Waiting(reason=reason, entry=waiting, holds_back=True)
    return Withheld(reason=f"resolved while {reason}")


def on_a_route(candidate: Candidate, now: datetime) -> Outcome:
    """Refuse incidents that no route leads to the channel any more."""
    return candidate if candidate.route else refused(candidate, "no route leads here any more")


def escalated_in_time(candidate: Candidate, now: datetime) -> Outcome:
    """Refuse a firing that was over before it was escalated to the channel."""
    escalates = candidate.route is not None and candidate.route.is_escalation
    if escalates and candidate.notification.is_superseded:
        return refused(candidate, "over before it was escalated")
    return candidate


def worth_a_page(candidate: Candidate, now: datetime) -> Outcome:
    """Refuse notifications for which a pager wakes nobody."""
    reason = no_page_for(candidate.notification) if candidate.channel.pages else None
    return refused(candidate, reason) if reason else candidate


def refused(candidate: Candidate, reason: str) -> Outcome:
    """Return a firing that the channel does not take; it waits while the incident is open.

    The reason may pass until then. A resolution always passes, as it follows a delivered firing.
    """
    if candidate.kind != TransitionKind.FIRING or candidate.notification.repeat:
        return candidate
    if not candidate.is_latest:
        return Withheld(reason=reason)
    entry = replaced(candidate.entry, muted=reason)
    return Waiting(reason=reason, entry=entry, holds_back=True)


def after_earlier_transitions(candidate: Candidate, now: datetime) -> Outcome:
    """Let a transition wait for an earlier one of the incident, which it is then sent with."""
    if candidate.earlier.is_waiting:
        return Waiting(reason="an earlier transition waits", entry=_in_digest(candidate))
    return candidate


def after_digest_period(candidate: Candidate, now: datetime) -> Outcome:
    """Let what a digest shows wait for the end of its period, or of the pause after a failure."""
    if candidate.channel.every and is_paused(candidate, now):
        return Waiting(reason="the digest period lasts", entry=_in_digest(candidate))
    return candidate


def _in_digest(candidate: Candidate) -> Entry | None:
    """Return the entry of a digest that is new or no longer muted."""
    recorded = candidate.recorded
    if candidate.channel.every and (recorded is None or recorded.muted):
        return replaced(candidate.entry, muted=None, failure=None)
    return None


def after_retry_pause(candidate: Candidate, now: datetime) -> Outcome:
    """Let a failed notification wait until its next attempt."""
    if is_paused(candidate, now):
        return Waiting(reason="the pause after a failure lasts")
    return candidate


def not_sent_yet(candidate: Candidate, now: datetime) -> Outcome:
    """Pass what the channel has not got."""
    return candidate if candidate.entry.status == NotificationStatus.PENDING else None


def still_acknowledged(candidate: Candidate, now: datetime) -> Outcome:
    """Withhold an acknowledgement that was not sent before the incident resolved."""
    current = candidate.incident.acknowledgement
    if current is None or current.transition != candidate.entry.transition:
        return Withheld(reason="resolved before it was notified")
    return candidate


def after_delivered_firing(candidate: Candidate, now: datetime) -> Outcome:
    """Pass where the channel has accepted the firing."""
    return candidate if candidate.earlier.delivered == TransitionKind.FIRING else None


ACKNOWLEDGEMENT_STAGES = (
    not_sent_yet,
    still_acknowledged,
    after_delivered_firing,
    after_retry_pause,
)
"""The stages of an acknowledgement, which only services with alerts of their own get."""


@dataclass(frozen=True, kw_only=True)
class GroupPause:
    """Let candidates wait for the next message of their group.

    The first message of a group is due `group_wait` after its first transition, every later one
    `group_interval` after the previous one.

    Attributes:
        notified: when each group that is not over was last notified.
        first: the first transition that each group has to be notified of.
    """

    notified: Mapping[Group, datetime]
    first: Mapping[Group, datetime]

    def __call__(self, candidate: Candidate, now: datetime) -> Outcome:
        """Pass the candidate where its group is due."""
        group, node = group_of(candidate), candidate.node
        if group is None or node is None:
            return candidate
        at = self._due_at(group, node, now)
        if now >= at:
            return candidate
        if candidate.notification.repeat:
            return Waiting(reason="its group waits")
        entry = replaced(candidate.entry, next_attempt_at=at, muted=None, failure=None)
        return Waiting(reason="its group waits", entry=entry)

    def _due_at(self, group: Group, node: Node, now: datetime) -> datetime:
        """Return when the next message of a group is due.

        An instant too far ahead was set before the clock was set back, and no message waits for it.
        """
        if last := self.notified.get(group):
            return now if last > now else last + timedelta(seconds=node.group_interval)
        first, wait = self.first[group], timedelta(seconds=node.group_wait)
        return now if first - now > wait else first + wait


def group_of(candidate: Candidate) -> Group | None:
    """Return the group that a candidate shares a message with; None = sent at once."""
    route = candidate.route
    return route.group if route and not candidate.notification.late else None


@dataclass(frozen=True, kw_only=True)
class Due:
    """Notifications that a channel has to send now, and entries that change without sending.

    Attributes:
        groups: the candidates of each group, which may share a message, in order of time.
        changed: entries to write without sending, as they wait or are withheld.
    """

    groups: Sequence[Sequence[Candidate]] = ()
    changed: Sequence[Entry] = ()


@dataclass(frozen=True, kw_only=True)
class Stages:
    """The stages of one channel.

    Attributes:
        channel: the channel.
        entries: its earlier entries.
        routes: its route of each incident, by the id of the incident.
        mutes: reasons to mute an incident, in order.
    """

    channel: Channel
    entries: Mapping[Key, Entry]
    routes: Mapping[str, ChannelRoute]
    mutes: Sequence[Mute] = ()

    def due(self, incidents: Sequence[Incident], now: datetime) -> Due:
        """Return the notifications that are due, and the entries that change.

        Args:
            incidents: open incidents, and those that resolved recently.
            now: the present.
        """
        outcomes = [one for incident in incidents for one in self._outcomes(incident, now)]
        passed = [outcome for _, outcome in outcomes if isinstance(outcome, Candidate)]
        passed.sort(key=lambda one: (one.notification.transition.at, one.incident.incident_id))
        pause = GroupPause(notified=self._last_notified(), first=_first_transitions(passed))
        groups: dict[Group | None, list[Candidate]] = {None: []}
        for candidate in passed:
            outcome = pause(candidate, now)
            outcomes.append((candidate, outcome))
            if isinstance(outcome, Candidate):
                groups.setdefault(group_of(outcome), []).append(outcome)
        taken = [
            (candidate, pass_through(candidate, ACKNOWLEDGEMENT_STAGES, now))
            for incident in incidents
            for candidate in self._acknowledgements(incident, now)
        ]
        acknowledgements = [outcome for _, outcome in taken if isinstance(outcome, Candidate)]
        entries = (changed_entry(*one) for one in (*outcomes, *taken))
        return Due(
            groups=[group for group in (*groups.values(), acknowledgements) if group],
            changed=[entry for entry in entries if entry],
        )

    def _outcomes(self, incident: Incident, now: datetime) -> Iterator[tuple[Candidate, Outcome]]:
        """Yield the transitions of an incident, in order, and what becomes of them."""
        stages, earlier = stages_of_transition(self.mutes), Earlier()
        over = incident.resolved_at is not None and now - incident.resolved_at > LATE_AFTER
        for transition in incident.transitions:
            late = over and earlier.delivered != TransitionKind.FIRING
            candidate = self._candidate(incident, transition, earlier, now, late=late)
            outcome = pass_through(candidate, stages, now)
            yield candidate, outcome
            if isinstance(outcome, Waiting) and outcome.holds_back:
                break
            earlier = _with(earlier, candidate, outcome)

    def _acknowledgements(self, incident: Incident, now: datetime) -> Iterator[Candidate]:
        """Yield the acknowledgement of an incident, and the earlier ones that are recorded."""
        if not self.channel.acknowledges:
            return
        current = incident.acknowledgement
        last = self.entries.get((incident.incident_id, incident.transitions[-1].transition))
        has_firing = last is not None and last.is_delivered
        earlier = Earlier(delivered=TransitionKind.FIRING if has_firing else None)
        for number in range(1, incident.reopened + 2):
            name = TransitionName.of(TransitionKind.ACKNOWLEDGED, number)
            recorded = self.entries.get((incident.incident_id, name))
            if current and current.transition == name:
                yield self._candidate(incident, current, earlier, now)
            elif recorded:
                transition = Transition(name, recorded.transition_at)
                yield self._candidate(incident, transition, earlier, now)

    def _candidate(
        self,
        incident: Incident,
        transition: Transition,
        earlier: Earlier,
        now: datetime,
        *,
        late: bool = False,
    ) -> Candidate:
        recorded = self.entries.get((incident.incident_id, transition.transition))
        entry = recorded or Entry.new(incident, transition, self.channel.name)
        is_unattempted = entry.status == NotificationStatus.PENDING and not entry.attempts
        if recorded is None or (is_unattempted and not self.channel.every):
            # The instant that a group gave is computed again.
            entry = replaced(entry, next_attempt_at=digest_end(self.channel, now))
        return Candidate(
            notification=Notification(incident=incident, transition=transition, late=late),
            channel=self.channel,
            route=self.routes.get(incident.incident_id),
            recorded=recorded,
            entry=entry,
            earlier=earlier,
        )

    def _last_notified(self) -> dict[Group, datetime]:
        """Return when each group was last notified, without those whose incidents all resolved."""
        last: dict[str, Entry] = {}
        at: dict[str, datetime] = {}
        for entry in self.entries.values():
            if entry.delivered_at is None or not entry.is_delivered:
                continue
            name = entry.incident_id
            at[name] = max(at.get(name, entry.delivered_at), entry.delivered_at)
            if entry.transition.kind != TransitionKind.ACKNOWLEDGED and (
                name not in last or entry.transition_at >= last[name].transition_at
            ):
                last[name] = entry
        notified: dict[Group, datetime] = {}
        live: set[Group] = set()
        for name, route in self.routes.items():
            if route.group is None or name not in at:
                continue
            notified[route.group] = max(notified.get(route.group, at[name]), at[name])
            if name in last and last[name].transition.kind == TransitionKind.FIRING:
                live.add(route.group)
        return {group: instant for group, instant in notified.items() if group in live}


def pass_through(candidate: Candidate, stages: Iterable[Stage], now: datetime) -> Outcome:
    """Return the outcome of the first stage that a candidate does not pass, or the candidate."""
    for stage in stages:
        outcome = stage(candidate, now)
        if not isinstance(outcome, Candidate):
            return outcome
        candidate = outcome
    return candidate


def changed_entry(candidate: Candidate, outcome: Outcome) -> Entry | None:
    """Return the entry of a candidate that is not sent, where it differs from the recorded one."""
    entry = None
    if isinstance(outcome, Waiting):
        entry = outcome.entry
    elif isinstance(outcome, Withheld):
        status, reason = NotificationStatus.WITHHELD, outcome.reason
        entry = replaced(candidate.entry, status=status, withheld=reason, muted=None, failure=None)
    recorded = candidate.recorded
    return entry if entry and (recorded is None or entry.row() != recorded.row()) else None


def _with(earlier: Earlier, candidate: Candidate, outcome: Outcome) -> Earlier:
    """Return the earlier transitions with one more."""
    if candidate.entry.is_delivered:
        return replace(earlier, delivered=candidate.kind, expected=candidate.kind)
    if outcome is None or isinstance(outcome, Withheld):
        return earlier
    is_waiting = earlier.is_waiting or isinstance(outcome, Waiting)
    return replace(earlier, expected=candidate.kind, is_waiting=is_waiting)


def _first_transitions(candidates: Iterable[Candidate]) -> dict[Group, datetime]:
    first: dict[Group, datetime] = {}
    for candidate in candidates:
        if group := group_of(candidate):
            at = candidate.notification.transition.at
            first[group] = min(first.get(group, at), at)
    return first


def digest_end(channel: Channel, now: datetime) -> datetime | None:
    """Return the end of the present digest period; None for a channel without digests."""
    if channel.every is None:
        return None
    return now + channel.every - (now - A_MONDAY) % channel.every


def is_paused(candidate: Candidate, now: datetime) -> bool:
    """Return whether the next attempt at a candidate is later than now."""
    longest = max(digest_end(candidate.channel, now) or now, now + LONGEST_RETRY_PAUSE)
    return waits(candidate.entry.next_attempt_at, now, longest)


def waits(next_attempt_at: datetime | None, now: datetime, latest: datetime) -> bool:
    """Return whether the next attempt at a notification is later than now.

    Args:
        next_attempt_at: when it is due; None = at once.
        now: the present.
        latest: the last instant that could be set now. A later one was set before the clock was
            set back, and no attempt waits for it.
    """
    return next_attempt_at is not None and now < next_attempt_at <= latest


def retry_pause(attempts: int) -> timedelta:
    """Return how long to wait after a number of failed attempts."""
    return min(FIRST_RETRY_PAUSE * 2 ** min(attempts - 1, 10), LONGEST_RETRY_PAUSE)


def attempted(candidate: Candidate, now: datetime, failure: str | None) -> Entry:
    """Return the entry of a candidate after an attempt to send it.

    Args:
        candidate: the candidate.
        now: the present.
        failure: why the attempt failed; None where the channel accepted it.
    """
    entry = replaced(candidate.entry, attempts=candidate.entry.attempts + 1, muted=None)
    if failure:
        pause = retry_pause(entry.attempts)
        return replaced(entry, failure=failure, next_attempt_at=now + pause)
    return replaced(
        entry,
        status=NotificationStatus.DELIVERED,
        delivered_at=now,
        first_delivered_at=entry.first_at or now,
        repeats=candidate.notification.repeat,
        failure=None,
        next_attempt_at=_repeat_at(candidate, now),
    )


def _repeat_at(candidate: Candidate, now: datetime) -> datetime | None:
    """Return when a delivered candidate is repeated; None = never."""
    if not candidate.is_latest:
        return None
    if candidate.node is None:
        return digest_end(candidate.channel, now)
    if candidate.incident.state != IncidentState.FIRING:
        return None
    return now + timedelta(seconds=candidate.node.repeat_interval)
