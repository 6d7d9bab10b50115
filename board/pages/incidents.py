"""Incidents: what is wrong, its evidence, who was notified, and what a person does about it."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from starlette.responses import RedirectResponse

from alerting.delivery.silences import unsilence
from alerting.rules.kinds import KINDS
from board.api.incidents import do, silenced
from board.dependencies import ThePerson, TheStore
from board.incident_rows import SEVERITIES, STATES, incident_details, incident_rows, silence_rows
from board.pages.layout import ThePage, address, check_form
from board.responses import ProblemError

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Form()]


@router.get("/incidents")
def incidents(page: ThePage, state: str = "open", severity: str = "") -> Response:
    """Show incidents, those open and worst first, and the silences."""
    wanted = "" if state == "all" else state
    return page.render(
        "incidents.html",
        incidents=incident_rows(page.rows, wanted, severity)[:500],
        silences=silence_rows(page.store.lake.shared.state, datetime.now(UTC)),
        state=state,
        severity=severity,
        states=("open", "all", *STATES),
        severities=SEVERITIES,
    )


@router.get("/incident")
def incident(page: ThePage, id: str) -> Response:
    """Show an incident as it is now."""
    found = incident_details(page.store.lake, id)
    kind = KINDS.get(found["kind"])
    return page.render(
        "incident.html",
        incident=found,
        unit=kind.unit if kind else "",
        hint=kind.hint if kind else "",
        group=found["row"].get("consumer_group"),
    )


@router.post("/incident/act")
def act(
    request: Request,
    store: TheStore,
    person: ThePerson,
    id: Text,
    action: Text,
    token: Text,
    reason: Text = "",
) -> Response:
    """Acknowledge or resolve an incident, then show it."""
    check_form(request, token)
    if action not in ("acknowledge", "resolve"):
        raise ProblemError(400, f"{action!r} is nothing that can be done with an incident")
    after = do(store, action, id, person.name, reason[:1000])
    where = {"id": after.incident_id} if after.fired_at else {}
    return RedirectResponse(address("/incident" if where else "/incidents", where), 303)


@router.post("/silence")
def silence(
    request: Request,
    store: TheStore,
    person: ThePerson,
    duration: Text,
    token: Text,
    comment: Text = "",
    rule: Text = "",
    cluster: Text = "",
    consumer_group: Text = "",
    topic: Text = "",
) -> Response:
    """Mute what matches for a while, then show all silences."""
    check_form(request, token)
    given = {
        "rule": rule,
        "cluster": cluster,
        "consumer_group": consumer_group,
        "topic": topic,
    }
    match = {name: (glob.strip(),) for name, glob in given.items() if glob.strip()}
    silenced(store, match, duration, person.name, comment[:1000])
    return RedirectResponse("/incidents", 303)


@router.post("/unsilence")
def end_silence(request: Request, store: TheStore, id: Text, token: Text) -> Response:
    """End a silence, then show those that are left."""
    check_form(request, token)
    try:
        unsilence(store.lake.shared, id)
    except ValueError as error:
        raise ProblemError(404, str(error)) from error
    return RedirectResponse("/incidents", 303)
