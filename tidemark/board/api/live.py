"""``/live``, ``/plan`` and ``/groups/.../stacks``: what brokers and members do now."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from tidemark.board.dependencies import JsonOnly, ThePerson, TheView, part_of
from tidemark.board.http_responses import json_response, object_model, page_of, row_model
from tidemark.board.views.live import NewPlan, modes_of, plain, planned, problems_of
from tidemark.board.views.view import View
from tidemark.lake.tables import progress
from tidemark.live.broker_times import ByOurClock
from tidemark.live.lag import group_rows
from tidemark.model.consumption import LookupOutcome, StackOutcome
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


class NewDiagnosis(BaseModel):
    """The subject of a diagnosis besides the group."""

    model_config = ConfigDict(extra="forbid", strict=True)
    topic: str | None = Field(None, max_length=1000, description="all topics of the group without")


_STACK = object_model(
    "Stack",
    "A stack that threads have in common.",
    threads=(int, "the threads that have it"),
    state=(str, "of java.lang.Thread.State"),
    code=(list[str], "innermost frames of code that is neither Java's nor RocketMQ's"),
    frames=(list[str], "innermost frames"),
    frames_left_out=(int, "further frames above those of RocketMQ's client"),
    is_idle=(bool, "whether the threads wait for a message"),
)
_CONSUME_STACKS = object_model(
    "ConsumeStacks",
    "Stacks of the consume threads of a member.",
    threads=(int, "its consume threads"),
    stacks=(list[_STACK], "the different stacks"),  # pyright: ignore
    threads_left_out=(int, "threads of stacks that are left out"),
)
_CLIENT = object_model(
    "ClientStacks",
    "A member and what it does, or why that is unknown.",
    client_id=(str, "the member"),
    client_address=(str, "where it is connected from"),
    language=(str, "of its client"),
    version=(str, "of its client"),
    outcome=(str, " | ".join(StackOutcome)),
    words=(str, "the outcome in words"),
    reason=(str, "why a request failed"),
    held=(list[list[str | int]], "topic, broker and number of its queues; null = not reported"),
    stacks=(_CONSUME_STACKS, "its consume threads; null = unknown"),
)
_MESSAGE = object_model(
    "StoredMessage",
    "A stored message without its body.",
    topic=(str, "the topic that it is stored in"),
    queue_id=(int, "its queue"),
    queue_offset=(int, "its place in the queue"),
    msg_id=(str, "the id that its producer gave it"),
    keys=(str, "keys of its producer, separated by blanks"),
    tags=(str, "its tag"),
    reconsume_times=(int, "how often a member handed it back"),
    origin_topic=(str, "topic of a message that waits in a retry topic"),
    origin_msg_id=(str, "id of the first message where this is a later attempt"),
    born_host=(str, "address of its producer"),
    born_at=(datetime, "when it was made, by the producer's clock"),
    stored_at=(datetime, "when it was stored, by the broker's clock"),
    body_bytes=(int, "size of its body as stored"),
)
_FIRST_MESSAGE = object_model(
    "FirstMessage",
    "The first unconsumed message of a queue, or why it is unknown.",
    topic=(str, "topic of the queue"),
    broker=(str, "its broker"),
    queue_id=(int, "its number"),
    queue_offset=(int, "the consumer offset; null = never committed"),
    outcome=(str, " | ".join(LookupOutcome)),
    words=(str, "the outcome in words"),
    reason=(str, "why the lookup failed"),
    owners=(list[str], "members that hold the queue; null = not all reported"),
    message=(_MESSAGE, "the message; null = unknown"),
)
DIAGNOSIS = object_model(
    "Diagnosis",
    "What a group did at an instant.",
    cluster=(str, "the cluster"),
    consumer_group=(str, "the group"),
    topic=(str, "the topic that it is about; null = all of the group"),
    diagnosed_at=(datetime, "when the requests began"),
    clients=(list[_CLIENT], "members; null = the cluster could not be read"),  # pyright: ignore
    clients_left_out=(int, "further members"),
    messages=(list[_FIRST_MESSAGE], "of the queues with the largest lag"),  # pyright: ignore
    queues_left_out=(int, "further queues with unconsumed messages"),
    problems=(list[str], "what else failed"),
)


@router.post(
    "/groups/{cluster}/{group}/stacks",
    summary="Stacks of consume threads, and the messages that queues are at",
    dependencies=[JsonOnly],
    responses={200: {"model": DIAGNOSIS}},
)
async def stacks(
    view: TheView,
    person: ThePerson,
    cluster: Annotated[str, Depends(part_of("cluster"))],
    group: Annotated[str, Depends(part_of("group"))],
    wanted: NewDiagnosis | None = None,
) -> Response:
    """Request the stacks of each member's consume threads, at most once a member and 5 s.

    It needs the right to act, because each member stops its threads for a moment. Nothing is
    changed. ``outcome`` and ``words`` of a member or message state why something is unknown.
    """
    topic = wanted.topic if wanted else None
    return json_response(plain(await view.diagnosis(cluster, group, topic or "", person.name)))
