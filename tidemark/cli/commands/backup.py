"""`tidemark backup`: copy everything that cannot be computed again."""

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
