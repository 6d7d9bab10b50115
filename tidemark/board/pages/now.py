"""Pages of a live snapshot: groups now, and the planned owners of queues."""

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from tidemark.board.dependencies import ThePerson
from tidemark.board.pages.layout import Page, ThePage, check_form
from tidemark.board.views.live import MOST as MOST_CLIENTS
from tidemark.board.views.live import NewPlan, modes_of, plain, planned, problems_of
from tidemark.lake.tables import progress
from tidemark.live.history_times import ByOurClock
from tidemark.live.lag import group_rows
from tidemark.rocketmq.records import Snapshot

router = APIRouter(include_in_schema=False)

MOST = 200
MOST_QUEUES = 1000
MOST_IDLE = 20
"""Rows of a page at most; the API has all of them."""

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
    "consume_mode",
)


@router.get("/live")
async def live(page: ThePage, cluster: str, q: str = "") -> Response:
    """Show groups as they are at this instant, largest lag first."""
    return await run_in_threadpool(_live, page, await page.view.live(cluster), cluster, q)


def _live(page: Page, snapshot: ByOurClock, cluster: str, q: str) -> Response:
    wanted = q.lower()
    modes = modes_of(page.rows.of(progress.QUEUES, snapshot.cluster), snapshot)
    rows = [
        row
        for row in group_rows(snapshot, remembered=modes)
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


Text = Annotated[str, Form()]


@router.post("/stacks")
async def stacks(
    request: Request,
    page: ThePage,
    person: ThePerson,
    cluster: Text,
    group: Text,
    token: Text,
    topic: Text = "",
) -> Response:
    """Show the stacks of a group's consume threads, and the messages that its queues are at."""
    check_form(request, token)
    diagnosis = plain(await page.view.diagnosis(cluster, group, topic, person.name))
    return page.render("stacks.html", diagnosis=diagnosis, cluster=cluster, topic=topic)


@router.get("/plan")
async def plan(
    page: ThePage,
    cluster: str,
    group: str,
    clients: Annotated[int, Query(ge=1, le=MOST_CLIENTS)],
    strategy: str = "",
    queues: Annotated[str, Query(pattern=r"^([1-9]\d{0,3})?$")] = "",
) -> Response:
    """Show which member would own which queue of a group."""
    wanted = {"cluster": cluster, "consumer_group": group, "clients": clients}
    wanted |= {"strategy": strategy or None, "queues": int(queues) if queues else None}
    new = NewPlan.model_validate(wanted)
    return await run_in_threadpool(_plan, page, await page.view.live(cluster), new)


def _plan(page: Page, snapshot: Snapshot, wanted: NewPlan) -> Response:
    body = planned(snapshot, wanted)
    return page.render(
        "plan.html",
        **body | {"cluster": wanted.cluster, "queues": body["queues"][:MOST_QUEUES]},
        idle=body["idle_clients"][:MOST_IDLE],
        count=len(body["queues"]),
        measured_at=body["observed_at"],
        moving=sum(bool(row["moves"]) for row in body["queues"]),
    )
