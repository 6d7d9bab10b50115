"""``/groups/{cluster}/{group}/stacks``: what the members of a group do now."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict, Field

from tidemark.board.dependencies import JsonOnly, ThePerson, TheView, part_of
from tidemark.board.responses import json_response, object_model
from tidemark.board.views.live import plain
from tidemark.model.consumers import LookupOutcome, StackOutcome

router = APIRouter(tags=["live"])


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
