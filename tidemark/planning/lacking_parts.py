"""Parts that a snapshot lacks, and the snapshot that has them: brokers, queues, groups."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from json import loads
from typing import Any

from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.tables import quality, raw
from tidemark.model.snapshots import WITHOUT_QUEUES, SnapshotSource, SnapshotStatus
from tidemark.planning import history
from tidemark.planning.history import LoadedSnapshot
from tidemark.planning.quarantine_decisions import DROPPED, Decision
from tidemark.rocketmq.names import CONNECTIONS
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


def listing_all_groups(lake: Lake, snapshots: Sequence[LoadedSnapshot]) -> set[str]:
    """Return the ids of those snapshots that no problem keeps from listing a group.

    A ``COMPLETE`` one lists them all. A ``PARTIAL`` one does where it holds the offsets of every
    master and only such requests failed as name no groups: those for online members, which follow
    the lists, and those to slaves, proxies and name servers.

    Args:
        lake: the tables.
        snapshots: loaded snapshots, in order of time; files hold one broker and list no cluster.
    """
    whole = [loaded_snapshot for loaded_snapshot in snapshots if loaded_snapshot.is_of_all_brokers]
    partial = {
        loaded_snapshot.snapshot_id: loaded_snapshot
        for loaded_snapshot in whole
        if loaded_snapshot.status == SnapshotStatus.PARTIAL
    }
    snapshot_ids = {
        loaded_snapshot.snapshot_id
        for loaded_snapshot in whole
        if loaded_snapshot.status == SnapshotStatus.COMPLETE
    }
    if not partial:
        return snapshot_ids
    window = history.window_of(list(partial.values()))
    problems = lake.read(raw.SNAPSHOTS, window, columns=("snapshot_id", "problems"))
    failed = {
        row["snapshot_id"]: {
            problem["endpoint"] for problem in row["problems"] or [] if _hides(problem)
        }
        for row in problems.to_pylist()
    }
    columns = ("snapshot_id", "broker", "broker_id", "address")
    masters: dict[str, dict[str, str | None]] = {}
    for row in lake.read(raw.BROKERS, window, columns=columns).to_pylist():
        if row["broker_id"] == 0:
            masters.setdefault(row["snapshot_id"], {})[row["broker"]] = row["address"]
    return snapshot_ids | {
        snapshot_id
        for snapshot_id, snapshot in partial.items()
        if (of_snapshot := masters.get(snapshot_id))
        and snapshot.brokers_read.issuperset(of_snapshot)
        and failed.get(snapshot_id, set()).isdisjoint(of_snapshot.values())
    }


def _hides(problem: Mapping[str, Any]) -> bool:
    # Also without a group: a broker may have been named as a proxy.
    return not (problem["operation"] or "").startswith(CONNECTIONS.strip())


FURTHEST = timedelta(minutes=10)
"""Longest time between a snapshot of clients' files and that of the queues."""


@dataclass(frozen=True)
class NearestQueues:
    """The snapshot with a broker's queues that is nearest in time to a snapshot of clients' files.

    Attributes:
        snapshot_id: the snapshot of clients' files.
        broker: the broker group.
        nearest_id: the snapshot of the same cluster that holds the broker's queues.
    """

    snapshot_id: str
    broker: str
    nearest_id: str


def nearest_queues(known: Sequence[LoadedSnapshot], window: Window) -> Iterator[NearestQueues]:
    """Yield the nearest queues for each snapshot of clients' files in a window.

    A broker without a snapshot within `FURTHEST` has none: the lag of its clients is unknown. The
    earlier of two equally near snapshots counts.

    Args:
        known: loaded snapshots of the window and of the time before it, in order of time.
        window: the window.
    """
    holding = [snapshot for snapshot in known if snapshot.source not in WITHOUT_QUEUES]
    for snapshot in known:
        if snapshot.source != SnapshotSource.LOCAL_OFFSETS or snapshot.observed_at not in window:
            continue
        near = [
            (
                abs(loaded_snapshot.observed_at - snapshot.observed_at),
                loaded_snapshot.observed_at,
                loaded_snapshot,
            )
            for loaded_snapshot in holding
            if loaded_snapshot.cluster == snapshot.cluster
            and abs(loaded_snapshot.observed_at - snapshot.observed_at) <= FURTHEST
        ]
        for broker in sorted(snapshot.brokers_read):
            of_broker = [entry for entry in near if broker in entry[2].brokers_read]
            if of_broker:
                nearest = min(of_broker, key=lambda entry: entry[:2])[2]
                yield NearestQueues(snapshot.snapshot_id, broker, nearest.snapshot_id)
