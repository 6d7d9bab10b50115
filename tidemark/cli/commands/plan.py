"""`tidemark plan`: the queues of a group with other clients, another strategy or more queues."""

from collections import defaultdict
from typing import Annotated, Any

import typer

from tidemark.cli.invocation import NamesrvOption
from tidemark.cli.output import Format, echo, print_rows, to_json
from tidemark.cli.snapshot_command import take_snapshot
from tidemark.live.allocation_plan import Wish, plan
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
