"""`tidemark tick`: one run that collects, loads and computes all pending snapshots."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidemark.cli.errors import CommandError
from tidemark.cli.invocation import NamesrvOption, hand_over, invocation
from tidemark.model.snapshots import SnapshotStatus

app = typer.Typer()


@app.command()
def tick(
    namesrv: NamesrvOption = "",
    no_collect: Annotated[
        bool, typer.Option("--no-collect", help="Load and compute what is landed.")
    ] = False,
) -> None:
    """Take a snapshot, load it, validate it, compute what is pending, and alert."""
    hand_over()
    from tidemark.cli.output import complain, steps
    from tidemark.cli.snapshot_command import clusters, name_servers

    if not no_collect:
        clusters(invocation().home, namesrv)
    from orchestration import in_process

    settings, started = invocation().settings, datetime.now(UTC)
    if namesrv.strip():
        settings = settings.model_copy(update={"namesrv": ";".join(name_servers(namesrv))})
    with steps("tick") as report:
        in_process.tick(settings, collect=not no_collect, report=report, complain=complain)
    if not no_collect:
        _fail_if_nothing_was_read(invocation().landing, started)


def _fail_if_nothing_was_read(landing: Any, started: datetime) -> None:
    """Fail when no snapshot of this tick could be read.

    Raises:
        CommandError: all of them failed.
    """
    from tidemark.lake.landing import landed
    from tidemark.lake.loading import StructureError, read_landed

    headers = []
    for newest in sorted(landed(landing, since=started)):
        try:
            headers.append(read_landed(newest)["raw.snapshots"].to_pylist()[0])
        except StructureError as error:
            raise CommandError(f"{newest.snapshot_id}: {error}") from error
    lines = [
        f"{header['status']}: {header['cluster']}: {item['endpoint']}: {item['message']}"
        for header in headers
        for item in header["problems"] or ()
    ]
    if headers and all(header["status"] == SnapshotStatus.FAILED for header in headers):
        raise CommandError(f"nothing could be read: {lines[0]}")
    for line in lines:
        typer.echo(line, err=True)
