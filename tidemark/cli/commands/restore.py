"""`tidemark restore`: put a backup back where it was made."""

from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.invocation import invocation, path

app = typer.Typer()


@app.command()
def restore(
    folder: Annotated[
        Path, typer.Argument(parser=path, metavar="DIR", help="As `tidemark backup` made it.")
    ],
) -> None:
    """Put a backup back into an empty home or catalog, at the address where it was made."""
    from tidemark.lake.backup import restore as put_back

    contents = put_back(invocation().lake, folder.absolute(), typer.echo)
    typer.echo(f"{len(contents.tables)} tables put back")
