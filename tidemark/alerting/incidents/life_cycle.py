"""The life cycle of an incident: ``PENDING -> FIRING -> (ACKNOWLEDGED) -> RESOLVED``.

A rule has at most one open incident per subject. The incident opens at the first observation at
which the rule is true. It fires when the rule has been true for as long as its `for` requires, and
resolves when the rule has been untrue for as long as its `clear_for` requires. Unknown values
neither open nor resolve an incident. A recurrence within `REOPEN_WITHIN` reopens the same incident.
Each reopening lengthens `clear_for`, so a value that swings around its threshold causes few
notifications.

All functions here are pure functions of incidents and observations. The same observations always
give the same incidents with the same ids.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from tidemark.alerting.incidents.incident import (
    Alert,
    Evaluation,
    Incident,
    IncidentAction,
    Transition,
    incident_id,
)
from tidemark.alerting.incidents.inhibition import HIDDEN, apply_inhibition
from tidemark.alerting.rules.base import AppliedRule, BaseRule
from tidemark.alerting.rules.kinds import KINDS, PIPELINE
from tidemark.alerting.rules.model import Inhibition
from tidemark.lake.clocks import MICROSECOND
from tidemark.model.incidents import ActionKind, IncidentState, TransitionKind, TransitionName

NO_RULE = "no rule applies to it any more"
"""Reason for closing an incident whose rule was removed or changed."""

REOPEN_WITHIN = timedelta(hours=1)
"""A recurrence this soon after the resolution reopens the same incident."""

MOST_ACTIONS = 100
"""Actions of people that an incident has at most: the newest."""

MOST_SNAPSHOTS = 20
"""Snapshots that an incident names at most: the first ones, and the newest."""

INSTANTS = (
    *("opened_at", "fired_at", "acknowledged_at", "resolved_at"),
    *("observed_at", "last_true_at", "streak_at"),
)
"""Fields of an incident that hold the time of an observation or of a person's action."""

PIPELINE_KINDS = frozenset(name for name, kind in KINDS.items() if kind.source == PIPELINE)
"""Kinds of rules about Tidemark's own work."""


def advance(
    current: Iterable[Incident],
    evaluations: Sequence[Evaluation],
    rules: Mapping[str, BaseRule],
    *,
    all_rules: bool = True,
    inhibitions: Sequence[Inhibition] = HIDDEN,
    latest: datetime | None = None,
) -> list[Incident]:
    """Advance incidents through evaluations.

    Args:
        current: the current incidents; see `is_current`.
        evaluations: in order of time.
        rules: the present rules by name; incidents to which no rule applies resolve.
        all_rules: whether `rules` is complete; otherwise a missing rule resolves no incident.
        inhibitions: the declared inhibitions.
        latest: the latest instant that counts now. An incident with a later one was changed by a
            clock that was ahead, and would wait for its time to come; see `put_back`.

    Returns:
        The incidents after the evaluations. Incidents that never fired may be missing.
    """
    applied_to = _AppliedRules(rules)
    newest: dict[tuple[str, str], Incident] = {}
    for incident in sorted(current, key=lambda incident: incident.opened_at):
        newest[incident.rule, incident.subject] = incident
    superseded = [
        incident for incident in current if newest[incident.rule, incident.subject] is not incident
    ]
    ahead = [
        key
        for key, incident in newest.items()
        if latest is not None and put_back(incident, latest, latest) is not incident
    ]
    for evaluation in evaluations:
        if latest is not None and evaluation.observed_at <= latest:
            for key in ahead:
                if key in newest and _covers(evaluation, newest[key]):
                    before_now = evaluation.observed_at - MICROSECOND
                    newest[key] = put_back(newest[key], latest, before_now)
        true: set[tuple[str, str]] = set()
        for alert in evaluation.alerts:
            key = alert.rule, alert.subject
            true.add(key)
            applied = applied_to.rule_for(alert)
            if applied is not None:
                before = newest.get(key)
                newest[key] = after_true(before, alert, applied)
                if before and before.incident_id != newest[key].incident_id:
                    superseded.append(before)
        for key, incident in list(newest.items()):
            if key not in true and _covers(evaluation, incident):
                if incident.rule not in rules and not all_rules:
                    continue
                after = _after_no_alert(incident, evaluation, applied_to.rule_for(incident))
                if after is None:
                    del newest[key]
                else:
                    newest[key] = after
    return apply_inhibition([*superseded, *newest.values()], inhibitions)


def _covers(evaluation: Evaluation, incident: Incident) -> bool:
    """Return whether an evaluation can change an incident."""
    if evaluation.cluster is None:
        return incident.kind in PIPELINE_KINDS
    return incident.cluster == evaluation.cluster and incident.kind not in PIPELINE_KINDS


