"""`tidemark quarantine`: list quarantined rows, and decide on them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tidemark.cli.errors import CommandError
from tidemark.cli.invocation import invocation
from tidemark.cli.options import me
from tidemark.cli.output import Format, echo, print_rows, table_text, to_json

if TYPE_CHECKING:
    from tidemark.lake.catalog import Lake
    from tidemark.lake.decisions import Decision, QuarantinedRow

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
    from tidemark.lake.decisions import decisions, quarantined_rows
    from tidemark.lake.tables import raw

    names = [table.name for table in raw.ALL]
    if table and table not in names:
        raise typer.BadParameter(f"no table {table!r}; there are {', '.join(names)}")
    lake = _lake()
    settled = {decision.row_id: decision for decision in decisions(lake)}
    waiting = {
        quarantined_row.row_id: quarantined_row
        for quarantined_row in quarantined_rows(lake)
        if quarantined_row.row_id not in settled
    }
    result = list((settled if decided else waiting).values())
    result.sort(key=lambda quarantined_row: quarantined_row.observed_at, reverse=True)
    rows = [
        _row(quarantined_row) for quarantined_row in result if table in ("", quarantined_row.table)
    ][:limit]
    if format is Format.json:
        echo(to_json(rows))
    else:
        print_rows(rows, DECIDED if decided else LISTED)


@app.command()
def show(row_id: RowId, format: Format = Format.table) -> None:
    """Print one row: the expectations it violates, its columns, and rows with the same key."""
    from expectations import tolerances
    from expectations.declarations import KEY_UNIQUE
    from tidemark.lake.decisions import Decision

    lake = _lake()
    row = _one(_known(lake), row_id)
    file = invocation().settings.quality_file
    settings, _ = tolerances.read(file.path, required=file.required)
    broken = [
        {"rule": rule.name, "expected": rule.expected, "severity": rule.severity}
        for rule in tolerances.suites(settings)[row.table]
        if rule.name in row.rules
    ]
    same = _same_key(lake, row) if KEY_UNIQUE in row.rules else []
    if format is Format.json:
        echo(to_json(_row(row) | {"row": row.columns, "broken": broken, "same_key": same}))
        return
    echo(f"{row.row_id} of {row.table}")
    for expectation in broken:
        rule, severity = expectation["rule"], expectation["severity"]
        echo(f"Violates {rule} ({severity}): expected are {expectation['expected']}")
    if isinstance(row, Decision):
        echo(_decision_text(row))
    echo(to_json(row.columns, indent=2))
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
    from tidemark.lake.decisions import RELEASED, decisions

    lake = _lake()
    known = _known(lake)
    released = [decision for decision in decisions(lake) if decision.decision == RELEASED]
    rows = []
    for row in (_one(known, row_id) for row_id in row_ids):
        why_not = _why_not(lake, row, [*released, *rows])
        if why_not:
            raise CommandError(f"{row.row_id} cannot be released: {why_not}")
        rows.append(row)
    _decide(lake, rows, RELEASED, author, comment)
    _print_recompute(lake, rows)


@app.command()
def drop(
    row_ids: RowIds,
    comment: Annotated[str, typer.Option(help="Why.")] = "",
    author: Author = "",
) -> None:
    """Mark rows as invalid for good, so that `list` no longer prints them."""
    from tidemark.lake.decisions import DROPPED, RELEASED, decisions

    lake = _lake()
    known = _known(lake)
    rows = [_one(known, row_id) for row_id in row_ids]
    released = {decision.row_id for decision in decisions(lake) if decision.decision == RELEASED}
    _decide(lake, rows, DROPPED, author, comment)
    _print_recompute(lake, [row for row in rows if row.row_id in released])


@app.command()
def undo(
    row_ids: RowIds,
    comment: Annotated[str, typer.Option(help="Why.")] = "",
    author: Author = "",
) -> None:
    """Undo decisions, so that the expectations alone decide again."""
    from tidemark.lake.decisions import UNDONE, decisions

    lake = _lake()
    decided = {decision.row_id: decision for decision in decisions(lake)}
    rows = [_one(decided, row_id, "decided row", "list --decided") for row_id in row_ids]
    _decide(lake, rows, UNDONE, author, comment)
    _print_recompute(lake, rows)


def _lake() -> "Lake":
    return invocation().lake


def _known(lake: "Lake") -> dict[str, "QuarantinedRow"]:
    """Return quarantined rows and rows with a decision by id; the latter may have left."""
    from tidemark.lake.decisions import decisions, quarantined_rows

    return {
        quarantined_row.row_id: quarantined_row
        for quarantined_row in (*quarantined_rows(lake), *decisions(lake))
    }


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

    key = {name: value for name, value in row.key.items() if name != "snapshot_id"} or row.key
    text = ", ".join(f"{name}={'-' if value is None else value}" for name, value in key.items())
    return {"row_id": row.row_id, "key": text} | asdict(row)


def _decision_text(row: "Decision") -> str:
    why = f": {row.comment}" if row.comment else ""
    return f"{row.decision.capitalize()} by {row.author}{why}"


def _same_key(lake: "Lake", row: "QuarantinedRow") -> list[dict[str, Any]]:
    """Return all raw rows with the key of a row, including itself."""
    from tidemark.lake.clocks import Window
    from tidemark.lake.schema import all_of, one_of, window_filter
    from tidemark.lake.tables import TABLES
    from tidemark.lake.typed_rows import dict_rows

    if row.snapshot_id is None:
        return []
    table = TABLES[row.table]
    moment = Window.through(row.observed_at, row.observed_at)
    of_snapshot = one_of("snapshot_id", [row.snapshot_id])
    result = lake.read(table, all_of(window_filter(table, moment), of_snapshot))
    return [
        dict_row
        for dict_row in dict_rows(result)
        if {name: dict_row[name] for name in table.key} == row.key
    ]


def _why_not(
    lake: "Lake", row: "QuarantinedRow", released: Iterable["QuarantinedRow"]
) -> str | None:
    """Return in a few words why a row may not be released; None when it may."""
    from expectations.declarations import KEY_UNIQUE
    from tidemark.lake.tables import TABLES

    missing = [name for name in TABLES[row.table].required if row.key[name] is None]
    if missing:
        return f"without {', '.join(missing)} nothing can be computed on it"
    same = _same_key(lake, row)
    if not same:
        return "its raw rows have been removed, nothing can be computed from it any more"
    if row.rules == [KEY_UNIQUE] and all(row == same[0] for row in same):
        return "a row with the same content is computed on already"
    for other in released:
        if (other.table, other.key) == (row.table, row.key) and other.row_id != row.row_id:
            return f"{other.row_id} of the same key is released, undo that first"
    return None


def _decide(
    lake: "Lake", rows: Sequence["QuarantinedRow"], decision: str, author: str, comment: str
) -> None:
    """Record a decision on rows and print it."""
    from tidemark.lake.tables.quality import DECISIONS

    now = datetime.now(UTC)
    decided = [
        row.decided(decision, author or me(), now, comment or None)
        for row in {row.row_id: row for row in rows}.values()
    ]
    names = DECISIONS.column_names
    lake.append(
        DECISIONS, [{name: getattr(decision, name) for name in names} for decision in decided]
    )
    for item in decided:
        echo(f"{item.row_id} {item.table} {_row(item)['key']}: {_decision_text(item).lower()}")


def _print_recompute(lake: "Lake", rows: Sequence["QuarantinedRow"]) -> None:
    """Print which hours to compute again: those of the rows, and the later ones.

    Rates, delays and health depend on earlier observations, as when a snapshot lands late.
    """
    if not rows:
        return
    from tidemark.lake.clocks import HOUR, Window
    from tidemark.planning import history

    first = min(row.observed_at for row in rows)
    clusters = {row.columns.get("cluster") for row in rows}
    loaded = history.loaded_snapshots(lake, Window(first, max(first, datetime.now(UTC) + HOUR)))
    of_same = (snapshot.observed_at for snapshot in loaded if snapshot.cluster in clusters)
    last = max((*of_same, *(row.observed_at for row in rows)))
    hours = Window(first, last).whole_hours(inclusive=True)
    start, end = (f"{value:%Y-%m-%dT%H:%MZ}" for value in (hours.start, hours.end))
    echo(f"Then compute again: tidemark recompute --from {start} --to {end}")
