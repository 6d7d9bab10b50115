"""`tidemark upgrade`: move the tables of an older program to this one."""

from typing import Annotated

import typer

from tidemark.cli.invocation import invocation
from tidemark.cli.output import complain

app = typer.Typer()


@app.command()
def upgrade(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")
    ] = False,
) -> None:
    """Move the tables of an older program to this one; a tick does the same at its start."""
    from tidemark.lake.upgrading import left_to_do
    from tidemark.lake.upgrading import upgrade as move

    lake = invocation().lake
    if dry_run:
        lines = left_to_do(lake)
        for line in lines:
            typer.echo(line)
        typer.echo(f"{len(lines)} changes to make" if lines else "nothing to do")
        return
    done = move(lake, typer.echo, lambda holder: complain(f"waiting for the run of {holder}"))
    typer.echo(f"{done} changes made" if done else "nothing to do")
