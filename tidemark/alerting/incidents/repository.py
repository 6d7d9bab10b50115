"""Reading and writing ``alerting.incidents``, one writer at a time, and as it was at an instant."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from tidemark.alerting.incidents.incident import OPEN, Evaluation, Incident
from tidemark.alerting.incidents.inhibition import HIDDEN
from tidemark.alerting.incidents.life_cycle import REOPEN_WITHIN, advance, closed, is_current
from tidemark.alerting.rules.base import OWN_LABELS, BaseRule
from tidemark.alerting.rules.model import Inhibition
from tidemark.host.leases import INCIDENTS as INCIDENTS_LEASE
from tidemark.lake import clocks
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import any_of, not_before, one_of
from tidemark.lake.tables.alerting import INCIDENTS
from tidemark.lake.typed_rows import plain_rows, typed_rows
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
    if row.get("diagnosis") and _is_later(_diagnosed_at(row["diagnosis"]), instant):
        known["diagnosis"] = None
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


class _Diagnosed(msgspec.Struct):
    """The instant of a diagnosis; the rest of it is not read."""

    diagnosed_at: datetime


def _diagnosed_at(diagnosis: str) -> datetime | None:
    """Return when a diagnosis was made; None where it cannot be read."""
    try:
        return msgspec.json.decode(diagnosis, type=_Diagnosed).diagnosed_at
    except msgspec.DecodeError:
        return None


def _is_later(at: datetime | None, instant: datetime) -> bool:
    return at is not None and at > instant


def _is_firing(transition: Mapping[str, Any]) -> bool:
    return TransitionName(transition["transition"]).kind == TransitionKind.FIRING


LEASE_SECONDS = 60


@contextmanager
def incidents_lease(lake: Lake) -> Iterator[None]:
    """Hold the only right to change incidents.

    A tick and a person at the command line may change incidents at the same time. The lease is held
    for the milliseconds between reading and writing.

    Raises:
        LeaseError: another process has held it for `LEASE_SECONDS`, or leases cannot be had.
    """
    with lake.shared.leases.acquire(INCIDENTS_LEASE, LEASE_SECONDS):
        yield


@dataclass(frozen=True)
class CurrentIncidents:
    """The incidents that are open, and those that may reopen.

    Attributes:
        incidents: in the order in which they opened.
        version: version of the table that they were read from, or an older one.
    """

    incidents: Sequence[Incident]
    version: int | None


def current_incidents(
    lake: Lake, now: datetime, known: CurrentIncidents | None = None
) -> CurrentIncidents:
    """Return the current incidents; `known` itself where the table has not changed since."""
    version = lake.version(INCIDENTS)
    if known and known.version == version:
        return known
    since = now - REOPEN_WITHIN
    recent = any_of(not_before("resolved_at", since), not_before("last_true_at", since))
    rows = from_rows(lake.read(INCIDENTS, any_of(one_of("state", OPEN), recent)))
    current = [incident for incident in rows if is_current(incident, now)]
    return CurrentIncidents(current, version)


def groups_with_incidents(lake: Lake) -> list[str]:
    """Return the consumer groups that have an open incident, by name."""
    rows = lake.read(INCIDENTS, one_of("state", OPEN), columns=("evidence",))
    evidence = (msgspec.json.decode(text).get("row", {}) for text in rows["evidence"].to_pylist())
    return sorted({row["consumer_group"] for row in evidence if row.get("consumer_group")})


def advance_incidents(
    lake: Lake,
    evaluations: Sequence[Evaluation],
    rules: Iterable[BaseRule],
    *,
    all_rules: bool,
    known: CurrentIncidents | None = None,
    inhibitions: Sequence[Inhibition] = HIDDEN,
) -> tuple[list[Incident], int]:
    """Advance the current incidents through evaluations and write the changed ones.

    Args:
        lake: the tables.
        evaluations: in order of time, at least one.
        rules: the present rules.
        all_rules: see `advance`.
        known: incidents that were read before; read again where the table has changed since.
        inhibitions: see `advance`. All callers of one home must pass the same.

    Returns:
        (the incidents after the evaluations, how many changed).

    Raises:
        LeaseError: see `incidents_lease`.
    """
    by_name = {rule.name: rule for rule in rules}
    with incidents_lease(lake):
        before = current_incidents(lake, evaluations[0].observed_at, known).incidents
        after = advance(
            before,
            evaluations,
            by_name,
            all_rules=all_rules,
            inhibitions=inhibitions,
            latest=clocks.latest(),
        )
        return after, save(lake, before, after)


def find(lake: Lake, incident_ids: Iterable[str]) -> list[Incident]:
    """Return the incidents with these ids."""
    ids = set(incident_ids)
    if not ids:
        return []
    return from_rows(lake.read(INCIDENTS, one_of("incident_id", ids)))


def save(
    lake: Lake,
    before: Sequence[Incident],
    after: Sequence[Incident],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> int:
    """Write the differences in one commit.

    Args:
        lake: the tables.
        before: the incidents as they were read.
        after: the incidents as they should be; a missing one is removed.
        clock: returns the present, the ``written_at`` of changed incidents.

    Returns:
        How many incidents changed or were removed.
    """
    old = {incident.incident_id: incident for incident in before}
    new = {incident.incident_id: incident for incident in after}
    now = clock()
    changed = [
        replace(incident, written_at=now)
        for incident in after
        if old.get(incident.incident_id) != incident
    ]
    removed = [old[incident_id] for incident_id in old.keys() - new.keys()]
    # A row lies in the hour in which its incident opened.
    redated = [
        old[incident.incident_id]
        for incident in changed
        if incident.incident_id in old and old[incident.incident_id].opened_at != incident.opened_at
    ]
    lake.upsert(INCIDENTS, plain_rows(changed), plain_rows([*removed, *redated]))
    return len(changed) + len(removed)


def save_closed(lake: Lake, incidents: Sequence[Incident], at: datetime, reason: str) -> int:
    """Close incidents for another reason than that their rules are untrue, in one commit.

    Args:
        lake: the tables.
        incidents: open ones.
        at: when they resolve.
        reason: why, in a few words for their notifications.

    Returns:
        How many incidents changed.
    """
    after = [closed(incident, at, reason) for incident in incidents]
    return save(lake, incidents, [incident for incident in after if incident])


def from_rows(rows: pa.Table) -> list[Incident]:
    """Return rows of ``alerting.incidents`` as incidents, in the order in which they opened."""
    incidents = typed_rows(rows, Incident)
    return sorted(incidents, key=lambda incident: (incident.opened_at, incident.incident_id))