def _after_no_alert(
    incident: Incident, evaluation: Evaluation, applied: AppliedRule | None
) -> Incident | None:
    at = evaluation.observed_at
    # A rule that was edited to another kind evaluates other subjects: this one might stay for ever.
    if applied is None or applied.rule.kind != incident.kind:
        is_newer = incident.is_open and at > incident.observed_at
        return closed(incident, at, NO_RULE) if is_newer else incident
    key = incident.rule, incident.subject
    began = incident.transitions[-1].at if incident.transitions else incident.opened_at
    if key in evaluation.untrue and evaluation.proof_at.get(key, at) >= began:
        return after_untrue(incident, evaluation.untrue_at.get(key, at), applied)
    return incident


class _AppliedRules:
    """Rules as they apply to subjects; the columns of a subject are read once."""

    def __init__(self, rules: Mapping[str, BaseRule]) -> None:
        self._rules = {name: rule.applied_rules() for name, rule in rules.items()}
        self._known: dict[tuple[str, str], AppliedRule | None] = {}

    def rule_for(self, item: Alert | Incident) -> AppliedRule | None:
        """Return the rule, or its override, that applies to the subject; None where none does."""
        key = item.rule, item.subject
        if key not in self._known:
            of_rule = self._rules.get(item.rule, ())
            self._known[key] = next((it for it in of_rule if it.applies_to(item.row)), None)
        return self._known[key]


def after_true(incident: Incident | None, alert: Alert, applied: AppliedRule) -> Incident:
    """Return the incident after an observation at which its rule is true.

    Args:
        incident: the latest incident of this rule and subject; without one, a new one opens.
        alert: the observation; one that is not newer than the incident's newest changes nothing.
        applied: the rule as it applies to the subject.
    """
    if incident and not is_current(incident, alert.observed_at):
        incident = None
    if incident is None:
        incident = _opened(alert, applied)
    elif alert.observed_at <= incident.observed_at:
        return incident
    observed = _with_alert(_of_kind(incident, applied.rule.kind), alert, applied.rule)
    if observed.is_firing:
        return observed
    counted = _with_longer_streak(observed, alert.observed_at)
    lasted = alert.observed_at - _streak_start(counted)
    if not applied.for_.reached(counted.streak, lasted):
        return counted
    reopened = counted.reopened + (counted.state == IncidentState.RESOLVED)
    return replace(
        _with_transition(counted, TransitionKind.FIRING, alert.observed_at, reopened),
        state=IncidentState.FIRING,
        fired_at=counted.fired_at or alert.observed_at,
        resolved_at=None,
        acknowledged_at=None,
        acknowledged_by=None,
        acknowledge_reason=None,
        resolved_by=None,
        resolve_reason=None,
        reopened=reopened,
        # Labels stay fixed while it fires, so that the same receivers get the resolution.
        labels=dict(applied.labels),
        streak=0,
        streak_at=None,
    )


def after_untrue(
    incident: Incident, observed_at: datetime, applied: AppliedRule
) -> Incident | None:
    """Return the incident after an observation at which its rule is untrue.

    Returns:
        The incident; None when it never fired, because it was never notified.
    """
    if observed_at <= incident.observed_at:
        return incident
    if incident.state == IncidentState.PENDING:
        return None
    observed = replace(incident, observed_at=observed_at)
    if incident.state == IncidentState.RESOLVED:
        return replace(observed, streak=0, streak_at=None)
    counted = _with_longer_streak(observed, observed_at)
    lasted = observed_at - _streak_start(counted)
    if not applied.clear_for.reached(counted.streak, lasted, times=counted.reopened + 1):
        return counted
    return resolved(counted, observed_at)


def resolved(incident: Incident, at: datetime) -> Incident | None:
    """Return the incident as resolved; None when it never fired."""
    if incident.state == IncidentState.PENDING:
        return None
    return replace(
        _with_transition(incident, TransitionKind.RESOLVED, at, incident.reopened),
        state=IncidentState.RESOLVED,
        resolved_at=at,
        suppressed_by=None,
        streak=0,
        streak_at=None,
    )


def closed(
    incident: Incident, at: datetime, reason: str, by: str | None = None, because: str = ""
) -> Incident | None:
    """Return the incident as resolved for another reason than an untrue rule.

    Observations until then do not reopen it. Its evidence has the reason as ``closed``.

    Args:
        incident: an open one.
        at: when it was resolved.
        reason: the reason in a few words, for its notification.
        by: the person who resolved it.
        because: the reason in the words of that person.
    """
    evidence = msgspec.json.encode(incident.details | {"closed": reason}).decode()
    resolving = replace(
        incident,
        observed_at=max(at, incident.observed_at),
        evidence=evidence,
        resolved_by=by,
        resolve_reason=because or None,
        actions=_with_action(incident, ActionKind.RESOLVED, by, at, because),
    )
    return resolved(resolving, at)


