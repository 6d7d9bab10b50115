"""`tidemark quarantine`: list quarantined rows, and decide on them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tidemark.cli.invocation import CommandError, invocation, me
from tidemark.cli.output import Format, echo, print_rows, table_text, to_json
from tidemark.model.spelling import did_you_mean

if TYPE_CHECKING:
    from tidemark.lake.catalog import Lake
    from tidemark.planning.quarantine_decisions import Decision, QuarantinedRow

Row = TypeVar("Row", bound="QuarantinedRow")

app = typer.Typer(no_args_is_help=True, help="Quarantine: list, show, release, drop, undo.")

LISTED = ("row_id", "observed_at", "table", "reason", "key")
DECIDED = (*LISTED, "decision", "author", "comment", "decided_at")

RowId = Annotated[str, typer.Argument(metavar="ID", help="Row id, or its first characters.")]
RowIds = Annotated[
    list[str],
    typer.Argument(metavar="ID...", help="Row ids, or their first characters."),
]
Author = Annotated[str, typer.Option(help="Who decides.")]


@app.command("list")
def list_rows(
    table: Annotated[str, typer.Option(help="Only this table, e.g. raw.queue_offsets.")] = "",
    decided: Annotated[bool, typer.Option("--decided", help="Decided rows instead.")] = False,
    limit: Annotated[int, typer.Option(help="Most rows to print.", min=0)] = 100,
    format: Format = Format.table,
) -> None:
    """Print quarantined rows without a decision, newest first."""
    from tidemark.lake.tables import raw
    from tidemark.planning.quarantine_decisions import decided_rows, quarantined_rows, waiting_rows

    names = [table.name for table in raw.ALL]
    if table and table not in names:
        meant = did_you_mean(table, names) or f"; there are {', '.join(names)}"
        raise typer.BadParameter(f"no table {table!r}{meant}")
    lake = _lake()
    settled = decided_rows(lake)
    result = list(settled.values()) if decided else waiting_rows(quarantined_rows(lake), settled)
    result.sort(key=lambda quarantined_row: quarantined_row.observed_at, reverse=True)
    rows = [
        _row(quarantined_row) for quarantined_row in result if table in ("", quarantined_row.table)
    ][:limit]
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        print_rows(
            rows,
            DECIDED if decided else LISTED,
            nothing=invocation().nothing(
                "Nobody has decided on a row." if decided else "No row waits in quarantine."
            ),
        )


@app.command()
def show(row_id: RowId, format: Format = Format.table) -> None:
    """Print one row: the expectations it violates, its columns, and rows with the same key."""
    from expectations import tolerances
    from tidemark.planning.quarantine_decisions import KEY_UNIQUE, Decision, known_rows, rows_of_key

    lake = _lake()
    row = _one(known_rows(lake), row_id)
    file = invocation().settings.quality_file
    settings, _ = tolerances.read(file.path, required=file.required)
    broken = [
        {"rule": rule.name, "expected": rule.expected, "severity": rule.severity}
        for rule in tolerances.suites(settings)[row.table]
        if rule.name in row.rules
    ]
    same = rows_of_key(lake, row) if KEY_UNIQUE in row.rules else []
    if format is Format.json:
        typer.echo(to_json(_row(row) | {"row": row.columns, "broken": broken, "same_key": same}))
        return
    echo(f"{row.row_id} of {row.table}")
    for expectation in broken:
        rule, severity = expectation["rule"], expectation["severity"]
        echo(f"Violates {rule} ({severity}): expected are {expectation['expected']}")
    if isinstance(row, Decision):
        echo(_decision_text(row))
    typer.echo(to_json(row.columns, indent=2))
    if same:
        names = [name for name in row.columns if name not in row.key]
        echo("\n" + table_text(same, names, "All rows with its key"))


@app.command()
def release(
    row_ids: RowIds,
    comment: Annotated[str, typer.Option(help="Why the row is valid.")],
    author: Author = "",
) -> None:
    """Mark rows as valid; they count when their hours are computed again."""
    from tidemark.planning.quarantine_decisions import RELEASED, known_rows

    lake = _lake()
    known = known_rows(lake)
    _decide(lake, [_one(known, row_id) for row_id in row_ids], RELEASED, author, comment)


@app.command()
def drop(
    row_ids: RowIds,
    comment: Annotated[str, typer.Option(help="Why.")] = "",
    author: Author = "",
) -> None:
    """Mark rows as invalid for good, so that `list` no longer prints them."""
    from tidemark.planning.quarantine_decisions import DROPPED, known_rows

    lake = _lake()
    known = known_rows(lake)
    _decide(lake, [_one(known, row_id) for row_id in row_ids], DROPPED, author, comment)


@app.command()
def undo(
    row_ids: RowIds,
    comment: Annotated[str, typer.Option(help="Why.")] = "",
    author: Author = "",
) -> None:
    """Undo decisions, so that the expectations alone decide again."""
    from tidemark.planning.quarantine_decisions import UNDONE, decided_rows

    lake = _lake()
    decided = decided_rows(lake)
    rows = [_one(decided, row_id, "decided row", "list --decided") for row_id in row_ids]
    _decide(lake, rows, UNDONE, author, comment)


def _lake() -> "Lake":
    return invocation().lake


def _one(
    known: Mapping[str, Row], row_id: str, noun: str = "quarantined row", listed: str = "list"
) -> Row:
    """Return the row whose id starts so.

    Raises:
        CommandError: none or more than one does.
    """
    # Every id starts with an empty one, which a variable without a value leaves of a command.
    rows = [row for name, row in known.items() if row_id and name.startswith(row_id)]
    if len(rows) != 1:
        what = f"no {noun}" if not rows else f"{len(rows)} {noun}s"
        raise CommandError(f"{what} with id {row_id!r}: `tidemark quarantine {listed}`")
    return rows[0]


def _row(row: "QuarantinedRow") -> dict[str, Any]:
    from dataclasses import asdict

    return {"row_id": row.row_id, "key": row.key_text} | asdict(row)


def _decision_text(row: "Decision") -> str:
    why = f": {row.comment}" if row.comment else ""
    return f"{row.decision.capitalize()} by {row.author}{why}"


def _decide(
    lake: "Lake", rows: Sequence["QuarantinedRow"], decision: str, author: str, comment: str
) -> None:
    """Record a decision on rows; print it, and how the numbers follow it."""
    from tidemark.planning.quarantine_decisions import DecisionError, decide, recompute_line

    try:
        decided, hours = decide(lake, rows, decision, author or me(), comment)
    except DecisionError as error:
        raise CommandError(str(error)) from error
    for item in decided:
        echo(f"{item.row_id} {item.table} {item.key_text}: {_decision_text(item).lower()}")
    if hours is not None:
        echo(f"Then compute again: {recompute_line(hours)}")
