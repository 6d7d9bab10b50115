"""`tidemark plan` and `forecast`: queues with other clients or queues; when groups are drained."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidemark.cli.invocation import CommandError, NamesrvOption, invocation
from tidemark.cli.output import Format, duration, echo, print_rows, to_json
from tidemark.model.forecasts import ForecastKind, NoForecast
from tidemark.rocketmq.allocation import STRATEGIES
from tidemark.rocketmq.snapshot.target import DeepOptions

app = typer.Typer()

MOST = 10_000
"""More clients, and more queues on a broker, than any group has."""


@app.command("plan")
def plan_group(
    group: Annotated[str, typer.Option("--group", help="The consumer group.")],
    clients: Annotated[
        int, typer.Option("--clients", help="Number of its members in the plan.", min=1, max=MOST)
    ],
    strategy: Annotated[
        str,
        typer.Option(
            help=f"How they share queues: {', '.join(STRATEGIES)}; default: as now, AVG if unknown."
        ),
    ] = "",
    queues: Annotated[
        int | None,
        typer.Option(
            help="Readable queues of each topic on each broker; default: as now.",
            min=1,
            max=MOST,
        ),
    ] = None,
    rooms: Annotated[
        str,
        typer.Option(help="Machine rooms by commas, for strategies that use them."),
    ] = "",
    client_reports: Annotated[
        bool,
        typer.Option(
            "--client-reports",
            "--ask-clients",  # the name in 0.1
            help="Request strategy and queues from the members. A member that never committed a "
            "queue then commits 0.",
        ),
    ] = False,
    namesrv: NamesrvOption = "",
    format: Format = Format.table,
) -> None:
    """Show which client of a group would own which queue, which would idle and what would move.

    New clients are named new-1 and so on, and sort last. With fewer clients than now, the last by
    name leave.
    """
    from tidemark.cli.snapshot_command import take_snapshot
    from tidemark.live.allocation_plan import Wish, plan

    # MACHINE_ROOM_NEARBY names the strategy inside a room after a hyphen.
    if strategy and strategy.upper().partition("-")[0] not in STRATEGIES:
        raise typer.BadParameter(f"--strategy {strategy!r} is none of {', '.join(STRATEGIES)}")
    wish = Wish(
        consumer_group=group,
        clients=clients,
        strategy=strategy.upper() or None,
        queues=queues,
        rooms=tuple(room.strip() for room in rooms.split(",") if room.strip()),
    )
    planned = plan(take_snapshot(namesrv, _request_of(group) if client_reports else None), wish)
    if format is Format.json:
        typer.echo(to_json(planned))
        return
    columns = ("client_id", "topic", "queues", "new", "owned")
    print_rows(_by_client(planned), columns, nothing="No member would own a queue.")
    echo(_summary(planned))


def _request_of(group: str) -> DeepOptions:
    """Return options that request only reports of members, those of this group first."""
    return DeepOptions(groups=(group,), max_stats=0, max_tag_requests=0, max_store_times=0)


def _by_client(planned: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row per client and topic: its queues in the plan, and how many of them are new."""
    owned: dict[tuple[str, str | None], list[dict[str, Any]]] = defaultdict(list)
    for row in planned["queues"]:
        owned[row["expected_client_id"], row["topic"]].append(row)
    for row in planned["idle_clients"]:
        owned[row["client_id"], None] = []
    place = {client: number for number, client in enumerate(planned["clients"])}
    return [
        {
            "client_id": client or "(no owner)",
            "topic": topic,
            "queues": len(rows),
            "new": sum(row["actual_client_id"] != client for row in rows),
            "owned": ", ".join(f"{row['broker']}:{row['queue_id']}" for row in rows) or None,
        }
        for (client, topic), rows in sorted(
            owned.items(), key=lambda item: (place.get(item[0][0], len(place)), item[0][1] or "")
        )
    ]


def _summary(planned: dict[str, Any]) -> str:
    rows, idle = planned["queues"], planned["idle_clients"]
    moves = sum(bool(row["moves"]) for row in rows) if planned["actual_source"] else "?"
    known = {
        "reported": "compared with what its members report",
        "computed": "compared with what its strategy gives now",
        None: "the owners now are unknown",
    }[planned["actual_source"]]
    lines = [
        f"{planned['consumer_group']}: {len(planned['clients_now'])} clients now, "
        f"{len(planned['clients'])} planned, {planned['strategy']} ({planned['strategy_source']})",
        f"{len(rows)} queues, {moves} would move ({known})",
        f"{len(idle)} clients would idle"
        + (f": {', '.join(sorted({row['reason'] for row in idle}))}" if idle else ""),
    ]
    return "\n".join(lines)


forecast_app = typer.Typer()

FORECAST_COLUMNS = ("subject", "forecast", "from", "to", "basis", "reason")

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


@forecast_app.command()
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
    columns = ("cluster", *FORECAST_COLUMNS) if several else FORECAST_COLUMNS
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
