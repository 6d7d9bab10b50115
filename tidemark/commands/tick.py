"""`tidemark tick`: one tick through the Dagster job, in this process."""

import os
from typing import Annotated, Any

import typer

from tidemark.errors import CommandError
from tidemark.handover import hand_over
from tidemark.looking import NamesrvOption, name_servers
from tidemark.progress import steps

app = typer.Typer()


@app.command()
def tick(
    namesrv: NamesrvOption = "",
    no_collect: Annotated[
        bool, typer.Option("--no-collect", help="Load and compute what is landed.")
    ] = False,
) -> None:
    """Take a snapshot, load it, judge it, compute what is not computed yet, and alert."""
    if not no_collect:
        os.environ["TIDEMARK_NAMESRV"] = ";".join(name_servers(namesrv))
    hand_over()
    from lake.home import Home
    from orchestration import running

    home = Home.of()
    with steps("tick") as report:
        running.tick(home, collect=not no_collect, report=report)
    if not no_collect:
        _fail_if_nothing_was_read(home)


def _fail_if_nothing_was_read(home: Any) -> None:
    """A snapshot of which nothing could be read is a failure, though all was computed from it."""
    from lake.landing import landed

    newest = max(landed(home), default=None)
    if newest is None:
        return
    from lake.loading import StructureError, read_landed

    try:
        header = read_landed(newest)["raw.snapshots"].to_pylist()[0]
    except StructureError as error:
        raise CommandError(f"{newest.snapshot_id}: {error}") from error
    lines = [f"{item['endpoint']}: {item['message']}" for item in header["problems"] or ()]
    if header["status"] == "FAILED":
        raise CommandError(f"snapshot {newest.snapshot_id} failed: {'; '.join(lines[:1])}")
    for line in lines:
        typer.echo(f"{header['status']}: {line}", err=True)
