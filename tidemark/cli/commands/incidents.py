"""`tidemark incidents` and `audit`: incidents, and what people did about them and about rows."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.cli.invocation import CommandError, invocation, me, parse
from tidemark.cli.output import Format, echo, print_rows, table_text, to_json
from tidemark.model.incidents import ActionKind, IncidentState

if TYPE_CHECKING:
    from tidemark.alerting.incidents.incident import Incident
    from tidemark.lake.catalog import Lake

app = typer.Typer(
    no_args_is_help=True, help="Incidents: list, show, ack, resolve, silence, unsilence."
)

COLUMNS = ("incident_id", "state", "severity", "rule", "subject", "opened_at", "last_value")
LISTED = (*COLUMNS, "peak_value", "threshold", "muted")
WORST_QUEUES = 5

NONE, NONE_OPEN = "There is no incident.", "No incident is open."


@app.command("list")
def list_incidents(
    everything: Annotated[bool, typer.Option("--all", help="Resolved incidents too.")] = False,
    limit: Annotated[int, typer.Option(help="Most incidents to print.", min=0)] = 100,
    format: Format = Format.table,
) -> None:
    """Print open incidents, worst first; with --all resolved ones too, newest first."""
    from tidemark.alerting.delivery.messages import SEVERITIES
    from tidemark.alerting.incidents.incident import OPEN
    from tidemark.alerting.incidents.repository import from_rows
    from tidemark.lake.schema import one_of
    from tidemark.lake.tables.alerting import INCIDENTS

    lake = _lake()
    where = None if everything else one_of("state", OPEN)
    incidents = from_rows(lake.read(INCIDENTS, where))
    incidents.sort(key=lambda incident: incident.opened_at, reverse=True)
    if not everything:
        incidents.sort(key=lambda incident: SEVERITIES.index(incident.severity))
    mute_reason = _mute_reasons(lake)
    rows = [_row(incident) | {"muted": mute_reason(incident)} for incident in incidents[:limit]]
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        nothing = invocation().nothing(NONE if everything else NONE_OPEN)
        print_rows(rows, LISTED, nothing=nothing)


@app.command()
def show(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="Id, or its first characters.")],
    format: Format = Format.table,
) -> None:
    """Print one incident: the message, its evidence and its notifications."""
    from tidemark.alerting.delivery.messages import Notification, text
    from tidemark.alerting.delivery.notification_log import notifications_of

    lake = _lake()
    incident = _one(lake, incident_id)
    notifications = notifications_of(lake, incident)
    queues = _queues(lake, incident)
    if format is Format.json:
        typer.echo(to_json(_row(incident) | {"notifications": notifications, "queues": queues}))
        return
    from tidemark.alerting.incidents.incident import Transition
    from tidemark.model.incidents import TransitionKind, TransitionName

    is_over = incident.state == IncidentState.RESOLVED
    state = TransitionName(TransitionKind.RESOLVED if is_over else TransitionKind.FIRING)
    last = incident.transitions[-1] if incident.transitions else None
    transition = last or Transition(state, incident.observed_at)
    notification = Notification(incident=incident, transition=transition)
    echo(text(notification, present=incident.state))
    if incident.acknowledged_by:
        why = f": {incident.acknowledge_reason}" if incident.acknowledge_reason else ""
        echo(f"Acknowledged by: {incident.acknowledged_by}{why}")
    reason = _mute_reasons(lake)(incident)
    if reason:
        echo(f"Muted: {reason}")
    if queues:
        names = ("broker", "queue_id", "readable_lag", "lost", "delay_ms", "condition")
        echo("\n" + table_text(queues, names, "Queues"))
    if notifications:
        names = ("transition", "channel", "status", "attempts", "delivered_at", "last_error")
        echo("\n" + table_text(notifications, names, "Notifications"))


Reason = Annotated[str, typer.Option("--reason", help="Why, in words.")]


@app.command()
def ack(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="Id, or its first characters.")],
    author: Annotated[str, typer.Option("--author", help="Who acknowledges it.")] = "",
    reason: Reason = "",
) -> None:
    """Acknowledge a firing incident."""
    from tidemark.alerting.incidents.actions import IncidentError, acknowledge

    lake = _lake()
    incident = _one(lake, incident_id)
    try:
        after = acknowledge(lake, incident.incident_id, author or me(), reason)
    except IncidentError as error:
        raise CommandError(str(error)) from error
    echo(
        f"{after.incident_id} {after.rule} {after.subject}: acknowledged by {after.acknowledged_by}"
    )


@app.command("resolve")
@app.command()
def close(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="Id, or its first characters.")],
    author: Annotated[str, typer.Option("--author", help="Who closes it.")] = "",
    reason: Reason = "",
) -> None:
    """Resolve an incident by hand, such as one of a cluster that no longer exists.

    Channels that notified its firing notify the resolution. It reopens when its rule is true again.
    """
    from tidemark.alerting.incidents.actions import IncidentError, resolve

    lake = _lake()
    incident = _one(lake, incident_id)
    try:
        after = resolve(lake, incident.incident_id, author or me(), reason)
    except IncidentError as error:
        raise CommandError(str(error)) from error
    echo(f"{after.incident_id} {after.rule} {after.subject}: closed")


Glob = Annotated[list[str] | None, typer.Option(help="Globs (* and ?); repeatable.")]


@app.command()
def silence(
    duration: Annotated[str, typer.Option("--for", help="How long: 30m, 2h, 1d.")],
    rule: Glob = None,
    severity: Glob = None,
    cluster: Glob = None,
    group: Glob = None,
    topic: Glob = None,
    broker: Glob = None,
    author: Annotated[str, typer.Option(help="Who makes the silence.")] = "",
    comment: Annotated[str, typer.Option(help="Why; required.")] = "",
    start: Annotated[
        str, typer.Option("--from", help="When it starts, ISO 8601; UTC without a zone.")
    ] = "",
) -> None:
    """Mute matching incidents for a while, now or from a planned start.

    Those that are still open at the end are notified then.
    """
    from tidemark.alerting.delivery.silences import SilenceError, UnreadableSilencesError
    from tidemark.alerting.delivery.silences import silence as add
    from tidemark.settings.times import seconds

    try:
        length = timedelta(seconds=seconds(duration))
    except ValueError as error:
        raise typer.BadParameter(f"--for: {error}") from error
    given = {
        "rule": rule,
        "severity": severity,
        "cluster": cluster,
        "consumer_group": group,
        "topic": topic,
        "broker": broker,
    }
    match = {name: tuple(globs) for name, globs in given.items() if globs}
    if not match:
        raise typer.BadParameter(
            "name what to silence by at least one of --rule, --severity, --cluster, --group, "
            "--topic and --broker, e.g. --group billing"
        )
    starts_at = parse(start) if start else None
    try:
        until = (starts_at or datetime.now(UTC)) + length
        made = add(invocation().shared, match, until, author or me(), comment, starts_at=starts_at)
    except UnreadableSilencesError as error:
        raise CommandError(str(error)) from error
    except (SilenceError, OverflowError) as error:
        raise typer.BadParameter(str(error)) from error
    since = f"from {made.starts_at:%Y-%m-%d %H:%M:%S} UTC " if made.starts_at else ""
    echo(f"{made.silence_id} {since}until {made.until:%Y-%m-%d %H:%M:%S} UTC")


@app.command()
def unsilence(
    silence_id: Annotated[str, typer.Argument(metavar="ID", help="As `silences` prints it.")],
    author: Annotated[str, typer.Option("--author", help="Who ends it.")] = "",
    reason: Reason = "",
) -> None:
    """End a silence before its time."""
    from tidemark.alerting.delivery.silences import SilenceError
    from tidemark.alerting.delivery.silences import unsilence as end

    try:
        ended = end(invocation().shared, silence_id, author or me(), reason)
    except SilenceError as error:
        raise CommandError(str(error)) from error
    echo(f"{ended.silence_id} ended")


@app.command()
def silences(
    everything: Annotated[bool, typer.Option("--all", help="Ended silences too.")] = False,
    format: Format = Format.table,
) -> None:
    """Print the silences in force, and those planned; with --all those ended within 30 days too."""
    from tidemark.alerting.delivery.silences import silences as known

    now = datetime.now(UTC)
    rows: list[dict[str, Any]] = [
        {
            "silence_id": item.silence_id,
            "match": ", ".join(f"{name}={'|'.join(globs)}" for name, globs in item.match.items()),
            "state": item.state(now),
            "starts_at": item.starts_at or item.created_at,
            "until": item.until,
            "author": item.author,
            "comment": item.comment,
            "ended_by": item.ended_by,
            "end_reason": item.end_reason or None,
        }
        for item in known(invocation().shared.state)
        if everything or item.state(now) != "ENDED"
    ]
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        names = ("silence_id", "state", "match", "starts_at", "until", "author", "comment")
        print_rows(
            rows,
            (*names, "ended_by", "end_reason") if everything else names,
            nothing="No silence." if everything else "No silence is in force or planned.",
        )


def _lake() -> "Lake":
    return invocation().lake


def _one(lake: "Lake", incident_id: str) -> "Incident":
    """Return the incident whose id starts so.

    Raises:
        CommandError: none or more than one does.
    """
    from tidemark.alerting.incidents.actions import IncidentError, one_incident

    try:
        return one_incident(lake, incident_id)
    except IncidentError as error:
        raise CommandError(str(error)) from error


def _row(incident: "Incident") -> dict[str, Any]:
    from tidemark.lake.typed_rows import plain_rows

    return plain_rows([incident])[0] | {"evidence": incident.details}


def _mute_reasons(lake: "Lake") -> Callable[["Incident"], str | None]:
    """Return the `mute_reason` of an incident by the present silences and rules."""
    from tidemark.alerting.delivery.silences import mute_reason, mutes
    from tidemark.alerting.delivery.silences import silences as known
    from tidemark.alerting.rules.files import rules_path, valid_rules

    rules, _ = valid_rules(rules_path(invocation().settings.rules))
    present = mutes(known(lake.shared.state), rules)
    return lambda incident: mute_reason(incident, present, datetime.now(UTC))


def _queues(lake: "Lake", incident: "Incident") -> list[dict[str, Any]]:
    """Return the worst queues at the newest snapshot of the evidence."""
    from tidemark.alerting.rules.kinds import GROUPS, KINDS
    from tidemark.lake.clocks import Window
    from tidemark.lake.schema import window_filter
    from tidemark.lake.tables.progress import QUEUES

    if KINDS[incident.kind].source != GROUPS:
        return []
    moment = Window.through(incident.last_true_at, incident.last_true_at)
    rows = lake.read(QUEUES, window_filter(QUEUES, moment)).to_pylist()
    subject = {name: incident.row.get(name) for name in ("cluster", "consumer_group", "topic")}
    mine = [row for row in rows if all(row[name] == value for name, value in subject.items())]
    mine.sort(key=lambda row: (-(row["lost"] or 0), -(row["lag_upper"] or 0)))
    return mine[:WORST_QUEUES]


audit_app = typer.Typer()

AUDIT_COLUMNS = ("at", "author", "action", "on", "reason", "requests")


@audit_app.command()
def audit(
    days: Annotated[int, typer.Option(help="Of so many days, until now.", min=1, max=90)] = 30,
    person: Annotated[str, typer.Option(help="Only of this person.")] = "",
    action: Annotated[
        ActionKind | None, typer.Option(help="Only of this kind; refused ones only so.")
    ] = None,
    cluster: Annotated[str, typer.Option(help="Only on this cluster.")] = "",
    group: Annotated[str, typer.Option(help="Only on this consumer group.")] = "",
    limit: Annotated[int, typer.Option(help="Most actions to print.", min=1)] = 100,
    format: Format = Format.table,
) -> None:
    """Print what people did, the newest first: who, when, on what and why.

    Accesses that the board refused are counted by hour; --action refused prints them.
    """
    from tidemark.alerting.audit_trail import sources_of, trail
    from tidemark.lake.clocks import MICROSECOND, Window
    from tidemark.lake.typed_rows import dict_rows

    now = datetime.now(UTC)
    window = Window(now - timedelta(days=days), now + MICROSECOND)
    wanted = {"author": person, "action": action, "cluster": cluster, "consumer_group": group}
    rows = [
        row
        for row in dict_rows(trail(sources_of(invocation().lake, window), window))
        if (action or row["action"] != ActionKind.REFUSED)
        and all(row[name] == value for name, value in wanted.items() if value)
    ]
    if format is Format.json:
        typer.echo(to_json(rows[:limit]))
        return
    nothing = invocation().nothing("Nobody did anything that fits in this time.")
    print_rows([row | {"on": _about(row)} for row in rows[:limit]], AUDIT_COLUMNS, nothing=nothing)
    if len(rows) > limit:
        typer.echo(f"{len(rows) - limit:,} more: --limit {len(rows)}")


def _about(row: dict[str, Any]) -> str:
    """Return what an action was about, as a person reads it."""
    group = " ".join(row[name] for name in ("consumer_group", "topic") if row[name])
    about = row["subject"] or group or "everything"
    return f"{about} ({row['rows']:,} rows)" if (row["rows"] or 1) > 1 else about
