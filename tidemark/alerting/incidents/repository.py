"""Reading and writing ``alerting.incidents``, one writer at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from tidemark.alerting.incidents.incident import OPEN, Evaluation, Incident
from tidemark.alerting.incidents.inhibition import HIDDEN
from tidemark.alerting.incidents.life_cycle import REOPEN_WITHIN, advance, closed, is_current
from tidemark.alerting.rules.base import BaseRule
from tidemark.alerting.rules.model import Inhibition
from tidemark.host.leases import INCIDENTS as INCIDENTS_LEASE
from tidemark.lake import clocks
from tidemark.lake.catalog import Lake
from tidemark.lake.conditions import any_of, not_before, one_of
from tidemark.lake.tables.alerting import INCIDENTS
from tidemark.lake.typed_rows import plain_rows, typed_rows

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
    removed = [old[text] for text in old.keys() - new.keys()]
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
