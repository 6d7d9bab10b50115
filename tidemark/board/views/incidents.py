"""Incidents, silences, events and actions of people: their rows, and what a person does to them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.alerting.annotations import UnreadableAnnotationsError
from tidemark.alerting.delivery.silences import Silence, SilenceError, UnreadableSilencesError
from tidemark.alerting.incidents.actions import IncidentError, NoSuchIncidentError
from tidemark.alerting.incidents.incident import OPEN, Incident, with_evidence, with_notifications
from tidemark.alerting.incidents.repository import notifications_as_of, row_as_of
from tidemark.board.http_responses import ProblemError
from tidemark.board.newest import until
from tidemark.board.views.parameters import Order, having, instant_of
from tidemark.board.views.scope import TEAM
from tidemark.board.views.view import Shown, View
from tidemark.host.leases import HeldError
from tidemark.lake.clocks import Window
from tidemark.lake.schema import STRING, STRING_MAP, Column
from tidemark.lake.tables import alerting, progress, quality
from tidemark.lake.typed_rows import dict_rows, plain_rows
from tidemark.model.incidents import ActionKind, IncidentState, Severity
from tidemark.rocketmq.names import DLQ_PREFIX
from tidemark.settings.owners import Owner, Owners
from tidemark.settings.times import seconds

SEVERITIES = tuple(Severity)
STATES = (*OPEN, IncidentState.RESOLVED)
PLACES = {IncidentState.PENDING: 1, IncidentState.RESOLVED: 2}
"""Places of incidents in an order by state; all other states come first."""

SILENCE_STATES = ("ACTIVE", "PLANNED", "ENDED")

DECODED = {
    column.name: column
    for column in (
        Column("evidence", STRING_MAP, "snapshots and row for which the rule was true last"),
        Column("diagnosis", STRING_MAP, "what members did when it first fired; NULL = unknown"),
    )
}

INCIDENTS = replace(
    alerting.INCIDENTS,
    columns=(
        *(DECODED.get(column.name, column) for column in alerting.INCIDENTS.columns),
        Column("row", STRING_MAP, "the columns of that row"),
        TEAM,
        Column("contact", STRING, "how to reach that team, by owners.yaml; NULL = unknown"),
        Column("links", STRING_MAP, "name of a page of that team to its address"),
    ),
)
"""The columns of incidents with their evidence decoded, which the table has as text, and with the
owner of the group."""


def incident_rows(
    rows: Shown, state: str = "", severity: str = "", team: str = ""
) -> list[dict[str, Any]]:
    """Return incidents by state, then by severity, then the newest first.

    Pending incidents follow those whose rule has been true for long enough: they are not notified
    yet, and most of them never fire.

    Args:
        rows: the shown rows.
        state: one of `STATES`, or ``open``; empty for any.
        severity: one of `SEVERITIES`; empty for any.
        team: the team of the group; empty for any.

    Raises:
        ProblemError: there is no such state or severity.
    """
    if state and state.upper() not in (*STATES, "OPEN"):
        raise ProblemError(400, f"state={state!r}: it is open or one of {', '.join(STATES)}")
    if severity and severity not in SEVERITIES:
        raise ProblemError(400, f"severity={severity!r}: it is one of {', '.join(SEVERITIES)}")
    wanted = {"": STATES, "OPEN": OPEN}.get(state.upper(), (state.upper(),))
    incidents = [
        with_owner(with_evidence(row), rows.owners)
        for row in dict_rows(rows.of(alerting.INCIDENTS))
        if row["state"] in wanted and severity in ("", row["severity"])
    ]
    incidents = [row for row in incidents if team in ("", row["team"])]
    incidents.sort(key=lambda row: (row["opened_at"], row["incident_id"]), reverse=True)
    incidents.sort(key=lambda row: (PLACES.get(row["state"], 0), SEVERITIES.index(row["severity"])))
    return incidents


def with_owner(incident: dict[str, Any], owners: Owners) -> dict[str, Any]:
    """Return an incident with decoded evidence and the owner of its group."""
    owner = owners.of(incident["cluster"], group_of(incident["row"]))
    return incident | owner_columns(owner)


def group_of(columns: Mapping[str, Any]) -> str | None:
    """Return the group that columns are about, by its name or that of its dead-letter topic."""
    topic: str = columns.get("topic") or ""
    dead = topic.removeprefix(DLQ_PREFIX) if topic.startswith(DLQ_PREFIX) else None
    return columns.get("consumer_group") or dead


def owner_columns(owner: Owner | None) -> dict[str, Any]:
    """Return the columns that show an owner; unknown without one."""
    if owner is None:
        return {"team": None, "contact": None, "links": {}}
    return {"team": owner.team, "contact": owner.contact or None, "links": dict(owner.links)}


def of_group(rows: Shown, cluster: str, group: str) -> list[dict[str, Any]]:
    """Return the open incidents about a group."""
    return [
        row
        for row in incident_rows(rows, "OPEN")
        if row["cluster"] == cluster and row["row"].get("consumer_group") == group
    ]


def incident_details(
    view: View, rows: Shown, incident_id: str, at: datetime | None = None
) -> dict[str, Any]:
    """Return an incident as it is shown, or as it was, with its notifications.

    An incident that resolved too long ago to be shown is read from the table.

    Raises:
        ProblemError: there is no incident with this id, or it had not opened.
    """
    try:
        incident, notifications = view.incident(incident_id)
    except NoSuchIncidentError:
        raise ProblemError(404, f"no incident {incident_id!r}: GET /api/v1/incidents") from None
    shown = rows.of(alerting.INCIDENTS)
    shown = dict_rows(shown.filter(pc.equal(shown["incident_id"], incident_id)))
    row = shown[0] if shown else plain_rows([incident])[0]
    if at is not None:
        if incident.opened_at > at:
            raise ProblemError(404, f"incident {incident_id!r} had not opened then")
        row, notifications = row_as_of(row, at), notifications_as_of(notifications, at)
    return with_owner(with_notifications(row, notifications), view.owners)


def silence_row(silence: Silence, now: datetime) -> dict[str, Any]:
    """Return a silence as the API shows it."""
    return {
        "silence_id": silence.silence_id,
        "state": silence.state(now),
        "match": {name: list(globs) for name, globs in silence.match.items()},
        "starts_at": silence.starts_at or silence.created_at,
        "until": silence.until,
        "author": silence.author,
        "comment": silence.comment,
        "ended_by": silence.ended_by,
        "end_reason": silence.end_reason or None,
    }


def silence_rows(view: View, now: datetime, state: str = "") -> list[dict[str, Any]]:
    """Return silences, the first to end first.

    Args:
        view: the silences that the person sees.
        now: the present.
        state: one of `SILENCE_STATES`, or ``all``; empty for those that have not ended.

    Raises:
        ProblemError: there is no such state, or they cannot be read.
    """
    if state and state.upper() not in (*SILENCE_STATES, "ALL"):
        raise ProblemError(400, f"state={state!r}: it is all or one of {', '.join(SILENCE_STATES)}")
    wanted = {"": SILENCE_STATES[:2], "ALL": SILENCE_STATES}.get(state.upper(), (state.upper(),))
    try:
        result = view.silences()
    except SilenceError as error:
        raise ProblemError(503, str(error)) from error
    return [silence_row(silence, now) for silence in result if silence.state(now) in wanted]


def do(view: View, action: str, incident_id: str, author: str, reason: str) -> Incident:
    """Acknowledge or resolve an incident, and show the result at once.

    Raises:
        ProblemError: there is no such incident, its state does not allow it, or a tick is writing.
    """
    try:
        return view.act(action, incident_id, author, reason)
    except NoSuchIncidentError:
        raise ProblemError(404, f"no incident {incident_id!r}") from None
    except IncidentError as error:
        raise ProblemError(409, str(error)) from error
    except HeldError as error:
        raise ProblemError(503, "a tick is changing incidents; try again in a minute") from error


def silenced(
    view: View, match: dict[str, tuple[str, ...]], duration: str, author: str, comment: str,
    starts_at: str = "",
) -> Silence:  # fmt: skip
    """Add a silence.

    Raises:
        ProblemError: it is not valid, or silences cannot be read.
    """
    try:
        start = instant_of("starts_at", starts_at) if starts_at else None
        until = (start or datetime.now(UTC)) + timedelta(seconds=seconds(duration))
        return view.silence(match, until, author, comment, start)
    except UnreadableSilencesError as error:
        raise ProblemError(503, str(error)) from error
    except (ValueError, OverflowError) as error:
        raise ProblemError(400, str(error)) from error


ACTIONS_NEWEST_FIRST = Order("at", descending=True)
"""The order of `action_rows`."""


def event_rows(view: View, shown: Shown, window: Window, **equal: str | None) -> pa.Table:
    """Return the events of a window with these values up to the shown instant, in order of time."""
    if view.is_empty:
        return progress.EVENTS.arrow_schema().empty_table()
    known = {name: value for name, value in equal.items() if value is not None}
    rows = view.rows_between(progress.EVENTS, window, known)
    return until(rows, shown.at)


def newest_results(rows: Shown) -> pa.Table:
    """Return the newest result of each expectation of a table."""
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows.of(quality.RESULTS).sort_by("observed_at").to_pylist():
        newest[row["table"], row["expectation"]] = row
    return quality.RESULTS.arrow_table(newest.values())


def action_rows(
    view: View, window: Window, person: str | None = None, action: str | None = None
) -> pa.Table:
    """Return the actions of a window, of one person and of one kind where these are given.

    Raises:
        ProblemError: there is no such kind, or a part of the trail cannot be read.
    """
    if action and action not in tuple(ActionKind):
        raise ProblemError(400, f"action={action!r}: it is one of {', '.join(ActionKind)}")
    try:
        rows = view.actions(window)
    except (UnreadableSilencesError, UnreadableAnnotationsError) as error:
        raise ProblemError(503, str(error)) from error
    return having(rows, author=person or None, action=action or None)
