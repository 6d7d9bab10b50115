"""`tidemark collect` and `snapshot`: snapshots land for the next tick, or one is printed."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.invocation import CommandError, NamesrvOption, invocation, path
from tidemark.cli.output import Format, complain, print_rows, to_json
from tidemark.cli.snapshot_command import clusters, problem_lines, take_snapshot
from tidemark.collection.memory import use_system_allocator
from tidemark.model.snapshots import SnapshotStatus
from tidemark.rocketmq.records import SHALLOW, TABLES
from tidemark.rocketmq.snapshot.target import DeepOptions

app = typer.Typer()

_FOLDER = typer.Option(
    parser=path, metavar="DIR", help="A broker's store folder, or a copy of one."
)
_CLIENTS = typer.Option(
    parser=path, metavar="DIR", help="Broadcast clients' offsets: ~/.rocketmq_offsets."
)
_LOGS = typer.Option(
    parser=path, metavar="FILE...", help="A broker's stats.log, and rolled ones (.gz)."
)
_ID = typer.Option(
    metavar="N", min=0, max=2**63 - 1, help="Broker id of the replica that wrote the files."
)
_EVERY = typer.Option(metavar="SPAN", help="Repeat at this interval, e.g. 10s or 1m.")
_ALIVE = typer.Option(
    parser=path,
    metavar="FILE",
    help="Touched with each snapshot of --every: a probe reads its age.",
)


@app.command()
def collect(
    namesrv: NamesrvOption = "",
    every: Annotated[str, _EVERY] = "",
    alive_file: Annotated[Path | None, _ALIVE] = None,
    store: Annotated[Path | None, _FOLDER] = None,
    local_offsets: Annotated[Path | None, _CLIENTS] = None,
    stats_log: Annotated[list[Path] | None, _LOGS] = None,
    files: Annotated[
        list[Path] | None,
        typer.Argument(parser=path, metavar="[FILE...]", help="More files of --stats-log."),
    ] = None,
    cluster: Annotated[
        str, typer.Option(help="Name of the cluster of files, else TIDEMARK_CLUSTER.")
    ] = "",
    broker: Annotated[str, typer.Option(help="Name of the broker group of files.")] = "",
    broker_id: Annotated[int | None, _ID] = None,
) -> None:
    """Take a snapshot of every configured cluster, or of files of RocketMQ, and land it."""
    sources = {"--store": store, "--local-offsets": local_offsets, "--stats-log": stats_log}
    given = [name for name, source in sources.items() if source]
    if len(given) > 1:
        raise typer.BadParameter(f"give one of {', '.join(given)}")
    if files and not stats_log:
        raise typer.BadParameter(f"{files[0]}: files are for --stats-log")
    if broker_id is not None and not (store or stats_log):
        raise typer.BadParameter("--broker-id is for --store and --stats-log")
    if alive_file and not every:
        raise typer.BadParameter("--alive-file is for --every")
    if given and every:
        raise typer.BadParameter(f"--every is for clusters, {given[0]} is read once")
    use_system_allocator()
    from tidemark.cli import land_files as from_files

    cluster = cluster or invocation().basics.cluster
    if store:
        from_files.land_store(store, cluster, broker, broker_id)
    elif local_offsets:
        from_files.land_local_offsets(local_offsets, cluster)
    elif stats_log:
        from_files.land_stats_log([*stats_log, *(files or ())], cluster, broker, broker_id or 0)
    else:
        _collect_clusters(namesrv, every, alive_file)


def _collect_clusters(namesrv: str, every: str, alive_file: Path | None) -> None:
    from tidemark.collection.continuous import collect_every, snapshot_line
    from tidemark.collection.snapshots import take_snapshots
    from tidemark.lake.landing import land
    from tidemark.lake.landing_places import Disk

    home, landing = invocation().home, invocation().landing
    chosen = clusters(home, namesrv)
    if every:
        shared, seconds = invocation().shared, _seconds(every)
        alive = alive_file.touch if alive_file else None
        # A full disk has no room for waiting snapshots either.
        waiting = None if isinstance(landing, Disk) else home
        asyncio.run(
            collect_every(
                landing,
                shared,
                chosen,
                seconds,
                typer.echo,
                complain,
                alive=alive,
                waiting=waiting,
            )
        )
        return
    snapshots = take_snapshots(invocation().shared, chosen, report=complain)
    for snapshot in snapshots:
        land(landing, snapshot)
        typer.echo(snapshot_line(snapshot))
    if snapshots and all(snapshot.status == SnapshotStatus.FAILED for snapshot in snapshots):
        first = snapshots[0]
        raise CommandError(f"nothing could be read: {first.cluster}: {problem_lines(first)[0]}")


def _seconds(every: str) -> float:
    from tidemark.settings.clusters import SHORTEST
    from tidemark.settings.times import positive_seconds

    try:
        span = positive_seconds(every)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if span < SHORTEST:
        raise typer.BadParameter(f"{every!r} is too short: {SHORTEST:g}s at least")
    return span


snapshot_app = typer.Typer()


@snapshot_app.command()
def snapshot(
    namesrv: NamesrvOption = "",
    format: Format = Format.table,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Add reports of clients, counters and tag samples."),
    ] = False,
    clients: Annotated[
        bool, typer.Option(help="With --deep: request reports from the clients of lagging groups.")
    ] = True,
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="With --deep: request reports from the clients of this group even without lag. A "
            "client that never committed a queue then commits 0. May be repeated."
        ),
    ] = None,
) -> None:
    """Take one snapshot of a cluster and print it, with the column names of raw.*."""
    if not deep and (group or not clients):
        raise typer.BadParameter("--group and --no-clients belong to a deep snapshot: add --deep")
    options = DeepOptions(client_reports=clients, groups=tuple(group or ())) if deep else None
    taken = take_snapshot(namesrv, options)
    tables = TABLES if deep else SHALLOW
    if format is Format.json:
        rows = {name: list(taken.records(name)) for name in tables}
        typer.echo(to_json({"snapshot": taken.header(), **rows}))
        return
    header = taken.header()
    for name in (
        "snapshot_id",
        "status",
        "transport",
        "brokers_answered",
        "brokers_expected",
        "duration_ms",
    ):
        typer.echo(f"{name:18} {header[name]}")
    for name in tables:
        typer.echo(f"{name:18} {len(getattr(taken, name))} rows")
    columns = ("broker", "broker_id", "address", "version", "role")
    print_rows(taken.records("brokers"), columns, nothing="No broker is known.")
