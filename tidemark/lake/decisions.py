"""Quarantined rows, and the decisions of people on them.

A row that violates an expectation is quarantined. A person can release it as valid, or drop it as
invalid for good. A decision concerns the text of a row, so it holds however often the hour of the
row is computed again.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property
from typing import Any

from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.tables import TABLES
from tidemark.lake.tables.quality import DECISIONS, QUARANTINE
from tidemark.model.incidents import ActionKind

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
