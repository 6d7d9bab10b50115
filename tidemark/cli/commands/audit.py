"""`tidemark audit`: what people did, and accesses that were refused."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from tidemark.cli.invocation import invocation
from tidemark.cli.output import Format, print_rows, to_json
from tidemark.model.incidents import ActionKind

app = typer.Typer()

COLUMNS = ("at", "author", "action", "on", "reason", "requests")


@app.command()
def audit(
    days: Annotated[int, typer.Option(help="Of so many days, until now.", min=1, max=90)] = 30,
    person: Annotated[str, typer.Option(help="Only of this person.")] = "",
    action: Annotated[
        ActionKind | None, typer.Option(help="Only of this kind; refused ones only so.")
    ] = None,
    cluster: Annotated[str, typer.Option(help="Only on this cluster.")] = "",
    group: Annotated[str, typer.Option(help="Only on this consumer group.")] = "",
    limit: Annotated[int, typer.Option(help="Most actions to print.", min=1)] = 100,
    format: Format = Format.table,
) -> None:
    """Print what people did, the newest first: who, when, on what and why.

    Accesses that the board refused are counted by hour; --action refused prints them.
    """
    from tidemark.alerting.audit_trail import sources_of, trail
    from tidemark.lake.clocks import MICROSECOND, Window
    from tidemark.lake.typed_rows import dict_rows

    now = datetime.now(UTC)
    window = Window(now - timedelta(days=days), now + MICROSECOND)
    wanted = {"author": person, "action": action, "cluster": cluster, "consumer_group": group}
    rows = [
        row
        for row in dict_rows(trail(sources_of(invocation().lake, window), window))
        if (action or row["action"] != ActionKind.REFUSED)
        and all(row[name] == value for name, value in wanted.items() if value)
    ]
    if format is Format.json:
        typer.echo(to_json(rows[:limit]))
        return
    nothing = invocation().nothing("Nobody did anything that fits in this time.")
    print_rows([row | {"on": _about(row)} for row in rows[:limit]], COLUMNS, nothing=nothing)
    if len(rows) > limit:
        typer.echo(f"{len(rows) - limit:,} more: --limit {len(rows)}")


def _about(row: dict[str, Any]) -> str:
    """Return what an action was about, as a person reads it."""
    group = " ".join(row[name] for name in ("consumer_group", "topic") if row[name])
    about = row["subject"] or group or "everything"
    return f"{about} ({row['rows']:,} rows)" if (row["rows"] or 1) > 1 else about
