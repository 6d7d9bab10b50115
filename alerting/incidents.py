"""The life of an incident: ``PENDING -> FIRING -> (ACKNOWLEDGED) -> RESOLVED``.

There is one per rule and subject at a time. It opens at the first observation at which the rule is
true, fires when that has been so for as long as the rule says (`for`), and is over when the rule
has been untrue for as long as it says (`clear_for`). An observation at which nothing is known moves
nothing. What comes back within `REOPEN` is the same incident, and takes longer to be over each
time, so that what swings around a threshold is told at most a few times.

Everything here is a pure function of an incident and an observation: the same observations give the
same incidents, with the same ids, whoever computes them and however often.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from alerting.causes import explained
from alerting.kinds import KINDS, PIPELINE
from alerting.rules import BaseRule, Variant

REOPEN = timedelta(hours=1)
"""How long after its end an incident is still the one that comes back."""

SNAPSHOTS_KEPT = 20
"""Snapshots that an incident names: the first ones, and the newest."""

FIRING = ("FIRING", "ACKNOWLEDGED")
OPEN = ("PENDING", *FIRING)

PIPELINE_KINDS = frozenset(name for name, kind in KINDS.items() if kind.source == PIPELINE)


class Transition(msgspec.Struct, frozen=True):
    """A change that people are told of.

    Attributes:
        transition: ``FIRING`` | ``RESOLVED``, with ``_2`` when it came back, ``_3``, ...
        at: the observation that made it.
    """

    transition: str
    at: datetime


class Incident(msgspec.Struct, frozen=True, dict=True):
    """A row of ``alerting.incidents``; its columns are described there."""

    incident_id: str
    rule: str
    subject: str
    severity: str
    state: str
    opened_at: datetime
    kind: str
    observed_at: datetime
    last_true_at: datetime
    cluster: str | None = None
    threshold: float | None = None
    fired_at: datetime | None = None
    acknowledged_at: datetime | None = None
    resolved_at: datetime | None = None
    last_value: float | None = None
    peak_value: float | None = None
    observations: int = 0
    streak: int = 0
    streak_at: datetime | None = None
    reopened: int = 0
    suppressed_by: str | None = None
    acknowledged_by: str | None = None
    labels: dict[str, str] = {}
    snapshot_ids: tuple[str, ...] = ()
    evidence: str = "{}"
    transitions: tuple[Transition, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it is not over."""
        return self.state in OPEN

    @property
    def is_firing(self) -> bool:
        """Whether people were told of it and it is not over."""
        return self.state in FIRING

    @cached_property
    def details(self) -> dict[str, Any]:
        """Its newest evidence, understood."""
        return msgspec.json.decode(self.evidence)

    @property
    def row(self) -> dict[str, Any]:
        """The columns of the newest row that made it true."""
        return self.details.get("row", {})


class Truth(msgspec.Struct, frozen=True, dict=True):
    """An observation at which a rule is true of a subject: a row of ``alerting.alerts``."""

    observed_at: datetime
    rule: str
    severity: str
    subject: str
    value: float | None = None
    threshold: float | None = None
    evidence: str = "{}"

    @cached_property
    def row(self) -> dict[str, Any]:
        """The columns of the row that makes it true."""
        return self._details.get("row", {})

    @cached_property
    def snapshot_ids(self) -> tuple[str, ...]:
        """The snapshots that make it true."""
        found = (each["snapshot_id"] for each in self._details.get("observations", ()))
        return tuple(each for each in found if each)

    @cached_property
    def _details(self) -> dict[str, Any]:
        return msgspec.json.decode(self.evidence)


