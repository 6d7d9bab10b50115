"""Landing what RocketMQ's files tell, for `tidemark collect`."""

from collections.abc import Iterable
from pathlib import Path

import typer

from lake.home import Home
from lake.landing import folder, land
from rocketmq.files.local_offsets import read_local_offsets
from rocketmq.files.stats_log import read_stats_log
from rocketmq.files.store import read_store
from rocketmq.rows import TABLES, Snapshot
from tidemark.errors import CommandError
from tidemark.looking import problem_lines


def land_store(store: Path, cluster: str, broker: str) -> None:
    """Lands one snapshot of a broker's store folder.

    Raises:
        FileError: it is no store that can be read.
        CommandError: nothing of it could be read.
    """
    land_and_say([read_store(store, cluster=cluster or None, broker=broker or None)])


def land_local_offsets(clients: Path, cluster: str) -> None:
    """Lands one snapshot of broadcast clients' offsets.

    Raises:
        BadParameter: the cluster is not named; these files do not tell.
        FileError: there are none.
        CommandError: none of them could be read.
    """
    _require("--cluster", cluster)
    land_and_say([read_local_offsets(clients, cluster=cluster)])


def land_stats_log(logs: Iterable[Path], cluster: str, broker: str, broker_id: int = 0) -> None:
    """Lands one snapshot for each instant that a broker's statistics were logged at.

    Raises:
        BadParameter: cluster or broker are not named; the logs do not tell.
        FileError: a log cannot be read; what the others told has landed.
        CommandError: they tell of no statistics.
    """
    _require("--cluster", cluster)
    _require("--broker", broker)
    logs = list(logs)
    found = read_stats_log(logs, cluster=cluster, broker=broker, broker_id=broker_id)
    if not land_and_say(found):
        raise CommandError(f"{logs[0]}: no line of statistics; is it a stats.log?")


def land_and_say(snapshots: Iterable[Snapshot]) -> int:
    """Lands snapshots, each said in one line, its problems on standard error; returns how many.

    One that has landed before, as instants of a log do when it is read again, stays as it is.

    Raises:
        CommandError: a snapshot holds nothing.
    """
    home, count = Home.of(), 0
    for snapshot in snapshots:
        count += 1
        lines = problem_lines(snapshot)
        if snapshot.status == "FAILED":
            raise CommandError(lines[0])
        for line in lines:
            typer.echo(f"{snapshot.status}: {line}", err=True)
        place = folder(home, snapshot.cluster, snapshot.observed_at, snapshot.snapshot_id)
        if place.exists():
            typer.echo(f"{snapshot.snapshot_id}: landed before")
            continue
        land(home, snapshot)
        rows = [f"{len(getattr(snapshot, name))} {name}" for name in TABLES]
        rows = [text for text in rows if not text.startswith("0 ")]
        typer.echo(f"{snapshot.snapshot_id}: {snapshot.status}, {', '.join(rows) or 'no rows'}")
    return count


def _require(option: str, value: str) -> None:
    if not value:
        raise typer.BadParameter(f"the files do not tell: give {option} NAME")
