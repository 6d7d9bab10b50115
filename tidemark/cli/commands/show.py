"""`tidemark show`: rows of any table, read without Spark."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from tidemark.cli.invocation import invocation, keeping_garbage
from tidemark.cli.output import WIDEST, Format, echo, print_rows, to_json
from tidemark.model.spelling import did_you_mean

app = typer.Typer()

MOST = 2**63 - 1
"""The largest limit that SQL allows."""

CHOSEN = {
    "progress.groups": (
        *("consumer_group", "topic", "health", "lag", "delay_ms", "consume_tps", "produce_tps"),
        *("clients", "inflight", "lost", "observed_at"),
    ),
    "progress.queues": (
        *("consumer_group", "topic", "broker", "queue_id", "condition", "lag", "delay_ms"),
        *("consumer_offset", "max_offset", "lost", "observed_at"),
    ),
    "progress.topics": (
        *("topic", "messages", "produce_tps", "unreadable_messages", "unreadable_reason"),
        *("oldest_at", "observed_at"),
    ),
    "progress.events": (
        *("observed_at", "kind", "consumer_group", "topic", "broker", "queue_id", "messages"),
        "likely_cause",
    ),
    "alerting.incidents": (
        *("incident_id", "state", "severity", "rule", "subject", "opened_at", "last_value"),
        *("peak_value", "threshold"),
    ),
    "raw.brokers": (
        *("broker", "broker_id", "role", "address", "version", "put_tps", "get_tps"),
        *("disk_ratio", "observed_at"),
    ),
    "raw.snapshots": (
        *("cluster", "observed_at", "status", "brokers_answered", "brokers_expected"),
        *("requests", "duration_ms", "snapshot_id"),
    ),
    "quality.results": (
        *("observed_at", "table", "expectation", "success", "elements"),
        *("unexpected", "severity"),
    ),
}
"""The columns that a person reads, the most important first; of other tables all."""


@app.command()
@keeping_garbage()
def show(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="e.g. progress.groups")],
    format: Format = Format.table,
    where: Annotated[str, typer.Option(help='A SQL condition, e.g. "lag > 1000".')] = "",
    limit: Annotated[int, typer.Option(help="Number of rows at most.", min=0, max=MOST)] = 1000,
    columns: Annotated[
        str, typer.Option(help="Columns to print, e.g. consumer_group,lag; else chosen ones.")
    ] = "",
    wide: Annotated[
        bool, typer.Option("--wide", help="All columns, however wide the terminal is.")
    ] = False,
) -> None:
    """Print rows of any table, newest first."""
    from tidemark.lake.query import select
    from tidemark.lake.tables import TABLES
    from tidemark.lake.typed_rows import dict_rows

    if name not in TABLES:
        meant = did_you_mean(name, TABLES) or f"; the tables are {', '.join(sorted(TABLES))}"
        raise typer.BadParameter(f"no table {name!r}{meant}")
    known = TABLES[name].column_names
    named = _named(columns, known)
    selected = select(invocation().lake, TABLES[name], where, limit)
    rows = dict_rows(selected)
    if format is Format.json:
        named = named or known
        typer.echo(to_json([{column: row[column] for column in named} for row in rows]))
        return
    shown = named or (known if wide else _chosen(name, known, rows))
    fits = " of that condition" if where else ""
    nothing = invocation().nothing(f"{name} has no row{fits}.")
    print_rows(rows, shown, nothing=nothing, width=WIDEST if wide else None)
    if rows and not named and len(shown) < len(known):
        echo(f"{len(known) - len(shown)} more columns: --wide, or --columns NAME,NAME")


def _chosen(name: str, known: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Sequence[str]:
    """Return the columns that a person reads, with the cluster where rows are of several."""
    chosen = CHOSEN.get(name, known)
    several = len({row.get("cluster") for row in rows}) > 1
    return ("cluster", *chosen) if several and "cluster" not in chosen else chosen


def _named(columns: str, known: Iterable[str]) -> Sequence[str]:
    """Return the columns of a list of names.

    Raises:
        BadParameter: the table has no such column.
    """
    named = [column.strip() for column in columns.split(",") if column.strip()]
    for column in named:
        if column not in known:
            meant = did_you_mean(column, known) or f"; the columns are {', '.join(known)}"
            raise typer.BadParameter(f"--columns: no column {column!r}{meant}")
    return named
