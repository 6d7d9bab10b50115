"""`tidemark snapshot`: one look at a cluster, printed."""

import typer

from rocketmq.rows import TABLES
from tidemark.looking import NamesrvOption, look
from tidemark.output import Format, print_rows, to_json

app = typer.Typer()


@app.command()
def snapshot(namesrv: NamesrvOption = "", format: Format = Format.table) -> None:
    """Take one snapshot of a cluster and print it, with the column names of raw.*."""
    taken = look(namesrv)
    if format is Format.json:
        rows = {name: list(taken.records(name)) for name in TABLES}
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
    for name in TABLES:
        typer.echo(f"{name:18} {len(getattr(taken, name))} rows")
    print_rows(taken.records("brokers"), ("broker", "broker_id", "address", "version", "role"))
