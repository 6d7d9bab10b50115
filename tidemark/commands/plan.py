"""`tidemark plan`: who would own which queue, who would idle and what would move."""

from collections import defaultdict
from typing import Annotated, Any

import typer

from rocketmq.allocation import STRATEGIES
from rocketmq.deep.options import DeepOptions
from tidemark.looking import NamesrvOption, look
from tidemark.output import Format, print_rows, to_json
from tidemark.plan import Wish, plan

app = typer.Typer()

MOST = 10_000
"""More clients, or queues on a broker, than any group has."""


@app.command("plan")
def plan_group(
    group: Annotated[str, typer.Option("--group", help="The consumer group.")],
    clients: Annotated[
        int, typer.Option("--clients", help="How many members it would have.", min=1, max=MOST)
    ],
    strategy: Annotated[
        str,
        typer.Option(
            help=f"How they share queues: {', '.join(STRATEGIES)}; else as now, AVG if not known."
        ),
    ] = "",
    queues: Annotated[
        int | None,
        typer.Option(
            help="Readable queues each topic would have on each broker; else as now.",
            min=1,
            max=MOST,
        ),
    ] = None,
    rooms: Annotated[
        str, typer.Option(help="Machine rooms for the strategies that go by them, by commas.")
    ] = "",
    ask_clients: Annotated[
        bool,
        typer.Option(
            "--ask-clients",
            help="Ask its members for their strategy and queues. One that never committed a queue "
            "then commits 0.",
        ),
    ] = False,
    namesrv: NamesrvOption = "",
    format: Format = Format.table,
) -> None:
    """Show who would own which queue of a group, who would idle and what would move.

    New clients are named new-1 and so on, and sort last; where fewer are wanted, the last by name
    leave.
    """
    wish = Wish(
        consumer_group=group,
        clients=clients,
        strategy=strategy.upper() or None,
        queues=queues,
        rooms=tuple(room.strip() for room in rooms.split(",") if room.strip()),
    )
    planned = plan(look(namesrv, _asking(group) if ask_clients else None), wish)
    if format is Format.json:
        typer.echo(to_json(planned))
        return
    print_rows(_by_client(planned), ("client_id", "topic", "queues", "new", "owned"))
    typer.echo(_summary(planned))


def _asking(group: str) -> DeepOptions:
    """A deep look for what members tell, this group's first; no counters, samples or times."""
    return DeepOptions(groups=(group,), max_stats=0, max_tag_requests=0, max_store_times=0)


def _by_client(planned: dict[str, Any]) -> list[dict[str, Any]]:
    """A row per client and topic: how many queues, how many of them it has not got now."""
    owned: dict[tuple[str, str | None], list[dict[str, Any]]] = defaultdict(list)
    for row in planned["queues"]:
        owned[row["expected_client_id"], row["topic"]].append(row)
    for row in planned["idle_clients"]:
        owned[row["client_id"], None] = []
    place = {client: number for number, client in enumerate(planned["clients"])}
    return [
        {
            "client_id": client or "nobody",
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
        "told": "as its members tell",
        "computed": "as its strategy gives them",
        None: "who owns them now is not known",
    }[planned["actual_source"]]
    lines = [
        f"{planned['consumer_group']}: {len(planned['clients_now'])} clients now, "
        f"{len(planned['clients'])} planned, {planned['strategy']} ({planned['strategy_source']})",
        f"{len(rows)} queues, {moves} would move ({known})",
        f"{len(idle)} clients would idle"
        + (f": {', '.join(sorted({row['reason'] for row in idle}))}" if idle else ""),
    ]
    return "\n".join(lines)
