"""``/incidents`` and ``/silences``: incidents, and the actions of people on them."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from tidemark.alerting.delivery.silences import SilenceError, UnreadableSilencesError
from tidemark.alerting.incidents.incident import Incident
from tidemark.board.dependencies import At, Cursor, JsonOnly, Limit, ThePerson, TheView
from tidemark.board.http_responses import (
    ProblemError,
    details_model,
    json_response,
    object_model,
    page_model,
    page_of,
)
from tidemark.board.views.incidents import (
    INCIDENTS,
    do,
    incident_details,
    incident_rows,
    silence_row,
    silence_rows,
    silenced,
)
from tidemark.board.views.parameters import page_of_list, shown
from tidemark.board.views.view import View
from tidemark.lake.tables import alerting

router = APIRouter(tags=["incidents"])

LONGEST_REASON = 1000


class Act(BaseModel):
    """The reason of an action; the login names the person."""

    model_config = ConfigDict(extra="forbid", strict=True)
    reason: str = Field("", max_length=LONGEST_REASON, description="why, in words")


class NewSilence(BaseModel):
    """A silence to create: the incidents that it mutes, how long and why."""

    model_config = ConfigDict(extra="forbid", strict=True)
    match: dict[str, list[str]] = Field(
        description="column (rule, severity, cluster, consumer_group, topic, broker) to globs"
    )
    duration: str = Field(description="how long: 30m, 2h, 1d")
    comment: str = Field(max_length=LONGEST_REASON, description="why, in words")
    starts_at: str | None = Field(None, description="ISO 8601; now without")


_DETAILS = details_model(INCIDENTS, notifications=alerting.NOTIFICATIONS)
_SILENCE = object_model(
    "SilenceRow",
    "A silence: incidents that it matches are muted until it ends.",
    silence_id=(str, "its id"),
    state=(str, "ACTIVE, PLANNED or ENDED"),
    match=(dict[str, list[str]], "column to globs, of which one must match"),
    starts_at=(datetime, "when it starts"),
    until=(datetime, "when it ends"),
    author=(str, "the person who added it"),
    comment=(str, "why, in words"),
    ended_by=(str, "the person who ended it before its time"),
    end_reason=(str, "why it was ended"),
)


@router.get(
    "/incidents",
    summary="Incidents, open ones first",
    responses={200: {"model": page_model(INCIDENTS)}},
)
def incidents(
    view: TheView,
    state: Annotated[str, Query(description="a state, or `open`")] = "",
    severity: Annotated[str, Query(description="critical, warning or info")] = "",
    team: Annotated[str, Query(description="only of groups of this team")] = "",
    at: At = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return rows of ``alerting.incidents``: those open, and those resolved within 30 days."""
    rows = incident_rows(shown(view, at), state, severity, team)
    chosen, following = page_of_list(rows, "incident_id", limit, cursor)
    return json_response({"items": chosen, "next_cursor": following})


@router.get(
    "/incidents/{incident_id}",
    summary="An incident, its evidence and notifications",
    responses={200: {"model": _DETAILS}},
)
def incident(view: TheView, incident_id: str) -> Response:
    """Return an incident of any age, with transitions and who was notified."""
    return json_response(incident_details(view, view.newest, incident_id))


@router.post(
    "/incidents/{incident_id}/acknowledge",
    summary="Acknowledge it",
    dependencies=[JsonOnly],
    responses={200: {"model": _DETAILS}},
)
def acknowledge_it(
    view: TheView, person: ThePerson, incident_id: str, act: Act | None = None
) -> Response:
    """Acknowledge a firing incident in the name of the person."""
    return _after(
        view, do(view, "acknowledge", incident_id, person.name, act.reason if act else "")
    )


@router.post(
    "/incidents/{incident_id}/resolve",
    summary="Resolve it",
    dependencies=[JsonOnly],
    responses={200: {"model": _DETAILS}},
)
def resolve_it(
    view: TheView, person: ThePerson, incident_id: str, act: Act | None = None
) -> Response:
    """Resolve an open incident by hand; it reopens when its rule is true again."""
    return _after(view, do(view, "resolve", incident_id, person.name, act.reason if act else ""))


@router.get(
    "/silences",
    summary="Silences in force, and planned",
    responses={200: {"model": page_of(_SILENCE)}},
)
def all_silences(
    view: TheView,
    state: Annotated[str, Query(description="a state, or `all`; without, not ENDED")] = "",
) -> Response:
    """Return silences; those that have ended are kept for 30 days."""
    rows = silence_rows(view, datetime.now(UTC), state)
    return json_response({"items": rows, "next_cursor": None})


@router.post(
    "/silences",
    summary="Mute matching incidents for a while",
    dependencies=[JsonOnly],
    status_code=201,
    responses={201: {"model": _SILENCE}},
)
def add_silence(view: TheView, person: ThePerson, wanted: NewSilence) -> Response:
    """Add a silence in the name of the person."""
    match = {name: tuple(globs) for name, globs in wanted.match.items() if globs}
    made = silenced(
        view, match, wanted.duration, person.name, wanted.comment, wanted.starts_at or ""
    )
    return json_response(silence_row(made, datetime.now(UTC)), 201)


@router.delete("/silences/{silence_id}", summary="End a silence", status_code=204)
def end_silence(
    view: TheView,
    person: ThePerson,
    silence_id: str,
    reason: Annotated[str, Query(max_length=LONGEST_REASON, description="why, in words")] = "",
) -> Response:
    """End a silence in the name of the person; what it muted and is still open is notified then."""
    try:
        view.unsilence(silence_id, person.name, reason)
    except UnreadableSilencesError as error:
        raise ProblemError(503, str(error)) from error
    except SilenceError as error:
        raise ProblemError(404, str(error)) from error
    return Response(status_code=204)


def _after(view: View, incident: Incident) -> Response:
    try:
        values: dict[str, Any] = incident_details(view, view.newest, incident.incident_id)
    except ProblemError:
        # It never fired, so nothing is left of it.
        values = {"incident_id": incident.incident_id, "state": incident.state}
    return json_response(values)
