"""Incidents: evidence, notifications, silences, and what people did, there and elsewhere."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
import pyarrow.compute as pc
from fastapi import APIRouter, Form, Request, Response
from starlette.responses import RedirectResponse

from tidemark.alerting.audit_trail import ACTIONS
from tidemark.alerting.delivery.messages import Phrase, observed
from tidemark.alerting.delivery.silences import KEPT
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.rules.kinds import KINDS
from tidemark.board.dependencies import ThePerson, TheView
from tidemark.board.http_responses import ProblemError
from tidemark.board.pages.charts import GroupCharts
from tidemark.board.pages.layout import Page, ThePage, address, check_form
from tidemark.board.pages.sparklines import sparkline
from tidemark.board.pages.timeline import steps
from tidemark.board.pages.why import address_of_runbook, why_of_incident
from tidemark.board.views.groups import rows_of_group
from tidemark.board.views.incidents import (
    ACTIONS_NEWEST_FIRST,
    SEVERITIES,
    STATES,
    action_rows,
    do,
    incident_details,
    incident_rows,
    silence_rows,
    silenced,
)
from tidemark.board.views.parameters import having
from tidemark.board.views.parameters import page as page_of
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.tables import progress
from tidemark.lake.typed_rows import converted, dict_rows
from tidemark.model.incidents import ActionKind
from tidemark.rocketmq.names import DLQ_PREFIX

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Form()]

MOST = 500
"""Incidents of the list at most; the API has all of them."""

DIFFERING = "inconsistent_subscription"
"""Kind of the rule about members that subscribe differently."""

LONGEST = timedelta(days=30)
"""Time of the charts of an incident at most."""


@router.get("/incidents")
def incidents(page: ThePage, state: str = "open", severity: str = "", team: str = "") -> Response:
    """Show incidents, those open and worst first, and the silences."""
    wanted = "" if state == "all" else state
    rows = incident_rows(page.rows, wanted, severity, team)
    return page.render(
        "incidents.html",
        incidents=listed(page, rows[:MOST]),
        count=len(rows),
        silences=silence_rows(page.view, datetime.now(UTC)),
        ended=silence_rows(page.view, datetime.now(UTC), "ended")[::-1],
        days_kept=KEPT.days,
        state=state,
        severity=severity,
        states=("open", "all", *STATES),
        severities=SEVERITIES,
        team=team,
        teams=page.view.team_names,
    )


def listed(page: Page, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return incidents as lists show them.

    Each has its ``age`` in seconds, a ``summary`` in one line, its ``group``, and the trend of the
    group as ``spark``.
    """
    trends = page.trends
    return [
        {
            **row,
            "age": ((row["resolved_at"] or page.now) - row["opened_at"]).total_seconds(),
            "summary": summary(row, page.phrase),
            "group": (group := row["row"].get("consumer_group")),
            "spark": sparkline(trends.of(row["cluster"], group, row["row"].get("topic")))
            if group
            else None,
        }
        for row in rows
    ]


def summary(row: Mapping[str, Any], phrase: Phrase) -> str:
    """Return what was observed in one line; empty where no rule of this program words it."""
    if row["kind"] not in KINDS or not row["last_true_at"]:
        return ""
    return observed(_as_incident(row), phrase)


@router.get("/incident")
def incident(page: ThePage, id: str) -> Response:
    """Show an incident as it is now, or as it was."""
    row = incident_details(page.view, page.rows, id, page.instant)
    kind = KINDS.get(row["kind"])
    of = row["row"]
    cluster, group, topic = row["cluster"], of.get("consumer_group"), of.get("topic")
    charts = []
    # The group of a dead-letter topic has no offsets there, so no past.
    if group and topic and not topic.startswith(DLQ_PREFIX) and cluster in page.rows.at:
        window = _around(row, page.now)
        charts = GroupCharts(page.view, page.rows, window, cluster, group, topic, page.words).charts
    return page.render(
        "incident.html",
        incident=row,
        unit=kind.unit if kind else "",
        hint=kind.hint if kind else "",
        summary=summary(row, page.phrase),
        runbook=(runbook := row["evidence"].get("runbook") or ""),
        runbook_address=address_of_runbook(page, runbook),
        group=group,
        age=((row["resolved_at"] or page.now) - row["opened_at"]).total_seconds(),
        steps=steps(row),
        differing=_differing(page, cluster, group) if row["kind"] == DIFFERING else [],
        charts=charts,
        why=why_of_incident(page, row),
    )


