"""The incident, its transitions, and the evaluations and alerts that it is made of."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from tidemark.alerting.rules.base import OWN_LABELS
from tidemark.model.incidents import ActionKind, IncidentState, TransitionKind, TransitionName

FIRING = (IncidentState.FIRING, IncidentState.ACKNOWLEDGED)
"""States of an incident that people are notified of."""

OPEN = (IncidentState.PENDING, *FIRING)
"""States of an incident that is not resolved."""


class Transition(msgspec.Struct, frozen=True):
    """A change of an incident's state that people are notified of.

    Attributes:
        transition: its name.
        at: the observation, or the action of a person, that caused it.
    """

    transition: TransitionName
    at: datetime

    @property
    def kind(self) -> TransitionKind:
        """The change."""
        return self.transition.kind


class IncidentAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action of a person on an incident.

    Attributes:
        action: acknowledged or resolved.
        at: when, by the clock.
        author: the person.
        reason: the reason in the words of that person; None where they gave none.
    """

    action: ActionKind
    at: datetime
    author: str
    reason: str | None = None


class Incident(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """A row of ``alerting.incidents``; its columns are described there."""

    incident_id: str
    rule: str
    subject: str
    severity: str
    state: IncidentState
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
    last_value_bound: str | None = None
    peak_value: float | None = None
    peak_value_bound: str | None = None
    observations: int = 0
    streak: int = 0
    streak_at: datetime | None = None
    reopened: int = 0
    suppressed_by: str | None = None
    acknowledged_by: str | None = None
    acknowledge_reason: str | None = None
    resolved_by: str | None = None
    resolve_reason: str | None = None
    labels: dict[str, str] = {}
    snapshot_ids: tuple[str, ...] = ()
    evidence: str = "{}"
    diagnosis: str | None = None
    transitions: tuple[Transition, ...] = ()
    actions: tuple[IncidentAction, ...] = ()
    written_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is not resolved."""
        return self.state in OPEN

    @property
    def is_firing(self) -> bool:
        """Whether it has fired and is not resolved."""
        return self.state in FIRING

    @property
    def began_at(self) -> datetime:
        """When it opened, or last reopened."""
        return self.transitions[-1].at if self.reopened and self.is_firing else self.opened_at

    @property
    def acknowledgement(self) -> Transition | None:
        """The acknowledgement that services can be sent; None unless it is acknowledged."""
        if self.state != IncidentState.ACKNOWLEDGED or self.acknowledged_at is None:
            return None
        name = TransitionName.of(TransitionKind.ACKNOWLEDGED, self.reopened + 1)
        return Transition(name, self.acknowledged_at)

    @cached_property
    def details(self) -> dict[str, Any]:
        """Its newest evidence, decoded."""
        return msgspec.json.decode(self.evidence)

    @property
    def row(self) -> dict[str, Any]:
        """The columns of the newest row for which its rule was true."""
        return self.details.get("row", {})

    @cached_property
    def match_labels(self) -> dict[str, str]:
        """The labels that routes and inhibitions match: own columns before labels of the rule."""
        columns = {"cluster": self.cluster, **self.row}
        columns |= {name: getattr(self, name) for name in ("severity", "rule", "kind", "subject")}
        own = {name: str(columns[name]) for name in OWN_LABELS if columns.get(name) is not None}
        return {name: text for name, text in self.labels.items() if name not in OWN_LABELS} | own


class _Observation(msgspec.Struct):
    snapshot_id: str | None = None


class _Observed(msgspec.Struct):
    """The observations in an evidence, whose row is most of its text."""

    observations: tuple[_Observation, ...] = ()


_decode_observations = msgspec.json.Decoder(_Observed).decode


class Alert(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """An observation at which a rule is true of a subject: a row of ``alerting.alerts``."""

    observed_at: datetime
    rule: str
    severity: str
    subject: str
    value: float | None = None
    threshold: float | None = None
    evidence: str = "{}"
    value_bound: str | None = None

    @cached_property
    def row(self) -> dict[str, Any]:
        """The columns of the row for which the rule is true."""
        return msgspec.json.decode(self.evidence).get("row", {})

    @property
    def snapshot_ids(self) -> tuple[str, ...]:
        """The snapshots that the alert rests on."""
        observations = _decode_observations(self.evidence).observations
        return tuple(it.snapshot_id for it in observations if it.snapshot_id)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The result of all rules at one observation of a cluster.

    Attributes:
        observed_at: instant of the observation.
        cluster: the observed cluster; None for rules about Tidemark's own work.
        alerts: the subjects of which rules are true.
        untrue: rule and subject pairs known to be untrue, also where the subject no longer exists.
        untrue_at: instants of the pairs that became known before `observed_at`.
        proof_at: instants of what shows the pairs to be untrue, where that is older. An incident
            that has begun to fire since then goes on.
    """

    observed_at: datetime
    cluster: str | None
    alerts: tuple[Alert, ...] = ()
    untrue: frozenset[tuple[str, str]] = frozenset()
    untrue_at: Mapping[tuple[str, str], datetime] = field(default_factory=dict, hash=False)
    proof_at: Mapping[tuple[str, str], datetime] = field(default_factory=dict, hash=False)


def incident_id(rule: str, subject: str, opened_at: datetime) -> str:
    """Return the id of the incident of a rule and subject that opened at an instant."""
    text = json.dumps([rule, subject, opened_at.timestamp()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def with_evidence(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of ``alerting.incidents`` with its evidence and its diagnosis decoded.

    `row` is the part of the evidence that people need first: the row for which its rule was
    true.
    """
    try:
        evidence = msgspec.json.decode(row["evidence"] or "{}")
    except msgspec.DecodeError:
        evidence = {}
    decoded = {"evidence": evidence, "row": evidence.get("row", {}), "diagnosis": _diagnosis(row)}
    empty = {"labels": row["labels"] or {}, "actions": list(row.get("actions") or ())}
    return {**row, **empty, **decoded}


def _diagnosis(row: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(row.get("diagnosis") or "null", type=dict[str, Any] | None)
    except msgspec.DecodeError:
        return None


def with_notifications(
    row: Mapping[str, Any], notifications: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a row of incidents with its evidence and its rows of ``alerting.notifications``."""
    return with_evidence(row) | {"notifications": list(notifications)}
