"""The order of groups for a person on call: the state of health, then the longest delay."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.lake.schema import BIGINT, Column
from tidemark.lake.tables import progress
from tidemark.model.health import Health

WORST_FIRST = (
    Health.LOSING, Health.BLOCKED, Health.STALLED, Health.STOPPED, Health.UNSUBSCRIBED,
    Health.FALLING_BEHIND, Health.UNKNOWN, Health.CATCHING_UP, Health.IDLE, Health.OK,
)  # fmt: skip
"""States of health by what they ask of a person.

UNKNOWN follows what is certainly wrong: one unreachable broker makes many groups unknown at once,
which would hide the few that lose messages.
"""

TROUBLE = WORST_FIRST[:7]
"""States that somebody has to look at."""

SEVERITY = "severity"
LONGEST = 10**13
"""Milliseconds that no delay reaches: places of one state are below its multiple."""

GROUPS = replace(
    progress.GROUPS,
    columns=(
        *progress.GROUPS.columns,
        Column(SEVERITY, BIGINT, "place among groups: state of health, then longest delay"),
    ),
)
"""The columns of `with_severity`."""


def with_severity(rows: pa.Table) -> pa.Table:
    """Return rows of ``progress.groups`` with `SEVERITY`, the worst first in ascending order.

    A group without a known delay precedes the others of its state: it may be the worst of them.
    """
    states = pa.array(WORST_FIRST)
    place = pc.fill_null(  # pyright: ignore
        pc.index_in(rows["health"], value_set=states),  # pyright: ignore
        WORST_FIRST.index(Health.UNKNOWN),
    )
    delay = pc.fill_null(rows["delay_ms"], LONGEST - 1)  # pyright: ignore
    delay = pc.min_element_wise(delay, pa.scalar(LONGEST - 1, pa.int64()))  # pyright: ignore
    of_state = pc.multiply(place.cast(pa.int64()), LONGEST)  # pyright: ignore
    within = pc.subtract(pa.scalar(LONGEST - 1, pa.int64()), delay)  # pyright: ignore
    return rows.append_column(SEVERITY, pc.add(of_state, within))  # pyright: ignore
