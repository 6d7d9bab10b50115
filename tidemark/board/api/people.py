"""``/annotations`` and ``/audit``: notes of people and deploy pipelines, and what people did."""

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from tidemark.alerting.annotations import Annotation, AnnotationError, UnreadableAnnotationsError
from tidemark.alerting.audit_trail import ACTIONS
from tidemark.board.dependencies import Cursor, JsonOnly, Limit, ThePerson, TheView
from tidemark.board.http_responses import (
    ProblemError,
    json_response,
    object_model,
    page_model,
    page_of,
)
from tidemark.board.views.incidents import ACTIONS_NEWEST_FIRST, action_rows
from tidemark.board.views.parameters import having, instant_of, page, page_of_list, window_of
from tidemark.host.leases import LeaseError
from tidemark.lake.typed_rows import dict_rows
from tidemark.model.incidents import ActionKind

router = APIRouter()

SPAN = timedelta(days=30)
"""Time of the trail where no start is given."""


class NewAnnotation(BaseModel):
    """An annotation to add: what happened, when, and what it is about."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str = Field(description="what happened, in words")
    at: str | None = Field(None, description="ISO 8601; now without")
    match: dict[str, list[str]] = Field(
        default_factory=dict,
        description="column (cluster, consumer_group, topic) to globs; everything without",
    )


_ANNOTATION = object_model(
    "AnnotationRow",
    "A note on an instant, which charts and incidents show.",
    annotation_id=(str, "its id"),
    at=(datetime, "the instant"),
    text=(str, "what happened"),
    author=(str, "the person or program that added it"),
    created_at=(datetime, "when it was added"),
    match=(dict[str, list[str]], "column to globs, of which one must match"),
)


@router.get(
    "/annotations",
    tags=["annotations"],
    summary="Annotations, the newest first",
    responses={200: {"model": page_of(_ANNOTATION)}},
)
def all_annotations(
    view: TheView,
    since: Annotated[str | None, Query(alias="from", description="ISO 8601")] = None,
    to: Annotated[str | None, Query(description="ISO 8601")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return the annotations of the last 90 days."""
    first = instant_of("from", since) if since else None
    last = instant_of("to", to) if to else None
    try:
        notes = view.annotations()
    except UnreadableAnnotationsError as error:
        raise ProblemError(503, str(error)) from error
    rows = [
        _row(note)
        for note in notes
        if (first is None or note.at >= first) and (last is None or note.at < last)
    ]
    chosen, following = page_of_list(rows, "annotation_id", limit, cursor)
    return json_response({"items": chosen, "next_cursor": following})


@router.post(
    "/annotations",
    tags=["annotations"],
    summary="Add an annotation",
    dependencies=[JsonOnly],
    status_code=201,
    responses={201: {"model": _ANNOTATION}},
)
def add(view: TheView, person: ThePerson, wanted: NewAnnotation) -> Response:
    """Add a note in the name of the person, as a deploy pipeline does after each deploy."""
    at = instant_of("at", wanted.at) if wanted.at else None
    match = {name: tuple(globs) for name, globs in wanted.match.items() if globs}
    try:
        made = view.annotate(wanted.text, person.name, at, match)
    except AnnotationError as error:
        raise ProblemError(400, str(error)) from error
    except (UnreadableAnnotationsError, LeaseError) as error:
        raise ProblemError(503, str(error)) from error
    return json_response(_row(made), 201)


@router.delete(
    "/annotations/{annotation_id}",
    tags=["annotations"],
    summary="Remove an annotation",
    status_code=204,
)
def end(view: TheView, person: ThePerson, annotation_id: str) -> Response:
    """Remove a note, whoever added it."""
    try:
        view.remove_annotation(annotation_id, person.name)
    except AnnotationError as error:
        raise ProblemError(404, str(error)) from error
    except (UnreadableAnnotationsError, LeaseError) as error:
        raise ProblemError(503, str(error)) from error
    return Response(status_code=204)


def _row(note: Annotation) -> dict[str, object]:
    return {
        "annotation_id": note.annotation_id,
        "at": note.at,
        "text": note.text,
        "author": note.author,
        "created_at": note.created_at,
        "match": {name: list(globs) for name, globs in note.match.items()},
    }


@router.get(
    "/audit",
    tags=["audit"],
    summary="What people did, the newest first",
    responses={200: {"model": page_model(ACTIONS)}},
)
def audit(
    view: TheView,
    person: Annotated[str | None, Query(description="only of this person")] = None,
    action: Annotated[str | None, Query(description=" | ".join(ActionKind))] = None,
    cluster: Annotated[str | None, Query(description="only on this cluster")] = None,
    group: Annotated[str | None, Query(description="only on this consumer group")] = None,
    from_: Annotated[
        str, Query(alias="from", description="first instant; 30 days before `to` without")
    ] = "",
    to: Annotated[str, Query(description="last instant; now without")] = "",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return acknowledgements, resolutions, silences, annotations, decisions and requests.

    Accesses that were refused are counted by hour, person or address, and part of the board.

    Decisions on quarantined rows are kept as long as these are; those on incidents as long as the
    incident, ended silences and refused accesses 30 days, annotations and requests for stacks 90.
    """
    rows = action_rows(view, window_of(from_, to, SPAN), person, action)
    rows = having(rows, cluster=cluster, consumer_group=group)
    listed, following = page(rows, ACTIONS, ACTIONS_NEWEST_FIRST, limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})
