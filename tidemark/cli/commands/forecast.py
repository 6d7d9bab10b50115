"""`tidemark forecast`: when groups are drained, messages expire and disks are full."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidemark.cli.invocation import CommandError, invocation
from tidemark.cli.output import Format, duration, print_rows, to_json
from tidemark.model.forecasts import ForecastKind, NoForecast

app = typer.Typer()

COLUMNS = ("subject", "forecast", "from", "to", "basis", "reason")

HAPPENS = {
    ForecastKind.DRAIN: "nothing waits",
    ForecastKind.LOSS: "messages expire unread",
    ForecastKind.DISK_FULL: "the disk refuses messages",
}

REASONS = {
    NoForecast.UNKNOWN: "the newest number is unknown",
    NoForecast.BOUND: "the newest number is a bound",
    NoForecast.REACHED: "it is so already",
    NoForecast.TOO_FEW: "too few observations",
    NoForecast.MOVES_AWAY: "it does not move there",
    NoForecast.TOO_WIDE: "the interval is too wide",
}


@app.command()
def forecast(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Of one group or broker only.")
    ] = "",
    all_rows: Annotated[
        bool, typer.Option("--all", help="Also those that state nothing, with the reason.")
    ] = False,
    format: Format = Format.table,
) -> None:
    """Show the time from the newest observation until something happens, the nearest first.

    A forecast is an interval that holds the time in nine of ten cases, if it goes on as in the last
    hours. Of one NAME, those that state nothing are shown too.
    """
    from tidemark.board.trends import read_forecasts

    rows = read_forecasts(invocation().lake, datetime.now(UTC))
    if name:
        rows = [row for row in rows if name in (row["consumer_group"], row["broker"])]
        if not rows:
            raise CommandError(
                f"no group or broker {name!r} in the newest snapshots: tidemark forecast --all"
            )
    elif not all_rows:
        rows = [row for row in rows if row["reason"] is None]
    rows.sort(key=lambda row: (row["reason"] is not None, row["estimate"] or 0))
    if format is Format.json:
        typer.echo(to_json(rows))
        return
    several = len({row["cluster"] for row in rows}) > 1
    nothing = invocation().nothing("No forecast states anything: --all names the reasons.")
    columns = ("cluster", *COLUMNS) if several else COLUMNS
    print_rows([_worded(row) for row in rows], columns, nothing=nothing)


def _worded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a forecast as a person reads it."""
    parts = (row["consumer_group"], row["topic"], row["broker"], row["address"])
    return {
        "cluster": row["cluster"],
        "subject": " ".join(part for part in parts if part),
        "forecast": HAPPENS[row["forecast"]],
        "from": _time(row["low"]),
        "to": _time(row["high"]),
        "basis": _time(row["basis"]),
        "reason": row["reason"] and REASONS[row["reason"]],
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else duration(round(seconds * 1000))
