"""`tidemark lag`: lag and delay of every consumer group, now."""

import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from tidemark.cli.invocation import CommandError, NamesrvOption, invocation
from tidemark.cli.output import Format, duration, printable, table, table_text, to_json
from tidemark.cli.snapshot_command import targeted_snapshot
from tidemark.lake.bounds import Bound, bound_of
from tidemark.live.broker_times import StoreTimes, remove_skew
from tidemark.live.lag import group_rows
from tidemark.model.consumption import ConsumeMode, DelaySource
from tidemark.rocketmq.names import OWN_TOPICS
from tidemark.rocketmq.records import Snapshot

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
    "consume_mode",
)

EXCEPTIONAL = ("queues_unknown", "lost", "queues_never_committed")
"""Columns that are shown only where a group has a value other than 0."""

NO_GROUPS = "no consumer group that is connected or has committed an offset was found"

ONLY_HIDDEN = "groups read only retry topics, and none has a known lag there; --all shows them"

LOWER, ESTIMATED = Bound.LOWER.mark, "~"

LEGEND = {LOWER: f"{LOWER} at least", ESTIMATED: f"{ESTIMATED} estimated"}

VISIBLE = 20
"""The error of a delay is visible in its text above this fraction (1/n) of the delay."""

Rows = list[dict[str, Any]]


@app.command()
def lag(
    namesrv: NamesrvOption = "",
    format: Format = Format.table,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat until interrupted.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between snapshots.", min=1.0)] = 5.0,
    all_topics: Annotated[
        bool, typer.Option("--all", help="Show retry topics without lag too.")
    ] = False,
    delay: Annotated[
        bool,
        typer.Option(
            help="Find out when the first unconsumed messages were stored. Without it a delay "
            "is known for the last message of a queue only, else it is a lower bound."
        ),
    ] = True,
) -> None:
    """Show the lag and the delay of every consumer group; a dash stands for unknown.

    The name server forgets a broker that is killed at once. A home that collects remembers its
    brokers for a day and reports the snapshot as PARTIAL; without one it is COMPLETE.
    """
    if not every < LONGEST_EVERY:
        raise typer.BadParameter(f"--every {every}: it takes seconds, from 1 to {LONGEST_EVERY}")
    if watch and format is Format.table:
        _watch(namesrv, every, all_topics, delay)
        return
    for _ in _paced(every) if watch else range(1):
        snapshot, rows, problems = _measure(namesrv, delay)
        if format is Format.json:
            typer.echo(to_json(rows))
        else:
            shown = _worth_showing(rows, all_topics)
            typer.echo(table_text(shown, _columns(shown), _title(snapshot)))
            if legend := _legend(rows, shown):
                typer.echo(legend)
        for line in problems:
            typer.echo(line, err=True)


def _measure(namesrv: str, delay: bool) -> tuple[Snapshot, Rows, list[str]]:
    """Take a snapshot; return it, the rows of its groups, and what of the history is missing."""
    target, taken = targeted_snapshot(namesrv, counters=False)
    snapshot = remove_skew(taken)
    invoked = invocation()
    catalog = invoked.catalog if invoked.basics.has_history else None
    times = StoreTimes()
    if delay:
        from tidemark.live.lag import store_times

        times = store_times(catalog, target, snapshot)
    problems = [f"delay: {line}" for line in times.problems]
    rows = group_rows(snapshot, times)
    if catalog and any(row["consume_mode"] is None for row in rows):
        # Imported here: without a history nothing is printed later than it can be.
        from tidemark.host.failures import one_line
        from tidemark.live import history_times

        try:
            rows = group_rows(snapshot, times, history_times.consume_modes(catalog(), snapshot))
        except Exception as error:
            problems.append(f"consume_mode: progress.queues: {one_line(error)}")
    return snapshot, rows, [printable(line) for line in problems]


def _paced(every: float) -> Iterator[None]:
    """Yield without end, so many seconds from one start to the next."""
    while True:
        started = time.monotonic()
        yield
        time.sleep(max(0.0, every - (time.monotonic() - started)))


def _worth_showing(rows: Rows, all_topics: bool) -> Rows:
    """Return the rows with delays as text, without retry topics that hold nothing unconsumed."""
    return [
        row | {"delay_ms": _delay(row)}
        for row in rows
        if all_topics or not row["topic"].startswith(OWN_TOPICS) or row["lag"] or row["lag_upper"]
    ]


def _delay(row: dict[str, Any]) -> Any:
    """Mark an interpolated delay; *at least 0* is unknown."""
    milliseconds = row["delay_ms"]
    if bound_of("delay_ms", row):
        return milliseconds or None
    error_ms = row["delay_error_ms"] or 0
    if row["delay_source"] == DelaySource.INTERPOLATED and VISIBLE * error_ms > milliseconds:
        return f"{ESTIMATED} {duration(milliseconds)}"
    return milliseconds


def _columns(rows: Rows) -> Sequence[str]:
    """Return the columns to show, without the exceptional ones where nothing is exceptional.

    Nor is how messages are consumed where all groups are known to pull.
    """
    hidden = {name for name in EXCEPTIONAL if all(row[name] == 0 for row in rows)}
    if all(row["consume_mode"] == ConsumeMode.PULL for row in rows):
        hidden.add("consume_mode")
    return [name for name in SHOWN if name not in hidden]


def _legend(rows: Rows, shown: Rows) -> str:
    """Explain the marks of delays and lags that are not exact, or why there is no row."""
    if not shown:
        return ONLY_HIDDEN if rows else NO_GROUPS
    bounds = {bound_of(name, row) for row in shown for name in _columns(shown)}
    marks = {bound.mark for bound in bounds if bound}
    marks |= {str(row["delay_ms"])[:1] for row in shown} & {ESTIMATED}
    return ", ".join(text for mark, text in LEGEND.items() if mark in marks)


def _title(snapshot: Snapshot) -> str:
    at = f"{snapshot.observed_at:%Y-%m-%d %H:%M:%S}"
    return f"{snapshot.cluster}  {at} UTC  {snapshot.status}"


def _watch(namesrv: str, every: float, all_topics: bool, delay: bool) -> None:
    from rich.live import Live

    with Live(auto_refresh=False, screen=True) as live:
        for _ in _paced(every):
            try:
                snapshot, rows, _ = _measure(namesrv, delay)
                shown = _worth_showing(rows, all_topics)
                title = "   ".join(filter(None, (_title(snapshot), _legend(rows, shown))))
                width = live.console.width
                live.update(table(shown, _columns(shown), title, width), refresh=True)
            except CommandError as error:
                # The cluster may come back; the person watching wants to see when.
                live.update(f"{time.strftime('%H:%M:%S')}  {error}", refresh=True)
