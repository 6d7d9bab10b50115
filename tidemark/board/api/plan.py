"""``/live/{cluster}`` and ``/plan``: lag and planned owners of queues, from a live snapshot."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from tidemark.board.dependencies import JsonOnly, TheView, part_of
from tidemark.board.responses import (
    ProblemError,
    json_response,
    object_model,
    page_of,
    row_model,
)
from tidemark.board.views.view import Shown, View
from tidemark.lake.tables import progress
from tidemark.live.allocation_plan import PlanError, Wish, plan
from tidemark.live.consume_modes import MODE_COLUMNS, Pair, remembered_modes
from tidemark.live.history_times import ByOurClock
from tidemark.live.lag import group_rows
from tidemark.rocketmq.records import Snapshot

router = APIRouter(tags=["live"])

MOST = 10_000
"""More clients, and more queues on a broker, than any group has."""


class NewPlan(BaseModel):
    """The group as it would be."""

    model_config = ConfigDict(extra="forbid", strict=True)
    cluster: str
    consumer_group: str
    clients: int = Field(ge=1, le=MOST, description="members in the plan")
    strategy: str | None = Field(None, description="as now without one, AVG if that is unknown")
    queues: int | None = Field(
        None, ge=1, le=MOST, description="queues of each topic on each broker; as now without"
    )
    rooms: list[str] = Field(
        [], max_length=100, description="machine rooms, for strategies that use them"
    )


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


def modes_of(rows: Shown, snapshot: Snapshot) -> dict[Pair, str]:
    """Return how groups consumed by the newest rows, for a snapshot that shows it no more."""
    known = rows.of(progress.QUEUES, snapshot.cluster).select(MODE_COLUMNS)
    distinct = known.group_by(list(MODE_COLUMNS)).aggregate([])
    return remembered_modes(distinct.to_pylist(), snapshot.observed_at)


def _measured(snapshot: ByOurClock, view: View) -> Response:
    return json_response(
        {
            "cluster": snapshot.cluster,
            "observed_at": snapshot.observed_at,
            "status": snapshot.status,
            "problems": problems_of(snapshot),
            "items": group_rows(snapshot, remembered=modes_of(view.newest, snapshot)),
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


def planned(snapshot: Snapshot, wanted: NewPlan) -> dict[str, Any]:
    """Return the planned owners of queues; see `tidemark.live.allocation_plan.plan`.

    Raises:
        ProblemError: the group cannot be planned.
    """
    wish = Wish(
        consumer_group=wanted.consumer_group,
        clients=wanted.clients,
        strategy=wanted.strategy.upper() if wanted.strategy else None,
        queues=wanted.queues,
        rooms=tuple(wanted.rooms),
    )
    try:
        return plan(snapshot, wish)
    except PlanError as error:
        raise ProblemError(409, str(error)) from error


def problems_of(snapshot: Snapshot) -> list[str]:
    """Return the problems of a snapshot and the parts that limits left out, one line each."""
    return [problem.line for problem in (*snapshot.problems, *snapshot.left_out)]
