"""Rows that were set aside, and what people have decided on them.

A rule says that a row cannot be a measurement; somebody who knows better may say that it is one, or
that it is none and nobody wants to see it again. It is about the text of a row, so it holds however
often its hour is computed again.
"""

import hashlib
import json
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property
from typing import Any

from lake.catalog import Lake
from lake.tables import TABLES
from lake.tables.quality import DECISIONS, QUARANTINE
from lake.window import Window

RELEASED = "released"
DROPPED = "dropped"
UNDONE = "undone"


@dataclass(frozen=True)
class SetAside:
    """A row of ``quality.quarantine``; its columns are described there."""

    observed_at: datetime
    table: str
    reason: str
    row: str
    snapshot_id: str | None

    @cached_property
    def row_id(self) -> str:
        """Short name of the row, the same for identical copies: they cannot be told apart."""
        text = json.dumps([self.table, self.snapshot_id, self.row])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The raw columns, instants as ISO 8601."""
        return json.loads(self.row)

    @property
    def rules(self) -> list[str]:
        """Names of the rules it breaks."""
        return self.reason.split(", ")

    @property
    def key(self) -> dict[str, Any]:
        """The columns that should make it unique."""
        return {name: self.columns.get(name) for name in TABLES[self.table].key}

    def decided(
        self, decision: str, author: str, decided_at: datetime, comment: str | None = None
    ) -> "Decision":
        """A decision on it, not written down yet."""
        row = {each.name: getattr(self, each.name) for each in fields(SetAside)}
        return Decision(
            **row, decision=decision, author=author, decided_at=decided_at, comment=comment
        )


@dataclass(frozen=True)
class Decision(SetAside):
    """A row of ``quality.decisions``; its columns are described there."""

    decided_at: datetime
    decision: str
    author: str
    comment: str | None


def set_aside(lake: Lake) -> list[SetAside]:
    """All rows of the quarantine; of identical copies the one that breaks the fewest rules."""
    names = tuple(each.name for each in fields(SetAside))
    found = [SetAside(**row) for row in lake.read(QUARANTINE, columns=names).to_pylist()]
    most_rules_first = sorted(found, key=lambda each: len(each.rules), reverse=True)
    return list({each.row_id: each for each in most_rules_first}.values())


def decisions(lake: Lake, window: Window | None = None) -> tuple[Decision, ...]:
    """The decisions in force on rows of a window, or on all; the last one on a row counts."""
    names = tuple(each.name for each in fields(Decision))
    found = [Decision(**row) for row in lake.read(DECISIONS, window, columns=names).to_pylist()]
    last = {each.row_id: each for each in sorted(found, key=lambda each: each.decided_at)}
    return tuple(each for each in last.values() if each.decision != UNDONE)
