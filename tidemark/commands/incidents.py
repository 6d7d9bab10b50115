"""`tidemark incidents`: list, show, acknowledge and close incidents, and silence them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.errors import CommandError
from tidemark.invocation import invocation
from tidemark.output import Format, print_rows, table_text, to_json
from tidemark.person import me

if TYPE_CHECKING:
    from alerting.incidents.incident import Incident
    from lake.catalog import Lake

app = typer.Typer(
    no_args_is_help=True, help="Incidents: list, show, ack, close, silence, unsilence."
)

COLUMNS = ("incident_id", "state", "severity", "rule", "subject", "opened_at", "last_value")
LISTED = (*COLUMNS, "peak_value", "threshold", "muted")
WORST_QUEUES = 5


@app.command("list")
def list_incidents(
    everything: Annotated[bool, typer.Option("--all", help="Resolved incidents too.")] = False,
    limit: Annotated[int, typer.Option(help="Most incidents to print.", min=0)] = 100,
    format: Format = Format.table,
) -> None:
    """Print open incidents, worst first; with --all resolved ones too, newest first."""
    from alerting.delivery.messages import SEVERITIES
    from alerting.incidents.incident import OPEN
    from alerting.incidents.repository import from_rows
    from lake.conditions import one_of
    from lake.tables.alerting import INCIDENTS

    lake = _lake()
    where = None if everything else one_of("state", OPEN)
    found = from_rows(lake.read(INCIDENTS, where))
    found.sort(key=lambda each: each.opened_at, reverse=True)
    if not everything:
        found.sort(key=lambda each: SEVERITIES.index(each.severity))
    mute_reason = _mute_reasons(lake)
    rows = [_row(each) | {"muted": mute_reason(each)} for each in found[:limit]]
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        print_rows(rows, LISTED)


@app.command()
def show(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="Id, or its first characters.")],
    format: Format = Format.table,
) -> None:
    """Print one incident: the message, its evidence and its notifications."""
    from alerting.delivery.messages import Notification, text
    from alerting.delivery.outbox import notifications_of

    lake = _lake()
    incident = _one(lake, incident_id)
    notifications = notifications_of(lake, incident)
    queues = _queues(lake, incident)
    if format is Format.json:
        typer.echo(to_json(_row(incident) | {"notifications": notifications, "queues": queues}))
        return
    from alerting.incidents.incident import Transition

    state = "RESOLVED" if incident.state == "RESOLVED" else "FIRING"
    last = incident.transitions[-1] if incident.transitions else None
    typer.echo(text(Notification(incident, last or Transition(state, incident.observed_at))))
    typer.echo(f"State: {incident.state}")
    if incident.acknowledged_by:
        typer.echo(f"Acknowledged by: {incident.acknowledged_by}")
    reason = _mute_reasons(lake)(incident)
    if reason:
        typer.echo(f"Muted: {reason}")
    if queues:
        names = ("broker", "queue_id", "readable_lag", "lost", "delay_ms", "condition")
        typer.echo("\n" + table_text(queues, names, "Queues"))
    if notifications:
        names = ("transition", "channel", "status", "attempts", "delivered_at", "last_error")
        typer.echo("\n" + table_text(notifications, names, "Notifications"))


@app.command()
def ack(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="Id, or its first characters.")],
    author: Annotated[str, typer.Option("--author", help="Who acknowledges it.")] = "",
) -> None:
    """Acknowledge a firing incident."""
    from alerting.incidents.life_cycle import acknowledged
    from alerting.incidents.repository import incidents_lock, save

    lake = _lake()
    with incidents_lock(lake):
        incident = _one(lake, incident_id)
        try:
            after = acknowledged(incident, author or me(), datetime.now(UTC))
        except ValueError as error:
            raise CommandError(str(error)) from error
        save(lake, [incident], [after])
    typer.echo(
        f"{after.incident_id} {after.rule} {after.subject}: acknowledged by {after.acknowledged_by}"
    )


@app.command()
def close(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="Id, or its first characters.")],
    author: Annotated[str, typer.Option("--author", help="Who closes it.")] = "",
) -> None:
    """Resolve an incident by hand, such as one of a cluster that no longer exists.

    Channels that notified its firing notify the resolution. It reopens when its rule is true again.
    """
    from alerting.incidents.life_cycle import closed
    from alerting.incidents.repository import incidents_lock, save

    lake = _lake()
    with incidents_lock(lake):
        incident = _one(lake, incident_id)
        if not incident.is_open:
            raise CommandError(f"incident {incident.incident_id} is {incident.state} already")
        after = closed(incident, datetime.now(UTC), f"by {author or me()}")
        save(lake, [incident], [after] if after else [])
    typer.echo(f"{incident.incident_id} {incident.rule} {incident.subject}: closed")


Glob = Annotated[list[str] | None, typer.Option(help="Globs (* and ?); repeatable.")]


@app.command()
def silence(
    duration: Annotated[str, typer.Option("--for", help="How long: 30m, 2h, 1d.")],
    rule: Glob = None,
    cluster: Glob = None,
    group: Glob = None,
    topic: Glob = None,
    broker: Glob = None,
    author: Annotated[str, typer.Option(help="Who makes the silence.")] = "",
    comment: Annotated[str, typer.Option(help="Why.")] = "",
) -> None:
    """Mute matching incidents for a while. Those still open at the end are notified then."""
    from alerting.delivery.silences import SilenceError
    from alerting.delivery.silences import silence as add
    from settings.durations import seconds

    try:
        length = timedelta(seconds=seconds(duration))
    except ValueError as error:
        raise typer.BadParameter(f"--for: {error}") from error
    given = {
        "rule": rule,
        "cluster": cluster,
        "consumer_group": group,
        "topic": topic,
        "broker": broker,
    }
    match = {name: tuple(globs) for name, globs in given.items() if globs}
    try:
        made = add(invocation().home, match, datetime.now(UTC) + length, author or me(), comment)
    except SilenceError as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo(f"{made.silence_id} until {made.until:%Y-%m-%d %H:%M:%S} UTC")


@app.command()
def unsilence(
    silence_id: Annotated[str, typer.Argument(metavar="ID", help="As `silences` prints it.")],
) -> None:
    """End a silence."""
    from alerting.delivery.silences import SilenceError
    from alerting.delivery.silences import unsilence as end

    try:
        ended = end(invocation().home, silence_id)
    except SilenceError as error:
        raise CommandError(str(error)) from error
    typer.echo(f"{ended.silence_id} ended")


@app.command()
def silences(format: Format = Format.table) -> None:
    """Print the silences in force."""
    from alerting.delivery.silences import silences as known

    now = datetime.now(UTC)
    rows: list[dict[str, Any]] = [
        {
            "silence_id": each.silence_id,
            "match": ", ".join(f"{name}={'|'.join(globs)}" for name, globs in each.match.items()),
            "until": each.until,
            "author": each.author,
            "comment": each.comment,
        }
        for each in known(invocation().home)
        if each.until > now
    ]
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        print_rows(rows, ("silence_id", "match", "until", "author", "comment"))


def _lake() -> "Lake":
    return invocation().lake


def _one(lake: "Lake", incident_id: str) -> "Incident":
    """Return the incident whose id starts so.

    Raises:
        CommandError: none or more than one does.
    """
    from pyiceberg.expressions import StartsWith

    from alerting.incidents.repository import from_rows
    from lake.tables.alerting import INCIDENTS

    where = StartsWith("incident_id", incident_id)  # pyright: ignore
    found = from_rows(lake.read(INCIDENTS, where))
    if len(found) != 1:
        what = "no incident" if not found else f"{len(found)} incidents"
        raise CommandError(f"{what} with id {incident_id!r}: `tidemark incidents list --all`")
    return found[0]


def _row(incident: "Incident") -> dict[str, Any]:
    from lake.typed_rows import plain_rows

    return plain_rows([incident])[0] | {"evidence": incident.details}


def _mute_reasons(lake: "Lake") -> Callable[["Incident"], str | None]:
    """Return the `mute_reason` of an incident by the present silences and rules."""
    from alerting.delivery.silences import mute_reasons
    from alerting.delivery.silences import silences as known
    from alerting.rules.files import rules_path, valid_rules

    rules, _ = valid_rules(rules_path(invocation().settings.rules))
    return mute_reasons(known(lake.home), rules)


def _queues(lake: "Lake", incident: "Incident") -> list[dict[str, Any]]:
    """Return the worst queues at the newest snapshot of the evidence."""
    from alerting.rules.kinds import GROUPS, KINDS
    from lake.conditions import window_filter
    from lake.tables.progress import QUEUES
    from lake.window import Window

    if KINDS[incident.kind].source != GROUPS:
        return []
    moment = Window.through(incident.last_true_at, incident.last_true_at)
    rows = lake.read(QUEUES, window_filter(QUEUES, moment)).to_pylist()
    subject = {name: incident.row.get(name) for name in ("cluster", "consumer_group", "topic")}
    mine = [row for row in rows if all(row[name] == value for name, value in subject.items())]
    mine.sort(key=lambda row: (-(row["lost"] or 0), -(row["lag_upper"] or 0)))
    return mine[:WORST_QUEUES]
