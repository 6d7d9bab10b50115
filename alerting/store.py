"""``alerting.incidents`` as it is read and changed: one writer at a time, whoever it is."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import msgspec
import pyarrow as pa
from filelock import FileLock

from alerting.incidents import OPEN, REOPEN, Evaluation, Incident, follow
from alerting.rules import BaseRule
from lake.catalog import Lake, any_of, not_before, one_of
from lake.records import of_table, to_rows
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


@dataclass(frozen=True)
class Standing:
    """The incidents that are open, and those that may come back.

    Attributes:
        incidents: by opening.
        state: of the table they were read from, or an older one.
    """

    incidents: Sequence[Incident]
    state: int | None


def standing(lake: Lake, now: datetime, known: Standing | None = None) -> Standing:
    """What stands now: what is known to have stood, when nobody has changed the table since."""
    state = lake.state(INCIDENTS)
    if known and known.state == state:
        return known
    where = any_of(one_of("state", OPEN), not_before("resolved_at", now - REOPEN))
    return Standing(of_rows(lake.read(INCIDENTS, where)), state)


def alerted_groups(lake: Lake) -> list[str]:
    """The consumer groups with an incident that is not over, by name."""
    told = lake.read(INCIDENTS, one_of("state", OPEN), columns=("evidence",))
    rows = (msgspec.json.decode(text).get("row", {}) for text in told["evidence"].to_pylist())
    return sorted({row["consumer_group"] for row in rows if row.get("consumer_group")})


def live_on(
    lake: Lake,
    said: Sequence[Evaluation],
    rules: Iterable[BaseRule],
    *,
    all_rules: bool,
    known: Standing | None = None,
) -> tuple[list[Incident], int]:
    """Lets the standing incidents live on through evaluations, alone with them.

    Args:
        lake: the tables.
        said: what the rules said, in order of time; at least one.
        rules: as they are now.
        all_rules: see `follow`.
        known: what stood before; read again where somebody has changed an incident since.

    Returns:
        (the incidents that are left, how many changed).

    Raises:
        Timeout: see `changing`.
    """
    by_name = {rule.name: rule for rule in rules}
    with changing(lake):
        before = standing(lake, said[0].observed_at, known).incidents
        after = follow(before, said, by_name, all_rules=all_rules)
        return after, save(lake, before, after)


def find(lake: Lake, incident_ids: Iterable[str]) -> list[Incident]:
    """The incidents with these ids."""
    wanted = set(incident_ids)
    if not wanted:
        return []
    return of_rows(lake.read(INCIDENTS, one_of("incident_id", wanted)))


def save(lake: Lake, before: Sequence[Incident], after: Sequence[Incident]) -> int:
    """Writes what is different in one commit and tells how many incidents that are."""
    old = {each.incident_id: each for each in before}
    new = {each.incident_id: each for each in after}
    changed = [each for each in after if old.get(each.incident_id) != each]
    gone = to_rows(old[each] for each in old.keys() - new.keys())
    lake.gather(INCIDENTS, to_rows(changed), gone)
    return len(changed) + len(gone)


def of_rows(rows: pa.Table) -> list[Incident]:
    """Rows of ``alerting.incidents`` as incidents, by opening."""
    return sorted(of_table(rows, Incident), key=lambda each: (each.opened_at, each.incident_id))
