"""`tidemark snapshot`: one look at a cluster, printed."""

from typing import Annotated

import typer

from rocketmq.deep.options import DeepOptions
from rocketmq.rows import SHALLOW, TABLES
from tidemark.looking import NamesrvOption, look
from tidemark.output import Format, print_rows, to_json

app = typer.Typer()


@app.command()
def snapshot(
    namesrv: NamesrvOption = "",
    format: Format = Format.table,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also ask client by client and counter by counter.")
    ] = False,
    clients: Annotated[
        bool, typer.Option(help="With --deep: ask the clients of groups that lag.")
    ] = True,
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="With --deep: ask the clients of this group in any case. One that never "
            "committed a queue then commits 0. May be repeated."
        ),
    ] = None,
) -> None:
    """Take one snapshot of a cluster and print it, with the column names of raw.*."""
    if not deep and (group or not clients):
        raise typer.BadParameter("--group and --no-clients say how to look deep: add --deep")
    options = DeepOptions(ask_clients=clients, groups=tuple(group or ())) if deep else None
    taken = look(namesrv, options)
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
    print_rows(taken.records("brokers"), ("broker", "broker_id", "address", "version", "role"))