def acknowledged(incident: Incident, by: str, at: datetime, because: str = "") -> Incident:
    """Return the incident as acknowledged by a person.

    Raises:
        ValueError: the incident does not fire.
    """
    if not incident.is_firing:
        raise ValueError(f"incident {incident.incident_id} is {incident.state}, not FIRING")
    return replace(
        incident,
        state=IncidentState.ACKNOWLEDGED,
        acknowledged_at=at,
        acknowledged_by=by,
        acknowledge_reason=because or None,
        actions=_with_action(incident, ActionKind.ACKNOWLEDGED, by, at, because),
    )


def _with_action(
    incident: Incident, action: ActionKind, by: str | None, at: datetime, because: str
) -> tuple[IncidentAction, ...]:
    """Return the actions on an incident with one more, unless nobody acts."""
    if by is None:
        return incident.actions
    made = IncidentAction(action=action, at=at, author=by, reason=because or None)
    return (*incident.actions, made)[-MOST_ACTIONS:]


def put_back(incident: Incident, latest: datetime, to: datetime) -> Incident:
    """Return an incident whose instants that do not count yet are replaced by an earlier one.

    Args:
        incident: the incident; without such instants it stays as it is.
        latest: the latest instant that counts.
        to: the instant that replaces later ones.
    """
    later = {
        name: to for name in INSTANTS if (at := getattr(incident, name)) is not None and at > latest
    }
    transitions = tuple(
        replace(transition, at=to) if transition.at > latest else transition
        for transition in incident.transitions
    )
    if not later and transitions == incident.transitions:
        return incident
    return replace(incident, transitions=transitions, **later)


def is_current(incident: Incident, now: datetime) -> bool:
    """Return whether an incident is open, or reopens when its rule is true for long enough.

    A recurrence that has begun counts from its first observation. Otherwise a rule whose `for` is
    longer than `REOPEN_WITHIN` would lose its count. Its observations may be that far apart.
    """
    if incident.is_open:
        return True
    newest = incident.last_true_at if incident.streak else incident.resolved_at
    return newest is not None and now - newest <= REOPEN_WITHIN


def _opened(alert: Alert, applied: AppliedRule) -> Incident:
    rule = applied.rule
    return Incident(
        incident_id=incident_id(alert.rule, alert.subject, alert.observed_at),
        rule=alert.rule,
        subject=alert.subject,
        severity=alert.severity,
        state=IncidentState.PENDING,
        opened_at=alert.observed_at,
        cluster=alert.row.get("cluster"),
        kind=rule.kind,
        threshold=alert.threshold,
        observed_at=alert.observed_at,
        last_true_at=alert.observed_at,
        labels=dict(applied.labels),
    )


def _of_kind(incident: Incident, kind: str) -> Incident:
    """Return the incident as one of a kind; a peak of another kind has another unit."""
    return (
        incident
        if incident.kind == kind
        else replace(incident, kind=kind, peak_value=None, peak_value_bound=None)
    )


def _with_alert(incident: Incident, alert: Alert, rule: BaseRule) -> Incident:
    """Return the incident with the numbers and the evidence of an alert."""
    worst = min if rule.kind_definition.below else max
    values = [value for value in (incident.peak_value, alert.value) if value is not None]
    new = [
        snapshot_id
        for snapshot_id in alert.snapshot_ids
        if snapshot_id not in incident.snapshot_ids
    ]
    return replace(
        incident,
        severity=alert.severity,
        threshold=alert.threshold,
        observed_at=alert.observed_at,
        last_true_at=alert.observed_at,
        last_value=alert.value,
        last_value_bound=alert.value_bound,
        peak_value=worst(values) if values else None,
        # Beyond the bound of an earlier observation the truth may have been worse.
        peak_value_bound=incident.peak_value_bound or alert.value_bound,
        observations=incident.observations + 1,
        evidence=alert.evidence,
        snapshot_ids=(*incident.snapshot_ids[: MOST_SNAPSHOTS - len(new)], *new),
        # While an incident fires, the streak counts observations at which its rule is untrue.
        streak=0 if incident.is_firing else incident.streak,
        streak_at=None if incident.is_firing else incident.streak_at,
    )


def _with_longer_streak(incident: Incident, at: datetime) -> Incident:
    return replace(incident, streak=incident.streak + 1, streak_at=incident.streak_at or at)


def _streak_start(incident: Incident) -> datetime:
    return incident.streak_at or incident.observed_at


def _with_transition(
    incident: Incident, kind: TransitionKind, at: datetime, reopened: int
) -> Incident:
    name = TransitionName.of(kind, reopened + 1)
    return replace(incident, transitions=(*incident.transitions, Transition(name, at)))
