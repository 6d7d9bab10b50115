"""`tidemark objectives`: whether objectives were met in a month."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.invocation import invocation
from tidemark.cli.output import Format, echo, print_rows, to_json

app = typer.Typer()

COLUMNS = (
    *("consumer_group", "topic", "objective", "met", "good", "bad", "unknown", "allowed"),
    *("longest_breach", "counted_since"),
)


@app.command()
def objectives(
    month: Annotated[str, typer.Option("--month", help="The month, 2026-10; else this one.")] = "",
    format: Format = Format.table,
) -> None:
    """Print the statement of a month: good, bad and unknown minutes of each objective.

    An objective is met where its bad, unknown and coming minutes are at most the allowed ones, and
    missed where its bad minutes are more. A dash = the unknown or coming minutes decide.
    """
    from tidemark.lake.typed_rows import dict_rows
    from tidemark.planning.objectives import MONTH, month_of, statements
    from tidemark.settings.objectives import read

    now = datetime.now(UTC)
    name = month or f"{now:{MONTH}}"
    try:
        window = month_of(name)
    except ValueError as error:
        raise typer.BadParameter(f"--month: {error}") from None
    # Hours that are counted stay when the file changes, so its mistakes are no reason to end here.
    file = invocation().settings.objectives_file
    declared, mistakes = read(file.path, required=file.required)
    for mistake in mistakes:
        echo(mistake, err=True)
    rows = dict_rows(statements(invocation().lake, window, now).sort_by("consumer_group"))
    # Missed ones come first, then those that are not decided.
    rows.sort(key=lambda row: (row["met"] is not False, row["met"] is True, -row["bad"]))
    if format is Format.json:
        typer.echo(to_json(rows))
        return
    several = len({row["cluster"] for row in rows}) > 1
    nothing = f"No minute of an objective is counted in {name}."
    if not declared and not mistakes:
        nothing += f" None is declared in {file.path}."
    columns = ("cluster", *COLUMNS) if several else COLUMNS
    print_rows(rows, columns, nothing=invocation().nothing(nothing))
