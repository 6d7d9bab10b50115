"""Brokers and queues that a snapshot lacks, and the snapshot that last had them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from json import loads

from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.decisions import DROPPED, Decision
from tidemark.lake.tables import quality, raw
from tidemark.planning.history import LoadedSnapshot
from tidemark.settings.sections import MEMORY

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


@dataclass(frozen=True)
class UnreachableBroker:
    """A broker that a snapshot should hold and does not.

    Attributes:
        snapshot_id: the snapshot that lacks it.
        broker: the broker group.
        last_snapshot_id: the newest earlier snapshot that holds it.
    """

    snapshot_id: str
    broker: str
    last_snapshot_id: str


def unreachable_brokers(
    known: Sequence[LoadedSnapshot], window: Window
) -> Iterator[UnreachableBroker]:
    """Yield the brokers that snapshots of a window lack, if known within `MEMORY` before.

    Args:
        known: loaded snapshots of the window and of `MEMORY` before it, in order of time.
        window: the window.
    """
    newest: dict[str, dict[str, LoadedSnapshot]] = {}
    for snapshot in known:
        brokers = newest.setdefault(snapshot.cluster, {})
        if snapshot.observed_at in window and snapshot.is_of_all_brokers:
            for broker, last in sorted(brokers.items()):
                is_remembered = snapshot.observed_at - last.observed_at <= MEMORY
                if broker not in snapshot.brokers_read and is_remembered:
                    yield UnreachableBroker(snapshot.snapshot_id, broker, last.snapshot_id)
        if snapshot.is_of_all_brokers:
            brokers |= dict.fromkeys(snapshot.brokers_read, snapshot)
