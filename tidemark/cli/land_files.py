"""Landing of snapshots from files of RocketMQ, for `tidemark collect`."""

from collections.abc import Iterable
from pathlib import Path

import typer

from tidemark.cli.invocation import CommandError, invocation
from tidemark.cli.output import printable
from tidemark.cli.snapshot_command import problem_lines
from tidemark.lake import clocks
from tidemark.lake.landing import fault_of_names, has_landed, land
from tidemark.model.snapshots import SnapshotStatus
from tidemark.rocketmq.files.local_offsets import read_local_offsets
from tidemark.rocketmq.files.stats_log import read_stats_log
from tidemark.rocketmq.files.store_snapshot import read_store
from tidemark.rocketmq.records import TABLES, Snapshot


def land_store(store: Path, cluster: str, broker: str, broker_id: int | None = None) -> None:
    """Land one snapshot of a broker's store folder.

    Raises:
        FileError: the folder is not a readable store.
        CommandError: nothing of it could be read.
    """
    snapshot = read_store(
        store, cluster=cluster or None, broker=broker or None, broker_id=broker_id
    )
    land_all([snapshot])


def land_local_offsets(clients: Path, cluster: str) -> None:
    """Land one snapshot of broadcast clients' offsets.

    Raises:
        BadParameter: no cluster is given; these files do not name it.
        FileError: there are no such files.
        CommandError: none of them could be read.
    """
    _require("--cluster", cluster)
    land_all([read_local_offsets(clients, cluster=cluster)])


def land_stats_log(logs: Iterable[Path], cluster: str, broker: str, broker_id: int = 0) -> None:
    """Land one snapshot for each instant in a broker's statistics logs.

    Raises:
        BadParameter: cluster or broker is not given; the logs do not name them.
        FileError: a log cannot be read; snapshots of the others have landed.
        CommandError: the logs hold no statistics.
    """
    _require("--cluster", cluster)
    _require("--broker", broker)
    logs = list(logs)
    snapshots = read_stats_log(logs, cluster=cluster, broker=broker, broker_id=broker_id)
    if not land_all(snapshots):
        raise CommandError(f"{logs[0]}: no line of statistics; is it a stats.log?")


def land_all(snapshots: Iterable[Snapshot]) -> int:
    """Land snapshots and print a line for each; problems go to standard error.

    A snapshot that has landed before, as instants of a log that is read again, stays as it is. One
    of an instant that no snapshot can be of, as a line of a wrong clock makes it, is left out. One
    line names the first of these.

    Returns:
        Number of snapshots.

    Raises:
        CommandError: a snapshot holds nothing, its cluster has no usable name, or all were left
            out.
    """
    landing, count = invocation().landing, 0
    left_out: list[str] = []
    for snapshot in snapshots:
        if reason := clocks.fault(snapshot.observed_at):
            left_out.append(f"{printable(snapshot.snapshot_id)}: left out, because {reason}")
            continue
        if reason := fault_of_names(snapshot):
            raise CommandError(f"{reason}; give others with --cluster and --broker")
        count += 1
        lines = problem_lines(snapshot)
        if snapshot.status == SnapshotStatus.FAILED:
            raise CommandError(lines[0])
        for line in lines:
            typer.echo(f"{snapshot.status}: {line}", err=True)
        name = printable(snapshot.snapshot_id)  # topics.json may have named the cluster
        if has_landed(landing, snapshot):
            typer.echo(f"{name}: landed before")
            continue
        land(landing, snapshot)
        rows = [f"{len(getattr(snapshot, name))} {name}" for name in TABLES]
        rows = [text for text in rows if not text.startswith("0 ")]
        typer.echo(f"{name}: {snapshot.status}, {', '.join(rows) or 'no rows'}")
    if left_out:
        others = f"; so are {len(left_out) - 1:,} others" if left_out[1:] else ""
        if not count:
            raise CommandError(left_out[0] + others)
        typer.echo(left_out[0] + others, err=True)
    return count


def _require(option: str, value: str) -> None:
    if not value:
        raise typer.BadParameter(f"the files do not name it: give {option} NAME")
