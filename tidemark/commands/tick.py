"""`tidemark tick`: one tick through the Dagster job, in this process."""

import os
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidemark.errors import CommandError
from tidemark.handover import hand_over
from tidemark.looking import NamesrvOption, clusters, name_servers
from tidemark.progress import complain, steps

app = typer.Typer()


@app.command()
def tick(
    namesrv: NamesrvOption = "",
    no_collect: Annotated[
        bool, typer.Option("--no-collect", help="Load and compute what is landed.")
    ] = False,
) -> None:
    """Take a snapshot, load it, judge it, compute what is not computed yet, and alert."""
    from lake.home import Home

    home = Home.of()
    if not no_collect:
        if namesrv.strip():
            os.environ["TIDEMARK_NAMESRV"] = ";".join(name_servers(namesrv))
        clusters(home, namesrv)
    hand_over()
    from orchestration import running

    started = datetime.now(UTC)
    with steps("tick") as report:
        running.tick(home, collect=not no_collect, report=report, complain=complain)
    if not no_collect:
        _fail_if_nothing_was_read(home, started)


def _fail_if_nothing_was_read(home: Any, started: datetime) -> None:
    """Snapshots of which nothing could be read are a failure, though all was computed from them."""
    from lake.landing import landed
    from lake.loading import StructureError, read_landed

    headers = []
    for newest in sorted(found for found in landed(home) if found.observed_at >= started):
        try:
            headers.append(read_landed(newest)["raw.snapshots"].to_pylist()[0])
        except StructureError as error:
            raise CommandError(f"{newest.snapshot_id}: {error}") from error
    lines = [
        f"{header['status']}: {header['cluster']}: {item['endpoint']}: {item['message']}"
        for header in headers
        for item in header["problems"] or ()
    ]
    if headers and all(header["status"] == "FAILED" for header in headers):
        raise CommandError(f"nothing could be read: {lines[0]}")
    for line in lines:
        typer.echo(line, err=True)
