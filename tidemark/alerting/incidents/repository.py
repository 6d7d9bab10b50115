"""Reading and writing ``alerting.incidents``, one writer at a time, and as it was at an instant.

Incidents about removed clusters, expectations and objectives are resolved here, because no rule
would resolve them. A removed cluster is never observed again. A cluster counts as removed when the
settings file named it before and no longer does. Clusters that were only read by hand never count,
nor does any cluster while the file is missing or wrong.

An expectation that is no longer validated has no further result. An expectation without a result
may also wait for rows or for a run, so only the declarations show that it was removed.

A group without an objective has no burn rate, which is unknown and never untrue.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
from tidemark.host.state import State
from tidemark.lake import clocks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.schema import all_of, any_of, not_before, one_of
from tidemark.lake.tables.alerting import INCIDENTS
from tidemark.lake.tables.progress import SNAPSHOTS
from tidemark.lake.typed_rows import plain_rows, typed_rows
from tidemark.model.incidents import (
    IncidentState,
    NotificationStatus,
    TransitionKind,
    TransitionName,
)
from tidemark.settings.basics import SettingsError
from tidemark.settings.clusters import clusters_file, load_clusters
from tidemark.settings.fields import fits
from tidemark.settings.objectives import Objective
from tidemark.settings.sections import MEMORY

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
    known["actions"] = [made for made in row["actions"] or () if made["at"] <= instant]
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


_NAME = "watched.json"

CLUSTER_REMOVED = "the cluster is no longer in the settings file and is not monitored"

EXPECTATION_REMOVED = "the expectation is no longer declared and is not validated"

OBJECTIVE_REMOVED = "no objective is declared for the group any more"

Named = tuple[str, str]
"""Full name of a table and name of one of its expectations."""

COLLECTED_WITHIN = timedelta(minutes=5)
"""A cluster with a snapshot this recent is still collected, whatever the file contains."""

REMEMBERED_FOR = MEMORY + timedelta(hours=1)
"""Time for which a removal is remembered: until no rule expects the cluster's snapshots."""


def removed_clusters(lake: Lake, now: datetime, clusters: str = "") -> frozenset[str]:
    """Return the clusters that were removed from the settings file within `REMEMBERED_FOR`.

    Args:
        lake: whose home may hold the file, and whose state remembers the names that it had.
        now: the present.
        clusters: the settings file, where it is not the one in the home.
    """
    file = clusters_file(lake.home, clusters)
    try:
        named = {cluster.key for cluster in load_clusters(file)} if file else set()
    except SettingsError:
        return frozenset()
    if not named:
        return frozenset()
    before = _remembered(lake.shared.state)
    after: dict[str, str | None] = dict.fromkeys(sorted(named))
    for name, since in before.items():
        if (
            name not in named
            and now - datetime.fromisoformat(since or now.isoformat()) < REMEMBERED_FOR
        ):
            after[name] = since or now.isoformat()
    if after != before:
        lake.shared.state.write(_NAME, json.dumps(after, indent=1))
    return frozenset(after.keys() - named)


def close_removed(lake: Lake, clusters: Collection[str], now: datetime) -> int:
    """Close the open incidents of removed clusters.

    Returns:
        How many incidents changed.

    Raises:
        LeaseError: see `incidents_lease`.
    """
    if not clusters:
        return 0
    read = lake.read(SNAPSHOTS, Window(now - COLLECTED_WITHIN, now), columns=("cluster",))
    removed = set(clusters) - set(read["cluster"].to_pylist())
    if not removed:
        return 0
    with incidents_lease(lake):
        where = all_of(one_of("cluster", removed), one_of("state", OPEN))
        return save_closed(lake, from_rows(lake.read(INCIDENTS, where)), now, CLUSTER_REMOVED)


def _remembered(state: State) -> dict[str, str | None]:
    """Return the names that the file had, and since when each has been missing."""
    try:
        return dict(json.loads(state.read(_NAME) or "{}"))
    except (OSError, ValueError, TypeError):
        return {}


def without_result(
    incidents: Iterable[Incident], evaluation: Evaluation
) -> dict[Named, list[Incident]]:
    """Return the open incidents about expectations of which an evaluation holds no result."""
    known = {(alert.rule, alert.subject) for alert in evaluation.alerts} | evaluation.untrue
    without: dict[Named, list[Incident]] = {}
    for incident in incidents:
        if (
            incident.kind == "quality"
            and incident.is_open
            and (incident.rule, incident.subject) not in known
        ):
            named = incident.row["table"], incident.row["expectation"]
            without.setdefault(named, []).append(incident)
    return without


def without_objective(
    incidents: Iterable[Incident], objectives: Sequence[Objective]
) -> list[Incident]:
    """Return the open incidents about burn rates of groups that no objective matches."""
    return [
        incident
        for incident in incidents
        if incident.kind == "burn_rate"
        and incident.is_open
        and not any(fits(objective.match, incident.row) for objective in objectives)
    ]


def close_undeclared(
    lake: Lake, incidents: Collection[Incident], now: datetime, reason: str
) -> int:
    """Close incidents about something that is no longer declared.

    Args:
        lake: the tables.
        incidents: of `without_result` or `without_objective`.
        now: the present.
        reason: why they are closed, in a few words.

    Returns:
        How many incidents changed.

    Raises:
        LeaseError: see `incidents_lease`.
    """
    if not incidents:
        return 0
    with incidents_lease(lake):
        read = find(lake, [incident.incident_id for incident in incidents])
        return save_closed(lake, [incident for incident in read if incident.is_open], now, reason)
