"""Pages of incidents: evidence, notifications, and the actions of a person."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Form, Request, Response
from starlette.responses import RedirectResponse

from alerting.delivery.messages import observed
from alerting.delivery.silences import KEPT, unsilence
from alerting.incidents.incident import Incident
from alerting.rules.kinds import KINDS
from board.api.incidents import do, silenced
from board.dependencies import ThePerson, TheStore
from board.incident_rows import SEVERITIES, STATES, incident_details, incident_rows, silence_rows
from board.pages.group_charts import GroupCharts
from board.pages.layout import ThePage, address, check_form
from board.responses import ProblemError
from lake.window import MICROSECOND, Window

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Form()]

LONGEST = timedelta(days=30)
"""Time of the charts of an incident at most."""


@router.get("/incidents")
def incidents(page: ThePage, state: str = "open", severity: str = "") -> Response:
    """Show incidents, those open and worst first, and the silences."""
    wanted = "" if state == "all" else state
    return page.render(
        "incidents.html",
        incidents=incident_rows(page.rows, wanted, severity)[:500],
        silences=silence_rows(page.store.lake.shared.state, datetime.now(UTC)),
        ended=silence_rows(page.store.lake.shared.state, datetime.now(UTC), "ended")[::-1],
        days_kept=KEPT.days,
        state=state,
        severity=severity,
        states=("open", "all", *STATES),
        severities=SEVERITIES,
        units={name: kind.unit for name, kind in KINDS.items()},
    )


@router.get("/incident")
def incident(page: ThePage, id: str) -> Response:
    """Show an incident as it is now, or as it was."""
    found = incident_details(page.store.lake, page.rows, id, page.instant)
    kind = KINDS.get(found["kind"])
    of = found["row"]
    cluster, group, topic = found["cluster"], of.get("consumer_group"), of.get("topic")
    charts = []
    if group and topic and cluster in page.rows.at:
        window = _around(found, page.instant or datetime.now(UTC))
        charts = GroupCharts(
            page.store, page.rows, window, cluster, group, topic, page.incident
        ).charts
    return page.render(
        "incident.html",
        incident=found,
        unit=kind.unit if kind else "",
        hint=kind.hint if kind else "",
        summary=observed(_as_incident(found), page.phrase)
        if kind and found["last_true_at"]
        else "",
        runbook=found["evidence"].get("runbook") or "",
        group=group,
        charts=charts,
    )


def _as_incident(row: Mapping[str, Any]) -> Incident:
    """Return a row that pages show as the incident that messages are made of."""
    evidence = msgspec.json.encode(row["evidence"]).decode()
    known = {name: row[name] for name in Incident.__struct_fields__ if row.get(name) is not None}
    return msgspec.convert(known | {"evidence": evidence}, Incident)


def _around(incident: Mapping[str, Any], now: datetime) -> Window:
    """Return from a while before an incident opened to a while after it, or now."""
    opened: datetime = incident["opened_at"]
    end: datetime = incident["resolved_at"] or max(opened, now)
    margin = max(timedelta(minutes=15), (end - opened) / 4)
    last = max(end, min(end + margin, now))
    return Window(max(opened - margin, last - LONGEST), last + MICROSECOND)


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
    starts_at: Text = "",
) -> Response:
    """Mute matching incidents for a while, now or from a planned start, then show all silences."""
    check_form(request, token)
    given = {
        "rule": rule,
        "cluster": cluster,
        "consumer_group": consumer_group,
        "topic": topic,
    }
    match = {name: (glob.strip(),) for name, glob in given.items() if glob.strip()}
    silenced(store, match, duration, person.name, comment[:1000], starts_at)
    return RedirectResponse("/incidents", 303)


@router.post("/unsilence")
def end_silence(
    request: Request, store: TheStore, person: ThePerson, id: Text, token: Text, reason: Text = ""
) -> Response:
    """End a silence, then show those that are left."""
    check_form(request, token)
    try:
        unsilence(store.lake.shared, id, person.name, reason[:1000])
    except ValueError as error:
        raise ProblemError(404, str(error)) from error
    return RedirectResponse("/incidents", 303)
