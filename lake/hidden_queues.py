"""Queues that loaded snapshots lack because their rows are quarantined or were dropped."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from json import loads

from lake.catalog import Lake
from lake.decisions import DROPPED, Decision
from lake.tables import quality, raw
from lake.window import Window

HIDING = (raw.QUEUE_OFFSETS.name, raw.CONSUMER_OFFSETS.name)
"""Tables of which a quarantined row hides a queue."""

MANY = 20_000
"""Number of quarantined rows from which a snapshot with one counts as hiding all its queues."""

Place = tuple[str | None, str | None]
"""A broker and a topic; None where a row lacks it."""

HiddenQueues = Mapping[str, frozenset[Place]]
"""Places of hidden queues by id of the snapshot."""


@dataclass(frozen=True)
class Quarantined:
    """Effect of the quarantine of a window on computations.

    Attributes:
        tables: full names of the raw tables with quarantined rows.
        hidden: the queues that these rows, and dropped ones, hide.
    """

    tables: frozenset[str] = frozenset()
    hidden: HiddenQueues = field(default_factory=dict)


def read_quarantine(lake: Lake, window: Window, decisions: Iterable[Decision]) -> Quarantined:
    """Read the quarantine of a window.

    Args:
        lake: the tables.
        window: instants of the quarantined rows.
        decisions: the decisions in force; dropped rows hide their queue too.
    """
    many = lake.max_rows(quality.QUARANTINE, window) > MANY
    columns = ("snapshot_id", "table") if many else ("snapshot_id", "table", "row")
    quarantined = lake.read(quality.QUARANTINE, window, columns=columns).to_pylist()
    dropped = [
        vars(decision)
        for decision in decisions
        if decision.decision == DROPPED and decision.observed_at in window
    ]
    hidden: dict[str, set[Place]] = {}
    for row in [*quarantined, *dropped]:
        if row["table"] in HIDING and row["snapshot_id"]:
            values = {} if many else loads(row["row"])
            places = hidden.setdefault(row["snapshot_id"], set())
            places.add((values.get("broker"), values.get("topic")))
    return Quarantined(
        frozenset(row["table"] for row in quarantined),
        {snapshot_id: frozenset(places) for snapshot_id, places in hidden.items()},
    )


def united(first: HiddenQueues, second: HiddenQueues) -> HiddenQueues:
    """Return the hidden queues of both."""
    none: frozenset[Place] = frozenset()
    return {
        snapshot_id: first.get(snapshot_id, none) | second.get(snapshot_id, none)
        for snapshot_id in {*first, *second}
    }
