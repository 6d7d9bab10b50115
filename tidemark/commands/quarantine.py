"""`tidemark quarantine`: what was set aside, why, and what a person says of it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidemark.errors import CommandError
from tidemark.output import Format, print_rows, table_text, to_json
from tidemark.person import me

app = typer.Typer(no_args_is_help=True, help="Quarantine: list, show, release, drop, undo.")

LISTED = ("row_id", "observed_at", "table", "reason", "key")
DECIDED = (*LISTED, "decision", "author", "comment", "decided_at")

RowId = Annotated[str, typer.Argument(metavar="ID", help="As `list` prints it, or how it begins.")]
RowIds = Annotated[
    list[str], typer.Argument(metavar="ID...", help="As `list` prints them, or how they begin.")
]
Author = Annotated[str, typer.Option(help="Who decides.")]


@app.command("list")
def list_rows(
    table: Annotated[str, typer.Option(help="Of one table, e.g. raw.queue_offsets.")] = "",
    decided: Annotated[bool, typer.Option("--decided", help="Those decided on instead.")] = False,
    limit: Annotated[int, typer.Option(help="Rows at most.", min=0)] = 100,
    format: Format = Format.table,
) -> None:
    """Print rows that cannot be measurements and that nobody has decided on, newest first."""
    from lake.decisions import decisions, set_aside
    from lake.tables import raw

    names = [each.name for each in raw.ALL]
    if table and table not in names:
        raise typer.BadParameter(f"no table {table!r}; there are {', '.join(names)}")
    lake = _lake()
    settled = {each.row_id: each for each in decisions(lake)}
    waiting = {each.row_id: each for each in set_aside(lake) if each.row_id not in settled}
    found = list((settled if decided else waiting).values())
    found.sort(key=lambda each: each.observed_at, reverse=True)
    rows = [_row(each) for each in found if table in ("", each.table)][:limit]
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        print_rows(rows, DECIDED if decided else LISTED)


@app.command()
def show(row_id: RowId, format: Format = Format.table) -> None:
    """Print one row: what it breaks, all of its columns, and others with its key."""
    from assets import quality_settings
    from expectations.rules import KEY_UNIQUE
    from lake.decisions import Decision

    lake = _lake()
    row = _one(_known(lake), row_id)
    settings, _ = quality_settings.read(quality_settings.settings_path(lake.home))
    broken = [
        {"rule": rule.name, "expected": rule.expected, "severity": rule.severity}
        for rule in quality_settings.suites(settings)[row.table]
        if rule.name in row.rules
    ]
    same = _same_key(lake, row) if KEY_UNIQUE in row.rules else []
    if format is Format.json:
        typer.echo(to_json(_row(row) | {"row": row.columns, "broken": broken, "same_key": same}))
        return
    typer.echo(f"{row.row_id} of {row.table}")
    for each in broken:
        typer.echo(f"Breaks {each['rule']}: {each['expected']} ({each['severity']})")
    if isinstance(row, Decision):
        typer.echo(_said(row))
    typer.echo(to_json(row.columns, indent=2))
    if same:
        names = [name for name in row.columns if name not in row.key]
        typer.echo("\n" + table_text(same, names, "All rows with its key"))


@app.command()
def release(
    row_ids: RowIds,
    comment: Annotated[str, typer.Option(help="Why it is one.")],
    author: Author = "",
) -> None:
    """Say that rows are measurements: they are computed on, when their hours are again."""
    from lake.decisions import RELEASED, decisions

    lake = _lake()
    known = _known(lake)
    released = [each for each in decisions(lake) if each.decision == RELEASED]
    rows = []
    for row in (_one(known, row_id) for row_id in row_ids):
        why_not = _why_not(lake, row, [*released, *rows])
        if why_not:
            raise CommandError(f"{row.row_id} cannot be released: {why_not}")
        rows.append(row)
    _decide(lake, rows, RELEASED, author, comment)
    _tell_recompute(lake, rows)


@app.command()
def drop(
    row_ids: RowIds,
    comment: Annotated[str, typer.Option(help="Why.")] = "",
    author: Author = "",
) -> None:
    """Say that rows are none, and that nobody wants to see them again."""
    from lake.decisions import DROPPED, RELEASED, decisions

    lake = _lake()
    known = _known(lake)
    rows = [_one(known, row_id) for row_id in row_ids]
    released = {each.row_id for each in decisions(lake) if each.decision == RELEASED}
    _decide(lake, rows, DROPPED, author, comment)
    _tell_recompute(lake, [row for row in rows if row.row_id in released])


@app.command()
def undo(
    row_ids: RowIds,
    comment: Annotated[str, typer.Option(help="Why.")] = "",
    author: Author = "",
) -> None:
    """Take decisions back: the rules alone say again what the rows are."""
    from lake.decisions import UNDONE, decisions

    lake = _lake()
    decided = {each.row_id: each for each in decisions(lake)}
    rows = [_one(decided, row_id, "decided row", "list --decided") for row_id in row_ids]
    _decide(lake, rows, UNDONE, author, comment)
    _tell_recompute(lake, rows)


def _lake() -> Any:
    from lake.catalog import Lake
    from lake.home import Home

    return Lake(Home.of())


def _known(lake: Any) -> dict[str, Any]:
    """By id the rows of the quarantine, and those decided on: these may have left it."""
    from lake.decisions import decisions, set_aside

    return {each.row_id: each for each in (*set_aside(lake), *decisions(lake))}


def _one(
    known: Mapping[str, Any], row_id: str, noun: str = "quarantined row", listed: str = "list"
) -> Any:
    """The row whose id begins so; an error when there is none or more than one."""
    found = [each for name, each in known.items() if name.startswith(row_id)]
    if len(found) != 1:
        what = f"no {noun}" if not found else f"{len(found)} {noun}s"
        raise CommandError(f"{what} with id {row_id!r}: `tidemark quarantine {listed}`")
    return found[0]


def _row(row: Any) -> dict[str, Any]:
    from dataclasses import asdict

    key = {name: value for name, value in row.key.items() if name != "snapshot_id"} or row.key
    text = ", ".join(f"{name}={'-' if value is None else value}" for name, value in key.items())
    return {"row_id": row.row_id, "key": text} | asdict(row)


def _said(row: Any) -> str:
    why = f": {row.comment}" if row.comment else ""
    return f"{row.decision.capitalize()} by {row.author}{why}"


def _same_key(lake: Any, row: Any) -> list[dict[str, Any]]:
    """All raw rows with the key of a row, itself among them."""
    from lake.catalog import all_of, one_of, window_filter
    from lake.tables import TABLES
    from lake.window import Window

    if row.snapshot_id is None:
        return []
    table = TABLES[row.table]
    moment = Window.through(row.observed_at, row.observed_at)
    of_snapshot = one_of("snapshot_id", [row.snapshot_id])
    found = lake.read(table, all_of(window_filter(table, moment), of_snapshot)).to_pylist()
    return [each for each in found if {name: each[name] for name in table.key} == row.key]


def _why_not(lake: Any, row: Any, released: Iterable[Any]) -> str | None:
    """Why a row may not be released, in a few words; None when it may."""
    from expectations.rules import KEY_UNIQUE
    from lake.tables import TABLES

    missing = [name for name in TABLES[row.table].required if row.key[name] is None]
    if missing:
        return f"without {', '.join(missing)} nothing can be computed on it"
    same = _same_key(lake, row)
    if not same:
        return "its raw rows have been removed, nothing can be computed on it any more"
    if row.rules == [KEY_UNIQUE] and all(each == same[0] for each in same):
        return "a row with the same content is computed on already"
    for other in released:
        if (other.table, other.key) == (row.table, row.key) and other.row_id != row.row_id:
            return f"{other.row_id} of the same key is released, undo that first"
    return None


def _decide(lake: Any, rows: Sequence[Any], decision: str, author: str, comment: str) -> None:
    """Writes a decision on rows down, and says it."""
    from lake.tables.quality import DECISIONS

    now = datetime.now(UTC)
    decided = [
        row.decided(decision, author or me(), now, comment or None)
        for row in {row.row_id: row for row in rows}.values()
    ]
    names = DECISIONS.column_names
    lake.append(DECISIONS, [{name: getattr(each, name) for name in names} for each in decided])
    for each in decided:
        typer.echo(f"{each.row_id} {each.table} {_row(each)['key']}: {_said(each).lower()}")


def _tell_recompute(lake: Any, rows: Sequence[Any]) -> None:
    """Says which hours have to be computed again: those of the rows, and what follows from them.

    A rate, a delay and a state of health look at observations before them, as when a snapshot
    lands late.
    """
    if not rows:
        return
    from lake import history
    from lake.window import HOUR, Window

    first = min(row.observed_at for row in rows)
    clusters = {row.columns.get("cluster") for row in rows}
    looks = history.looks(lake, Window(first, max(first, datetime.now(UTC) + HOUR)))
    of_same = (look.observed_at for look in looks if look.cluster in clusters)
    last = max((*of_same, *(row.observed_at for row in rows)))
    hours = Window(first, last).whole_hours(inclusive=True)
    start, end = (f"{each:%Y-%m-%dT%H:%MZ}" for each in (hours.start, hours.end))
    typer.echo(f"Then compute again: tidemark recompute --from {start} --to {end}")
