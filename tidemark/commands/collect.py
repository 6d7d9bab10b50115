"""`tidemark collect`: land snapshots, and nothing more."""

import asyncio
from typing import Annotated

import typer

from tidemark.errors import CommandError
from tidemark.looking import NamesrvOption, clusters, problem_lines

app = typer.Typer()


@app.command()
def collect(
    namesrv: NamesrvOption = "",
    every: Annotated[
        str, typer.Option(metavar="SPAN", help="Again and again, e.g. 10s or 1m; once without.")
    ] = "",
) -> None:
    """Take a snapshot of every configured cluster and land it; the next tick loads it."""
    from lake.home import Home

    home = Home.of()
    chosen = clusters(home, namesrv)
    span = _seconds(every) if every else None
    if span is not None:
        from tidemark.collecting import collect_every

        asyncio.run(collect_every(home, chosen, span, typer.echo, _complain))
        return
    from lake.landing import land
    from lake.looks import look_at_all
    from tidemark.collecting import snapshot_line

    snapshots = look_at_all(home, chosen)
    for snapshot in snapshots:
        land(home, snapshot)
        typer.echo(snapshot_line(snapshot))
    if all(snapshot.status == "FAILED" for snapshot in snapshots):
        first = snapshots[0]
        raise CommandError(f"nothing could be read: {first.cluster}: {problem_lines(first)[0]}")


def _seconds(every: str) -> float:
    from lake.clusters import SHORTEST, seconds

    try:
        span = seconds(every)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if span < SHORTEST:
        raise typer.BadParameter(f"{every!r} is too short: {SHORTEST:g}s at least")
    return span


def _complain(line: str) -> None:
    typer.echo(line, err=True)
