"""`tidemark backup`, `restore` and `upgrade`: state that is copied, put back and moved forwards."""

from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.invocation import invocation, path
from tidemark.cli.output import complain

app = typer.Typer()


@app.command()
def backup(
    folder: Annotated[
        Path,
        typer.Argument(parser=path, metavar="DIR", help="Where to; may hold an older one."),
    ],
) -> None:
    """Copy the tables, shared state, settings and the embedded size's Dagster storage."""
    from tidemark.lake.backup import backup as copy

    made = copy(
        invocation().lake,
        folder.absolute(),
        typer.echo,
        lambda holder: complain(f"waiting for the run of {holder}"),
    )
    typer.echo(f"{len(made.tables)} tables in {folder}")


restore_app = typer.Typer()


@restore_app.command()
def restore(
    folder: Annotated[
        Path, typer.Argument(parser=path, metavar="DIR", help="As `tidemark backup` made it.")
    ],
) -> None:
    """Put a backup back into an empty home or catalog, at the address where it was made."""
    from tidemark.lake.backup import restore as put_back

    contents = put_back(invocation().lake, folder.absolute(), typer.echo)
    typer.echo(f"{len(contents.tables)} tables put back")


upgrade_app = typer.Typer()


@upgrade_app.command()
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
