"""Quarantined rows, and the decisions of people on them.

A row that violates an expectation is quarantined. A person can release it as valid, or drop it as
invalid for good. A decision concerns the text of a row, so it holds however often the hour of the
row is computed again. The command line and the board decide by this module alone.
"""

import hashlib
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from tidemark.host.leases import DECISIONS as DECISIONS_LEASE
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.schema import all_of, one_of, window_filter
from tidemark.lake.tables import TABLES
from tidemark.lake.tables.quality import DECISIONS, QUARANTINE
from tidemark.lake.typed_rows import dict_rows
from tidemark.model.incidents import ActionKind
from tidemark.planning import history

RELEASED = ActionKind.RELEASED
DROPPED = ActionKind.DROPPED
UNDONE = ActionKind.UNDONE

KEY_UNIQUE = "key_unique"
"""Expectation that no two rows of a table have the same key."""


@dataclass(frozen=True, kw_only=True)
class QuarantinedRow:
    """A row of ``quality.quarantine``; its columns are described there."""

    observed_at: datetime
    table: str
    reason: str
    row: str
    snapshot_id: str | None

    @cached_property
    def row_id(self) -> str:
        """Short id of the row, the same for identical copies."""
        text = json.dumps([self.table, self.snapshot_id, self.row])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The raw columns, instants as ISO 8601."""
        return json.loads(self.row)

    @property
    def rules(self) -> list[str]:
        """Names of the expectations that it violates."""
        return self.reason.split(", ")

    @property
    def key(self) -> dict[str, Any]:
        """The columns that should make it unique."""
        return {name: self.columns.get(name) for name in TABLES[self.table].key}

    @property
    def key_text(self) -> str:
        """The same in one line, without the snapshot."""
        key = {name: value for name, value in self.key.items() if name != "snapshot_id"} or self.key
        return ", ".join(f"{name}={'-' if value is None else value}" for name, value in key.items())

    def decided(
        self, decision: str, author: str, decided_at: datetime, comment: str | None = None
    ) -> "Decision":
        """Return a decision on it, which is not recorded yet."""
        row = {field.name: getattr(self, field.name) for field in fields(QuarantinedRow)}
        return Decision(
            **row, decision=decision, author=author, decided_at=decided_at, comment=comment
        )


@dataclass(frozen=True, kw_only=True)
class Decision(QuarantinedRow):
    """A row of ``quality.decisions``; its columns are described there."""

    decided_at: datetime
    decision: str
    author: str
    comment: str | None


def quarantined_rows(lake: Lake) -> list[QuarantinedRow]:
    """Return all quarantined rows; of identical copies, the one with the fewest violations."""
    names = tuple(field.name for field in fields(QuarantinedRow))
    return unique_rows(lake.read(QUARANTINE, columns=names).to_pylist())


def unique_rows(raw_rows: Iterable[Mapping[str, Any]]) -> list[QuarantinedRow]:
    """Return rows of ``quality.quarantine`` as `quarantined_rows`."""
    names = [field.name for field in fields(QuarantinedRow)]
    rows = [QuarantinedRow(**{name: row[name] for name in names}) for row in raw_rows]
    most_violations_first = sorted(
        rows, key=lambda quarantined_row: len(quarantined_row.rules), reverse=True
    )
    return list(
        {
            quarantined_row.row_id: quarantined_row for quarantined_row in most_violations_first
        }.values()
    )


def decisions(lake: Lake, window: Window | None = None) -> tuple[Decision, ...]:
    """Return the last decision on each row of a window, or of all rows."""
    names = tuple(field.name for field in fields(Decision))
    rows = [Decision(**row) for row in lake.read(DECISIONS, window, columns=names).to_pylist()]
    last = {row.row_id: row for row in sorted(rows, key=lambda row: row.decided_at)}
    return tuple(decision for decision in last.values() if decision.decision != UNDONE)


POSSIBLE = (RELEASED, DROPPED, UNDONE)
"""The decisions that a person can make."""


LEASE_SECONDS = 30.0
"""Longest wait for another person's decision: each row of it takes a fraction of a second."""


class DecisionError(ValueError):
    """A decision is not possible, with the reason."""


def known_rows(lake: Lake) -> dict[str, QuarantinedRow]:
    """Return quarantined rows and rows with a decision by id; the latter may have left."""
    return {row.row_id: row for row in (*quarantined_rows(lake), *decisions(lake))}


def decided_rows(lake: Lake) -> dict[str, Decision]:
    """Return the last decision on each row by id, without those that were undone."""
    return {decision.row_id: decision for decision in decisions(lake)}


