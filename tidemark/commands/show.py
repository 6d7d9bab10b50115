"""`tidemark show`: rows of any table, without Spark."""

from typing import Annotated

import typer

from tidemark.output import Format, print_rows, to_json

app = typer.Typer()


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="e.g. progress.groups")],
    format: Format = Format.table,
    where: Annotated[str, typer.Option(help='A SQL condition, e.g. "lag > 1000".')] = "",
    limit: Annotated[int, typer.Option(help="Rows at most.", min=0)] = 1000,
) -> None:
    """Print rows of any table, newest first."""
    from lake.catalog import Lake
    from lake.home import Home
    from lake.query import select
    from lake.tables import TABLES

    if name not in TABLES:
        raise typer.BadParameter(f"no table {name!r}; there are {', '.join(sorted(TABLES))}")
    found = select(Lake(Home.of()), TABLES[name], where, limit)
    if format is Format.json:
        typer.echo(to_json(found.to_pylist()))
    else:
        print_rows(found.to_pylist(), found.column_names)
