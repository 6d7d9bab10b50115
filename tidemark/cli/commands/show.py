"""`tidemark show`: rows of any table, read without Spark."""

from typing import Annotated

import typer

from tidemark.cli.invocation import invocation
from tidemark.cli.output import Format, print_rows, to_json
from tidemark.embedded.light_process import keeping_garbage

app = typer.Typer()

MOST = 2**63 - 1
"""The largest limit that SQL allows."""


@app.command()
@keeping_garbage()
def show(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="e.g. progress.groups")],
    format: Format = Format.table,
    where: Annotated[str, typer.Option(help='A SQL condition, e.g. "lag > 1000".')] = "",
    limit: Annotated[int, typer.Option(help="Number of rows at most.", min=0, max=MOST)] = 1000,
) -> None:
    """Print rows of any table, newest first."""
    from tidemark.lake.query import select
    from tidemark.lake.tables import TABLES
    from tidemark.lake.typed_rows import dict_rows

    if name not in TABLES:
        raise typer.BadParameter(f"no table {name!r}; the tables are {', '.join(sorted(TABLES))}")
    selected = select(invocation().lake, TABLES[name], where, limit)
    if format is Format.json:
        typer.echo(to_json(dict_rows(selected)))
    else:
        print_rows(dict_rows(selected), selected.column_names)
