"""`tidemark snapshot`: one snapshot of a cluster, printed and not stored."""

from typing import Annotated

import typer

from tidemark.cli.invocation import NamesrvOption
from tidemark.cli.output import Format, print_rows, to_json
from tidemark.cli.snapshot_command import take_snapshot
from tidemark.rocketmq.records import SHALLOW, TABLES
from tidemark.rocketmq.snapshot.target import DeepOptions

app = typer.Typer()


@app.command()
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
