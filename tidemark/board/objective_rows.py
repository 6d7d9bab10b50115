"""Objectives of groups at the shown snapshot: what is left of their budgets."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tidemark.board.views import Shown
from tidemark.lake.tables import progress


def objective_rows(rows: Shown) -> pa.Table:
    """Return the newest row of each group, topic and objective."""
    table = rows.of(progress.OBJECTIVES).sort_by([("hour", "descending")])
    key = [name for name in progress.OBJECTIVES.key if name != "hour"]
    names = [name for name in table.column_names if name not in key]
    newest = table.group_by(key, use_threads=False).aggregate([(name, "first") for name in names])
    newest = newest.rename_columns([*key, *names])
    return newest.select(progress.OBJECTIVES.column_names)


def least_left_first(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows by what is left of the budget, then by how fast it is used."""
    return sorted(
        rows,
        key=lambda row: (
            row["budget_left"],
            -(row["burn_rate_1h"] or 0),
            *(row["cluster"], row["consumer_group"], row["topic"], row["objective"]),
        ),
    )


def minutes_allowed(row: dict[str, Any]) -> float:
    """Return the minutes of the window that may be bad."""
    return (1 - row["target"]) * 60 * row["window_hours"]
