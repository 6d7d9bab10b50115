"""A snapshot taken now: groups, and who would own which queue."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from board.api.plan import MOST as MOST_CLIENTS
from board.api.plan import NewPlan, planned, problems_of
from board.dependencies import TheLive
from board.pages.layout import ThePage
from live.lag import group_rows

router = APIRouter(include_in_schema=False)

MOST = 200
COLUMNS = (
    "consumer_group",
    "topic",
    "lag",
    "delay_ms",
    "delay_source",
    "inflight",
    "available",
    "lost",
    "queues_unknown",
    "clients",
)


@router.get("/live")
def live(page: ThePage, snapshots: TheLive, cluster: str, q: str = "") -> Response:
    """Show groups as they are at this instant, largest lag first."""
    snapshot = snapshots.of(cluster)
    wanted = q.lower()
    rows = [
        row
        for row in group_rows(snapshot)
        if wanted in row["consumer_group"].lower() or wanted in row["topic"].lower()
    ]
    return page.render(
        "live.html",
        cluster=cluster,
        q=q,
        measured_at=snapshot.observed_at,
        problems=problems_of(snapshot),
        columns=COLUMNS,
        rows=rows[:MOST],
        count=len(rows),
    )


@router.get("/plan")
def plan(
    page: ThePage,
    snapshots: TheLive,
    cluster: str,
    group: str,
    clients: Annotated[int, Query(ge=1, le=MOST_CLIENTS)],
    strategy: str = "",
    queues: Annotated[str, Query(pattern=r"^([1-9]\d{0,3})?$")] = "",
) -> Response:
    """Show which member would own which queue of a group."""
    wanted = {"cluster": cluster, "consumer_group": group, "clients": clients}
    wanted |= {"strategy": strategy or None, "queues": int(queues) if queues else None}
    found = planned(snapshots, NewPlan.model_validate(wanted))
    return page.render(
        "plan.html",
        **found | {"cluster": cluster},
        measured_at=found["observed_at"],
        moving=sum(bool(row["moves"]) for row in found["queues"]),
    )