def incident_id(rule: str, subject: str, opened_at: datetime) -> str:
    """The id of the incident of a rule and subject that opened at an instant."""
    text = json.dumps([rule, subject, opened_at.timestamp()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Evaluation:
    """What the rules said at one observation of a cluster.

    Attributes:
        observed_at: when.
        cluster: its cluster; None where the pipeline itself was looked at.
        truths: where they are true.
        untrue: rule and subject of those known not to be true, also because the subject is gone.
        untrue_at: of those of them that were found out earlier, when.
    """

    observed_at: datetime
    cluster: str | None
    truths: tuple[Truth, ...] = ()
    untrue: frozenset[tuple[str, str]] = frozenset()
    untrue_at: Mapping[tuple[str, str], datetime] = field(default_factory=dict, hash=False)


def follow(
    standing: Iterable[Incident],
    evaluations: Sequence[Evaluation],
    rules: Mapping[str, BaseRule],
    *,
    all_rules: bool = True,
) -> list[Incident]:
    """Incidents after some evaluations.

    Args:
        standing: those that are open, and those over for no longer than `REOPEN`.
        evaluations: in order of time.
        rules: by name, as they are now: what no rule means any more is over.
        all_rules: whether these are all; else a rule that is missing is not known.

    Returns:
        All incidents that are left; of those given, the ones that never fired may be missing.
    """
    variants = {name: rule.variants() for name, rule in rules.items()}
    last: dict[tuple[str, str], Incident] = {}
    for each in sorted(standing, key=lambda each: each.opened_at):
        last[each.rule, each.subject] = each
    over = [each for each in standing if last[each.rule, each.subject] is not each]
    for evaluation in evaluations:
        for truth in evaluation.truths:
            key = truth.rule, truth.subject
            variant = _variant(variants, truth.rule, truth.row)
            if variant is not None:
                before = last.get(key)
                last[key] = became_true(before, truth, variant)
                if before and before.incident_id != last[key].incident_id:
                    over.append(before)
        true = {(truth.rule, truth.subject) for truth in evaluation.truths}
        for key, incident in list(last.items()):
            if key not in true and _is_of(incident, evaluation):
                if incident.rule not in rules and not all_rules:
                    continue
                after = _without_truth(incident, evaluation, variants)
                if after is None:
                    del last[key]
                else:
                    last[key] = after
    return explained([*over, *last.values()])


def _is_of(incident: Incident, evaluation: Evaluation) -> bool:
    """Whether an evaluation may have anything to say of an incident."""
    if evaluation.cluster is None:
        return incident.kind in PIPELINE_KINDS
    return incident.cluster == evaluation.cluster and incident.kind not in PIPELINE_KINDS


def _without_truth(
    incident: Incident, evaluation: Evaluation, variants: Mapping[str, Sequence[Variant]]
) -> Incident | None:
    at = evaluation.observed_at
    variant = _variant(variants, incident.rule, incident.row)
    if variant is None:
        return (
            resolved(incident, at) if incident.is_open and at > incident.observed_at else incident
        )
    key = incident.rule, incident.subject
    if key in evaluation.untrue:
        return became_untrue(incident, evaluation.untrue_at.get(key, at), variant)
    return incident


def _variant(
    variants: Mapping[str, Sequence[Variant]], name: str, columns: Mapping[str, Any]
) -> Variant | None:
    """The variant of a rule that counts for a subject with these columns, None without any."""
    return next((each for each in variants.get(name, ()) if each.means(columns)), None)


def became_true(incident: Incident | None, truth: Truth, variant: Variant) -> Incident:
    """An incident after an observation at which its rule was true; a new one without any.

    Args:
        incident: the last of this rule and subject.
        truth: the observation; one not newer than the incident's newest changes nothing.
        variant: the rule as it holds for the subject.
    """
    if incident is not None and not incident.is_open and _too_old(incident, truth.observed_at):
        incident = None
    if incident is None:
        incident = _opened(truth, variant)
    elif truth.observed_at <= incident.observed_at:
        return incident
    seen = _seen(incident, truth, below=variant.rule.looks_at.below)
    if seen.is_firing:
        return seen
    counted = _counted(seen, truth.observed_at)
    if not variant.for_.reached(counted.streak, truth.observed_at - _start(counted)):
        return counted
    again = counted.reopened + (counted.state == "RESOLVED")
    return replace(
        _told(counted, "FIRING", truth.observed_at, again),
        state="FIRING",
        fired_at=counted.fired_at or truth.observed_at,
        resolved_at=None,
        acknowledged_at=None,
        acknowledged_by=None,
        reopened=again,
        streak=0,
        streak_at=None,
    )


def became_untrue(incident: Incident, observed_at: datetime, variant: Variant) -> Incident | None:
    """An incident after an observation at which its rule was not true.

    Returns:
        The incident; None when it never fired: nobody has to know of it.
    """
    if observed_at <= incident.observed_at:
        return incident
    if incident.state == "PENDING":
        return None
    seen = replace(incident, observed_at=observed_at)
    if incident.state == "RESOLVED":
        return replace(seen, streak=0, streak_at=None)
    counted = _counted(seen, observed_at)
    lasted = observed_at - _start(counted)
    if not variant.clear_for.reached(counted.streak, lasted, times=counted.reopened + 1):
        return counted
    return resolved(counted, observed_at)


def resolved(incident: Incident, at: datetime) -> Incident | None:
    """The incident as one that is over; None when it never fired."""
    if incident.state == "PENDING":
        return None
    return replace(
        _told(incident, "RESOLVED", at, incident.reopened),
        state="RESOLVED",
        resolved_at=at,
        suppressed_by=None,
        streak=0,
        streak_at=None,
    )


def closed(incident: Incident, at: datetime, reason: str) -> Incident | None:
    """The incident as one that is over for another reason than that its rule is untrue.

    Nothing seen until then opens it again. The reason is in its evidence, as ``closed``.
    """
    why = msgspec.json.encode(incident.details | {"closed": reason}).decode()
    return resolved(replace(incident, observed_at=max(at, incident.observed_at), evidence=why), at)


def acknowledged(incident: Incident, by: str, at: datetime) -> Incident:
    """The incident as one that somebody has taken on; only a firing one can be.

    Raises:
        ValueError: it is in no state to be taken on.
    """
    if not incident.is_firing:
        raise ValueError(f"incident {incident.incident_id} is {incident.state}, not FIRING")
    return replace(incident, state="ACKNOWLEDGED", acknowledged_at=at, acknowledged_by=by)


def _too_old(incident: Incident, now: datetime) -> bool:
    return incident.resolved_at is None or now - incident.resolved_at > REOPEN


def _opened(truth: Truth, variant: Variant) -> Incident:
    rule = variant.rule
    return Incident(
        incident_id=incident_id(truth.rule, truth.subject, truth.observed_at),
        rule=truth.rule,
        subject=truth.subject,
        severity=truth.severity,
        state="PENDING",
        opened_at=truth.observed_at,
        cluster=truth.row.get("cluster"),
        kind=rule.kind,
        threshold=truth.threshold,
        observed_at=truth.observed_at,
        last_true_at=truth.observed_at,
        labels=dict(rule.labels),
    )


def _seen(incident: Incident, truth: Truth, *, below: bool) -> Incident:
    """The incident with the numbers and the evidence of an observation."""
    worst = min if below else max
    values = [each for each in (incident.peak_value, truth.value) if each is not None]
    new = [each for each in truth.snapshot_ids if each not in incident.snapshot_ids]
    return replace(
        incident,
        severity=truth.severity,
        threshold=truth.threshold,
        observed_at=truth.observed_at,
        last_true_at=truth.observed_at,
        last_value=truth.value,
        peak_value=worst(values) if values else None,
        observations=incident.observations + 1,
        evidence=truth.evidence,
        snapshot_ids=(*incident.snapshot_ids[: SNAPSHOTS_KEPT - len(new)], *new),
        # Of one that fires, the observations at which it was not true are counted.
        streak=0 if incident.is_firing else incident.streak,
        streak_at=None if incident.is_firing else incident.streak_at,
    )


def _counted(incident: Incident, at: datetime) -> Incident:
    return replace(incident, streak=incident.streak + 1, streak_at=incident.streak_at or at)


def _start(incident: Incident) -> datetime:
    return incident.streak_at or incident.observed_at


def _told(incident: Incident, state: str, at: datetime, again: int) -> Incident:
    name = f"{state}_{again + 1}" if again else state
    return replace(incident, transitions=(*incident.transitions, Transition(name, at)))
