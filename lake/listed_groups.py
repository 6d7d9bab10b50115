"""Snapshots that list all groups of their cluster: a group that they lack is gone."""

from collections.abc import Mapping, Sequence
from typing import Any

from lake import history
from lake.catalog import Lake
from lake.history import LoadedSnapshot
from lake.tables import raw
from rocketmq.names import CONNECTIONS
from tidemark.model.snapshots import SnapshotStatus


def listing_all_groups(lake: Lake, snapshots: Sequence[LoadedSnapshot]) -> set[str]:
    """Return the ids of those snapshots that no problem keeps from listing a group.

    A ``COMPLETE`` one lists them all. A ``PARTIAL`` one does where it holds the offsets of every
    master and only such requests failed as name no groups: those for online members, which follow
    the lists, and those to slaves, proxies and name servers.

    Args:
        lake: the tables.
        snapshots: loaded snapshots, in order of time; files hold one broker and list no cluster.
    """
    whole = [each for each in snapshots if each.is_of_all_brokers]
    partial = {each.snapshot_id: each for each in whole if each.status == SnapshotStatus.PARTIAL}
    found = {each.snapshot_id for each in whole if each.status == SnapshotStatus.COMPLETE}
    if not partial:
        return found
    window = history.window_of(list(partial.values()))
    problems = lake.read(raw.SNAPSHOTS, window, columns=("snapshot_id", "problems"))
    failed = {
        row["snapshot_id"]: {each["endpoint"] for each in row["problems"] or [] if _hides(each)}
        for row in problems.to_pylist()
    }
    columns = ("snapshot_id", "broker", "broker_id", "address")
    masters: dict[str, dict[str, str | None]] = {}
    for row in lake.read(raw.BROKERS, window, columns=columns).to_pylist():
        if row["broker_id"] == 0:
            masters.setdefault(row["snapshot_id"], {})[row["broker"]] = row["address"]
    return found | {
        snapshot_id
        for snapshot_id, snapshot in partial.items()
        if (of_snapshot := masters.get(snapshot_id))
        and snapshot.brokers_read.issuperset(of_snapshot)
        and failed.get(snapshot_id, set()).isdisjoint(of_snapshot.values())
    }


def _hides(problem: Mapping[str, Any]) -> bool:
    # Also without a group: a broker may have been named as a proxy.
    return not (problem["operation"] or "").startswith(CONNECTIONS.strip())
