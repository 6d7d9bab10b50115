"""`tidemark lag`: how far every group has got, now."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from tidemark.lag import group_rows
from tidemark.looking import NamesrvOption, look
from tidemark.output import Format, duration, table, table_text, to_json

app = typer.Typer()

LONGEST_EVERY = 86_400

SHOWN = (
    "consumer_group",
    "topic",
    "lag",
    "delay_ms",
    "queues_unknown",
    "inflight",
    "available",
    "lost",
    "queues",
    "queues_never_committed",
    "clients",
    "message_model",
)


@app.command()
def lag(
    namesrv: NamesrvOption = "",
    format: Format = Format.table,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between looks.", min=1.0)] = 5.0,
    all_topics: Annotated[
        bool, typer.Option("--all", help="Show retry topics without lag too.")
    ] = False,
) -> None:
    """Show how far every group has got; what is not known is a dash, never a zero."""
    if not every < LONGEST_EVERY:
        raise typer.BadParameter(f"--every {every}: it takes seconds, from 1 to {LONGEST_EVERY}")
    if watch and format is Format.table:
        _watch(namesrv, every, all_topics)
        return
    for _ in _paced(every) if watch else range(1):
        rows = group_rows(look(namesrv, counters=False))
        if format is Format.json:
            typer.echo(to_json(rows))
        else:
            typer.echo(table_text(_worth_showing(rows, all_topics), SHOWN))


def _paced(every: float) -> Iterator[None]:
    """Turns without end, so many seconds from beginning to beginning."""
    while True:
        started = time.monotonic()
        yield
        time.sleep(max(0.0, every - (time.monotonic() - started)))


def _worth_showing(rows: list[dict[str, Any]], all_topics: bool) -> list[dict[str, Any]]:
    """Without the retry topics in which nothing waits, unless all are asked for.

    The largest known delay is shown as what it is, at least so much, where a lagging queue's is
    not known; and not at all where it would say *at least 0*.
    """
    return [
        row | {"delay_ms": _bound(row) if row["delay_is_lower_bound"] else row["delay_ms"]}
        for row in rows
        if all_topics or not row["topic"].startswith("%") or row["lag"] or row["lag_upper"]
    ]


def _bound(row: dict[str, Any]) -> str | None:
    return f"> {duration(row['delay_ms'])}" if row["delay_ms"] else None


def _watch(namesrv: str, every: float, all_topics: bool) -> None:
    from rich.live import Live

    from tidemark.errors import CommandError

    with Live(auto_refresh=False, screen=True) as live:
        for _ in _paced(every):
            try:
                taken = look(namesrv, counters=False)
                rows = _worth_showing(group_rows(taken), all_topics)
                title = f"{taken.cluster}  {taken.observed_at:%H:%M:%S} UTC  {taken.status}"
                live.update(table(rows, SHOWN, title, live.console.width), refresh=True)
            except CommandError as error:
                # The cluster may come back; the person watching wants to see when.
                live.update(f"{time.strftime('%H:%M:%S')}  {error}", refresh=True)