def _differing(page: Page, cluster: str, group: str) -> list[dict[str, Any]]:
    """Return what each member of a group reported to subscribe to."""
    rows = rows_of_group(page.rows, progress.SUBSCRIPTIONS, cluster, group)
    return [member for row in rows for member in row["evidence"] or ()]


def _as_incident(row: Mapping[str, Any]) -> Incident:
    """Return a row that pages show as the incident that messages are made of."""
    evidence = msgspec.json.encode(row["evidence"]).decode()
    known = {name: row[name] for name in Incident.__struct_fields__ if row.get(name) is not None}
    return converted(known | {"evidence": evidence, "diagnosis": None}, Incident)


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
    view: TheView,
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
    after = do(view, action, id, person.name, reason[:1000])
    where = {"id": after.incident_id} if after.fired_at else {}
    return RedirectResponse(address("/incident" if where else "/incidents", where), 303)


@router.post("/silence")
def silence(
    request: Request,
    view: TheView,
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
    silenced(view, match, duration, person.name, comment[:1000], starts_at)
    return RedirectResponse("/incidents", 303)


@router.post("/unsilence")
def end_silence(
    request: Request, view: TheView, person: ThePerson, id: Text, token: Text, reason: Text = ""
) -> Response:
    """End a silence, then show those that are left."""
    check_form(request, token)
    try:
        view.unsilence(id, person.name, reason[:1000])
    except ValueError as error:
        raise ProblemError(404, str(error)) from error
    return RedirectResponse("/incidents", 303)


MOST_ACTIONS = 100
"""Actions of a page."""

SPANS = (1, 7, 30, 90)
"""Days that a person may choose."""


@router.get("/audit")
def audit(
    page: ThePage, days: int = 30, person: str = "", action: str = "", cursor: str | None = None
) -> Response:
    """Show actions of people, the newest first; refused accesses where these are chosen.

    Whoever repeats refused requests must not move actions to later pages.
    """
    if not 1 <= days <= max(SPANS):
        raise ProblemError(400, f"days: 1 to {max(SPANS)} is wanted")
    window = Window(page.now - timedelta(days=days), page.now + MICROSECOND)
    of_all = action_rows(page.view, window, action=action)
    if not action:
        of_all = of_all.filter(pc.not_equal(of_all["action"], ActionKind.REFUSED.value))
    rows = having(of_all, author=person or None)
    actions, following = page_of(rows, ACTIONS, ACTIONS_NEWEST_FIRST, MOST_ACTIONS, cursor)
    people = set(of_all["author"].to_pylist()) | ({person} if person else set())
    return page.render(
        "audit.html",
        actions=[row | {"link": _link(page, row)} for row in dict_rows(actions)],
        count=rows.num_rows,
        following=following,
        chosen={"days": days, "person": person, "action": action},
        people=sorted(people),
        kinds=tuple(ActionKind),
        spans=SPANS,
    )


def _link(page: Page, row: dict[str, Any]) -> str:
    """Return the address of what was acted on; empty where no page shows it alone."""
    if row["action"] in (ActionKind.ACKNOWLEDGED, ActionKind.RESOLVED):
        return page.incident(row["target"])
    if row["cluster"] and row["consumer_group"]:
        return page.url(
            "/group", cluster=row["cluster"], group=row["consumer_group"], topic=row["topic"]
        )
    return ""
