"""The overview page, and pages of a live snapshot: what is so at the newest instant, and now.

The overview shows gaps in measurement, open incidents, worst groups and recent changes. The pages
of a live snapshot show groups, stacks and messages of a group, and the planned owners of queues.
"""

from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from tidemark.board.dependencies import ThePerson
from tidemark.board.pages.incidents import listed
from tidemark.board.pages.layout import Page, ThePage, check_form
from tidemark.board.pages.sparklines import sparkline
from tidemark.board.pages.timeline import Entry, happened, of_notes
from tidemark.board.views.clusters import cluster_rows
from tidemark.board.views.groups import TROUBLE, WORST_FIRST, worst_groups
from tidemark.board.views.incidents import incident_rows
from tidemark.board.views.live import MOST as MOST_CLIENTS
from tidemark.board.views.live import NewPlan, modes_of, plain, planned, problems_of
from tidemark.lake.bounds import Bound, marked
from tidemark.lake.clocks import HOUR, MICROSECOND, Window
from tidemark.lake.tables import progress, raw
from tidemark.live.broker_times import ByOurClock
from tidemark.live.lag import group_rows
from tidemark.model.health import TROUBLE as CERTAIN
from tidemark.model.health import Health
from tidemark.rocketmq.records import LeftOut, Snapshot

router = APIRouter(include_in_schema=False)

WORST = 8
INCIDENTS = 10
ENTRIES = 14


@router.get("/")
def overview(page: ThePage) -> Response:
    """Show all clusters at one glance."""
    rows = page.rows
    groups = rows.of(progress.GROUPS)
    unreachable = [
        row
        for row in rows.of(raw.BROKERS).to_pylist()
        if row["version"] is None and row["role"] is None
    ]
    counted = Counter(groups["health"].to_pylist())
    incidents = incident_rows(rows, "OPEN")
    changes = _changes(page)
    return page.render(
        "overview.html",
        clusters=[row | {"limited": _unmeasured(row)} for row in cluster_rows(rows, page.now)],
        unreachable=unreachable,
        health_counts=[(state, counted[state]) for state in WORST_FIRST if counted[state]],
        total=groups.num_rows,
        in_trouble=marked(
            f"{sum(counted[state] for state in CERTAIN):,}",
            Bound.LOWER if counted[Health.UNKNOWN] else None,
        ),
        incidents=incidents,
        listed=listed(page, incidents[:INCIDENTS]),
        worst=_worst(page),
        changes=changes[:ENTRIES],
        changes_count=len(changes),
    )


def _unmeasured(cluster: dict[str, Any]) -> list[str]:
    """Return a line for each part that no snapshot measures; deep limits only delay parts."""
    left_out = [LeftOut(**item) for item in cluster["left_out"] or ()]
    return [item.line for item in left_out if item.part == "lite_topics"]


def _worst(page: Page) -> list[dict[str, Any]]:
    """Return the groups in trouble, or with the longest delays, each with its trend."""
    result = [
        row
        for row in worst_groups(page.rows.of(progress.GROUPS), WORST)
        if row["health"] in TROUBLE or row["lag"] or row["delay_ms"]
    ]
    trends = page.trends
    return [
        row | {"spark": sparkline(trends.of(row["cluster"], row["consumer_group"], row["topic"]))}
        for row in result
    ]


def _changes(page: Page) -> list[Entry]:
    """Return what happened within the last hour of what is shown."""
    newest = page.rows.observed_at
    if newest is None:
        return []
    window = Window(newest - HOUR, page.end + MICROSECOND)
    return happened(
        window,
        events=page.rows.of(progress.EVENTS).to_pylist(),
        changes=page.view.health_changes(page.rows, window).newest(),
        incidents=incident_rows(page.rows),
        notes=of_notes(page.view),
    )


MOST = 200
MOST_QUEUES = 1000
MOST_IDLE = 20
"""Rows of a page at most; the API has all of them."""

LIVE_COLUMNS = (
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
        columns=LIVE_COLUMNS,
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