def waiting_rows(rows: Iterable[QuarantinedRow], decided: Container[str]) -> list[QuarantinedRow]:
    """Return the quarantined rows without a decision, the newest first.

    Args:
        rows: the rows.
        decided: ids of rows with a decision.
    """
    rows = [row for row in rows if row.row_id not in decided]
    return sorted(rows, key=lambda row: row.observed_at, reverse=True)


def decide(
    lake: Lake, rows: Iterable[QuarantinedRow], decision: str, author: str, comment: str
) -> tuple[list[Decision], Window | None]:
    """Record a decision on rows: on all of them or on none.

    Args:
        lake: the tables.
        rows: the rows; for `UNDONE` those of `decided_rows`.
        decision: one of `POSSIBLE`.
        author: who decides.
        comment: why; may be empty.

    Returns:
        The recorded decisions, and the hours whose numbers they change as soon as these are
        computed again; None where no number changes.

    Raises:
        DecisionError: one of the rows cannot be released.
        HeldError: somebody else's decision takes too long.
    """
    chosen = list({row.row_id: row for row in rows}.values())
    # Two people at once must not release two rows of one key.
    with lake.shared.leases.acquire(DECISIONS_LEASE, LEASE_SECONDS):
        before = [made for made in decided_rows(lake).values() if made.decision == RELEASED]
        if decision == RELEASED:
            _require_releasable(lake, chosen, before)
        now = datetime.now(UTC)
        made = [row.decided(decision, author, now, comment or None) for row in chosen]
        names = DECISIONS.column_names
        lake.append(DECISIONS, [{name: getattr(row, name) for name in names} for row in made])
    released = {row.row_id for row in before}
    # A dropped row was computed on only where it had been released.
    changed = [row for row in made if decision != DROPPED or row.row_id in released]
    return made, hours_to_compute(lake, changed)


def hours_to_compute(lake: Lake, rows: Sequence[QuarantinedRow]) -> Window | None:
    """Return the hours of rows and the later ones of their clusters; None without a row.

    Rates, delays and health depend on earlier observations, as when a snapshot lands late.
    """
    if not rows:
        return None
    first = min(row.observed_at for row in rows)
    clusters = {row.columns.get("cluster") for row in rows}
    loaded = history.loaded_snapshots(lake, Window(first, max(first, datetime.now(UTC) + HOUR)))
    of_same = (snapshot.observed_at for snapshot in loaded if snapshot.cluster in clusters)
    last = max((*of_same, *(row.observed_at for row in rows)))
    return Window(first, last).whole_hours(inclusive=True)


def recompute_line(hours: Window) -> str:
    """Return the command that computes hours again."""
    start, end = (f"{value:%Y-%m-%dT%H:%MZ}" for value in (hours.start, hours.end))
    return f"tidemark recompute --from {start} --to {end}"


def rows_of_key(lake: Lake, row: QuarantinedRow) -> list[dict[str, Any]]:
    """Return all raw rows with the key of a row, including itself."""
    if row.snapshot_id is None:
        return []
    table = TABLES[row.table]
    moment = Window.through(row.observed_at, row.observed_at)
    of_snapshot = one_of("snapshot_id", [row.snapshot_id])
    result = lake.read(table, all_of(window_filter(table, moment), of_snapshot))
    return [
        dict_row
        for dict_row in dict_rows(result)
        if {name: dict_row[name] for name in table.key} == row.key
    ]


def _require_releasable(
    lake: Lake, rows: Iterable[QuarantinedRow], released: Sequence[QuarantinedRow]
) -> None:
    """Refuse a row that may not be released; two rows of one key may not both be.

    Raises:
        DecisionError: the row and the reason.
    """
    so_far = list(released)
    for row in rows:
        if why_not := _why_not(lake, row, so_far):
            raise DecisionError(f"{row.row_id} cannot be released: {why_not}")
        so_far.append(row)


def _why_not(lake: Lake, row: QuarantinedRow, released: Iterable[QuarantinedRow]) -> str | None:
    """Return in a few words why a row may not be released; None when it may."""
    missing = [name for name in TABLES[row.table].required if row.key[name] is None]
    if missing:
        return f"without {', '.join(missing)} nothing can be computed on it"
    same = rows_of_key(lake, row)
    if not same:
        return "its raw rows have been removed, nothing can be computed from it any more"
    if row.rules == [KEY_UNIQUE] and all(other == same[0] for other in same):
        return "a row with the same content is computed on already"
    for other in released:
        if (other.table, other.key) == (row.table, row.key) and other.row_id != row.row_id:
            return f"{other.row_id} of the same key is released, undo that first"
    return None
