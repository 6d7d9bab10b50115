"""``/groups/{cluster}/{group}/stacks``: what the members of a group do now."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict, Field

from tidemark.board.dependencies import JsonOnly, TheDiagnoses, part_of
from tidemark.board.responses import json_response
from tidemark.live.diagnosis import Diagnosis, with_words

router = APIRouter(tags=["live"])


class NewDiagnosis(BaseModel):
    """The subject of a diagnosis besides the group."""

    model_config = ConfigDict(extra="forbid", strict=True)
    topic: str | None = Field(None, max_length=1000, description="all topics of the group without")


@router.post(
    "/groups/{cluster}/{group}/stacks",
    summary="Stacks of consume threads, and the messages that queues are at",
    dependencies=[JsonOnly],
)
async def stacks(
    diagnoses: TheDiagnoses,
    cluster: Annotated[str, Depends(part_of("cluster"))],
    group: Annotated[str, Depends(part_of("group"))],
    wanted: NewDiagnosis | None = None,
) -> Response:
    """Request the stacks of each member's consume threads, at most once a member and 5 s.

    It needs the right to act, because each member stops its threads for a moment. Nothing is
    changed. ``outcome`` and ``words`` of a member or message state why something is unknown.
    """
    topic = wanted.topic if wanted else None
    return json_response(plain(await diagnoses.of(cluster, group, topic or "")))


def plain(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as values of JSON, with its outcomes in words."""
    return with_words(asdict(diagnosis))
