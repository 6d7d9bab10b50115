"""Consumer groups: how bad their state is, and what is left of their objectives."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.board.views.scope import GROUPS_WITH_TEAM
from tidemark.board.views.view import Shown
from tidemark.lake.schema import BIGINT, Column
from tidemark.lake.tables import progress
from tidemark.lake.typed_rows import dict_rows
from tidemark.model.health import TROUBLE as CERTAIN
from tidemark.model.health import Health

WORST_FIRST = (*CERTAIN, Health.UNKNOWN, Health.CATCHING_UP, Health.IDLE, Health.OK)
"""States of health by what they ask of a person.

UNKNOWN follows what is certainly wrong: one unreachable broker makes many groups unknown at once,
which would hide the few that lose messages.
"""

TROUBLE = (*CERTAIN, Health.UNKNOWN)
"""States that need a person, or may."""

SEVERITY = "severity"
LONGEST = 10**13
"""Milliseconds that no delay reaches: places of one state are below its multiple."""

GROUPS = replace(
    GROUPS_WITH_TEAM,
    columns=(
        *GROUPS_WITH_TEAM.columns,
        Column(SEVERITY, BIGINT, "place among groups: state of health, then longest delay"),
    ),
)
"""The columns of `with_severity`."""


def with_severity(rows: pa.Table) -> pa.Table:
    """Return rows of ``progress.groups`` with `SEVERITY`, the worst first in ascending order.

    A group without a known delay precedes the others of its state: it may be the worst of them.
    """
    states = pa.array(WORST_FIRST)
    place = pc.fill_null(
        pc.index_in(rows["health"], value_set=states),
        WORST_FIRST.index(Health.UNKNOWN),
    )
    delay = pc.fill_null(rows["delay_ms"], LONGEST - 1)
    delay = pc.min_element_wise(delay, pa.scalar(LONGEST - 1, pa.int64()))
    of_state = pc.multiply(place.cast(pa.int64()), LONGEST)
    within = pc.subtract(pa.scalar(LONGEST - 1, pa.int64()), delay)
    return rows.append_column(SEVERITY, pc.add(of_state, within))


def worst_groups(rows: pa.Table, count: int) -> list[dict[str, Any]]:
    """Return the rows of ``progress.groups`` with the worst `SEVERITY`, the worst first."""
    ranked = with_severity(rows)
    by_severity = [(SEVERITY, "ascending")]
    places = pc.sort_indices(ranked.select([SEVERITY]), sort_keys=by_severity)
    return dict_rows(ranked.take(places[:count]))


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
