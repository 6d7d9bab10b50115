"""``alerting.incidents`` as it is read and changed: one writer at a time, whoever it is."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from filelock import FileLock

from alerting.incidents import OPEN, REOPEN, Evaluation, Incident, Transition, follow
from alerting.rules import BaseRule
from lake.catalog import Lake, any_of, not_before, one_of
from lake.tables.alerting import INCIDENTS

LOCK_SECONDS = 60


@contextmanager
def changing(lake: Lake) -> Iterator[None]:
    """Alone with the incidents: a tick and a person at the command line may change them at once.

    Held for the milliseconds between reading and writing; freed by the operating system when its
    holder is killed.

    Raises:
        Timeout: somebody else holds it for a minute.
    """
    lake.home.path.mkdir(parents=True, exist_ok=True)
    with FileLock(lake.home.path / "incidents.lock", timeout=LOCK_SECONDS):
        yield


def standing(lake: Lake, now: datetime) -> list[Incident]:
    """The incidents that are open, and those that may come back."""
    where = any_of(one_of("state", OPEN), not_before("resolved_at", now - REOPEN))
    return of_rows(lake.read(INCIDENTS, where).to_pylist())


def alerted_groups(lake: Lake) -> list[str]:
    """The consumer groups with an incident that is not over, by name."""
    open_ones = of_rows(lake.read(INCIDENTS, one_of("state", OPEN)).to_pylist())
    found = (each.row.get("consumer_group") for each in open_ones)
    return sorted({group for group in found if group})


def live_on(
    lake: Lake, said: Sequence[Evaluation], rules: Iterable[BaseRule], *, all_rules: bool
) -> tuple[list[Incident], int]:
    """Lets the standing incidents live on through evaluations, alone with them.

    Args:
        lake: the tables.
        said: what the rules said, in order of time; at least one.
        rules: as they are now.
        all_rules: see `follow`.

    Returns:
        (the incidents that are left, how many changed).

    Raises:
        Timeout: see `changing`.
    """
    by_name = {rule.name: rule for rule in rules}
    with changing(lake):
        before = standing(lake, said[0].observed_at)
        after = follow(before, said, by_name, all_rules=all_rules)
        return after, save(lake, before, after)


def find(lake: Lake, incident_ids: Iterable[str]) -> list[Incident]:
    """The incidents with these ids."""
    wanted = set(incident_ids)
    if not wanted:
        return []
    return of_rows(lake.read(INCIDENTS, one_of("incident_id", wanted)).to_pylist())


def save(lake: Lake, before: Sequence[Incident], after: Sequence[Incident]) -> int:
    """Writes what is different in one commit and tells how many incidents that are."""
    old = {each.incident_id: each for each in before}
    new = {each.incident_id: each for each in after}
    changed = [each for each in after if old.get(each.incident_id) != each]
    gone = old.keys() - new.keys()
    replaced = gone | (old.keys() & {each.incident_id for each in changed})
    rows = [_row(each) for each in changed]
    if replaced:
        first = min(old[each].opened_at for each in replaced)
        lake.substitute(INCIDENTS, "incident_id", replaced, rows, since=first)
    elif rows:
        lake.append(INCIDENTS, rows)
    return len(changed) + len(gone)


_NAMES = [each.name for each in fields(Incident)]


def _row(incident: Incident) -> dict[str, Any]:
    # asdict would copy every column deeply, which takes longer than all the rest.
    return {name: getattr(incident, name) for name in _NAMES} | {
        "labels": list(incident.labels.items()),
        "transitions": [vars(each) for each in incident.transitions],
    }


def of_rows(rows: Iterable[Mapping[str, Any]]) -> list[Incident]:
    """Rows of ``alerting.incidents`` as incidents, by opening."""
    found = [_incident(row) for row in rows]
    return sorted(found, key=lambda each: (each.opened_at, each.incident_id))


def _incident(row: Mapping[str, Any]) -> Incident:
    columns: dict[str, Any] = {
        name: row[name].astimezone(UTC) if isinstance(row[name], datetime) else row[name]
        for name in _NAMES
    }
    columns["labels"] = dict(row["labels"] or ())
    columns["snapshot_ids"] = tuple(row["snapshot_ids"] or ())
    columns["transitions"] = tuple(
        Transition(each["transition"], each["at"].astimezone(UTC))
        for each in row["transitions"] or ()
    )
    return Incident(**columns)
