"""Incidents as they were at an instant of the past, without later changes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from tidemark.alerting.rules.matching import OWN_LABELS
from tidemark.model.incidents import (
    IncidentState,
    NotificationStatus,
    TransitionKind,
    TransitionName,
)

_OF_NEWEST_ALERT = (
    *("last_value", "last_value_bound", "peak_value", "peak_value_bound"),
    *("observations", "last_true_at", "snapshot_ids"),
)
_OF_NEWEST_OBSERVATION = ("observed_at", "streak", "streak_at", "suppressed_by")


def row_as_of(row: Mapping[str, Any], instant: datetime) -> dict[str, Any]:
    """Return a row of ``alerting.incidents`` as it was at an instant at which it had opened.

    The transitions until then give the state. A row has only its newest numbers, evidence and
    acknowledgement: where these are of later, those of then are unknown.

    Args:
        row: the row as it is now.
        instant: not before it opened.
    """
    transitions = [
        transition for transition in row["transitions"] or () if transition["at"] <= instant
    ]
    known = {**row, "transitions": transitions}
    known |= dict.fromkeys(_later(row, instant))
    known["fired_at"] = transitions[0]["at"] if transitions else None
    known["reopened"] = sum(_is_firing(transition) for transition in transitions[1:])
    if not transitions:
        known["state"] = IncidentState.PENDING
    elif _is_firing(transitions[-1]):
        taken = known["acknowledged_at"]
        known["state"] = IncidentState.ACKNOWLEDGED if taken else IncidentState.FIRING
        known["resolved_at"] = None
    else:
        known["state"], known["resolved_at"] = IncidentState.RESOLVED, transitions[-1]["at"]
    known["evidence"] = _evidence(row, instant)
    return known


def notifications_as_of(rows: list[dict[str, Any]], instant: datetime) -> list[dict[str, Any]]:
    """Return the notifications of transitions until an instant; those delivered later wait then."""
    unknown = dict.fromkeys(("delivered_at", "attempts", "last_error"))
    waiting = {"status": NotificationStatus.PENDING, **unknown}
    return [
        row | waiting if _is_later(row["delivered_at"], instant) else row
        for row in rows
        if row["transition_at"] <= instant
    ]


def _later(row: Mapping[str, Any], instant: datetime) -> list[str]:
    """Return the columns whose values are of after an instant."""
    names: list[str] = []
    if _is_later(row["acknowledged_at"], instant):
        names += ("acknowledged_at", "acknowledged_by", "acknowledge_reason")
    if _is_later(row["resolved_at"], instant):
        names += ("resolved_by", "resolve_reason")
    if _is_later(row["last_true_at"], instant):
        names += _OF_NEWEST_ALERT
    if _is_later(row["observed_at"], instant):
        names += _OF_NEWEST_OBSERVATION
    return names


def _evidence(row: Mapping[str, Any], instant: datetime) -> str | None:
    """Return the evidence; that of a later alert is reduced to the columns of its subject."""
    details = msgspec.json.decode(row["evidence"] or "{}")
    if _is_later(row["resolved_at"], instant):
        details.pop("closed", None)
    if _is_later(row["last_true_at"], instant):
        details.pop("observations", None)
        detail = details.get("row", {})
        details["row"] = {name: detail[name] for name in OWN_LABELS if name in detail}
    return msgspec.json.encode(details).decode()


def _is_later(at: datetime | None, instant: datetime) -> bool:
    return at is not None and at > instant


def _is_firing(transition: Mapping[str, Any]) -> bool:
    return TransitionName(transition["transition"]).kind == TransitionKind.FIRING
