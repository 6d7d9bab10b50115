"""``/live/{cluster}`` and ``/plan``: lag and planned owners of queues, from a live snapshot."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.concurrency import run_in_threadpool

from tidemark.board.dependencies import JsonOnly, TheView, part_of
from tidemark.board.responses import json_response, object_model, page_of, row_model
from tidemark.board.views.live import NewPlan, modes_of, planned, problems_of
from tidemark.board.views.view import View
from tidemark.lake.tables import progress
from tidemark.live.history_times import ByOurClock
from tidemark.live.lag import group_rows
from tidemark.rocketmq.records import Snapshot

router = APIRouter(tags=["live"])

_LIVE_GROUP = object_model(
    "LiveGroup",
    "A group on a topic in a snapshot taken now.",
    row_model(progress.GROUPS),
    delay_source=(str, "how the delay is known"),
    delay_error_ms=(int, "by how much the delay may be too large or too small"),
)
_LIVE = object_model(
    "LiveSnapshot",
    "Groups in a snapshot taken now.",
    page_of(_LIVE_GROUP),
    cluster=(str, "the cluster"),
    observed_at=(datetime, "start of the snapshot, by the clock of this host"),
    status=(str, "whether all brokers responded"),
    problems=(list[str], "failed requests, and parts that limits left out"),
)
_OWNER = object_model(
    "PlannedQueue",
    "A queue and its owners.",
    topic=(str, "the topic"),
    broker=(str, "the broker group"),
    queue_id=(int, "number of the queue"),
    expected_client_id=(str, "its owner in the plan"),
    actual_client_id=(str, "its owner now"),
    moves=(bool, "whether the two differ"),
)
_IDLE = object_model(
    "PlannedIdleClient",
    "A member that would own no queue.",
    client_id=(str, "the member"),
    reason=(str, "why, as in progress.idle_clients"),
)
_PLAN = object_model(
    "Plan",
    "Planned owners of the queues of a group.",
    cluster=(str, "the cluster"),
    consumer_group=(str, "the group"),
    observed_at=(datetime, "start of the snapshot that the plan begins from"),
    status=(str, "whether all brokers responded"),
    strategy=(str, "strategy by which queues are shared"),
    strategy_source=(str, "given, reported by members, or assumed"),
    clients=(list[str], "members in the plan"),
    clients_now=(list[str], "members in the snapshot"),
    actual_source=(str, "reported by members, computed, or unknown"),
    queues=(list[_OWNER], "the queues"),  # pyright: ignore
    idle_clients=(list[_IDLE], "members without a queue"),  # pyright: ignore
)


@router.get("/live/{cluster}", summary="A snapshot taken now", responses={200: {"model": _LIVE}})
async def live(view: TheView, cluster: Annotated[str, Depends(part_of("cluster"))]) -> Response:
    """Return rows as ``tidemark lag`` gives them, of a snapshot at most 5 s old."""
    return await run_in_threadpool(_measured, await view.live(cluster), view)


def _measured(snapshot: ByOurClock, view: View) -> Response:
    modes = modes_of(view.newest.of(progress.QUEUES, snapshot.cluster), snapshot)
    return json_response(
        {
            "cluster": snapshot.cluster,
            "observed_at": snapshot.observed_at,
            "status": snapshot.status,
            "problems": problems_of(snapshot),
            "items": group_rows(snapshot, remembered=modes),
            "next_cursor": None,
        }
    )


@router.post(
    "/plan",
    summary="Which member would own which queue",
    dependencies=[JsonOnly],
    responses={200: {"model": _PLAN}},
)
async def plan_it(view: TheView, wanted: NewPlan) -> Response:
    """Plan a group with other members, another strategy or more queues; nothing is changed."""
    return await run_in_threadpool(_planned, await view.live(wanted.cluster), wanted)


def _planned(snapshot: Snapshot, wanted: NewPlan) -> Response:
    return json_response(planned(snapshot, wanted))
