"""`tidemark incidents`: what is wrong, who has taken it on, and what nobody wants to hear of."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from tidemark.errors import CommandError
from tidemark.output import Format, print_rows, table_text, to_json
from tidemark.person import me

app = typer.Typer(
    no_args_is_help=True, help="Incidents: list, show, ack, close, silence, unsilence."
)

COLUMNS = ("incident_id", "state", "severity", "rule", "subject", "opened_at", "last_value")
LISTED = (*COLUMNS, "peak_value", "threshold", "withheld")
WORST_QUEUES = 5


@app.command("list")
def list_incidents(
    everything: Annotated[bool, typer.Option("--all", help="Those that are over too.")] = False,
    limit: Annotated[int, typer.Option(help="Incidents at most.", min=0)] = 100,
    format: Format = Format.table,
) -> None:
    """Print what is open, worst first; with --all also what is over, newest first."""
    from alerting.incidents import OPEN
    from alerting.messages import SEVERITIES
    from alerting.store import of_rows
    from lake.catalog import one_of
    from lake.tables.alerting import INCIDENTS

    lake = _lake()
    where = None if everything else one_of("state", OPEN)
    found = of_rows(lake.read(INCIDENTS, where))
    found.sort(key=lambda each: each.opened_at, reverse=True)
    if not everything:
        found.sort(key=lambda each: SEVERITIES.index(each.severity))
    withheld = _withholding(lake)
    rows = [_row(each) | {"withheld": withheld(each)} for each in found[:limit]]
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        print_rows(rows, LISTED)


@app.command()
def show(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="Its id, or how it begins.")],
    format: Format = Format.table,
) -> None:
    """Print one incident: the message, its evidence, and who was told."""
    from alerting.messages import Notice, text
    from alerting.outbox import entries_of

    lake = _lake()
    incident = _one(lake, incident_id)
    told = entries_of(lake, incident)
    queues = _queues(lake, incident)
    if format is Format.json:
        typer.echo(to_json(_row(incident) | {"notifications": told, "queues": queues}))
        return
    from alerting.incidents import Transition

    state = "RESOLVED" if incident.state == "RESOLVED" else "FIRING"
    last = incident.transitions[-1] if incident.transitions else None
    typer.echo(text(Notice(incident, last or Transition(state, incident.observed_at))))
    typer.echo(f"State: {incident.state}")
    if incident.acknowledged_by:
        typer.echo(f"Taken on: by {incident.acknowledged_by}")
    reason = _withholding(lake)(incident)
    if reason:
        typer.echo(f"Not told: {reason}")
    if queues:
        names = ("broker", "queue_id", "readable_lag", "lost", "delay_ms", "condition")
        typer.echo("\n" + table_text(queues, names, "Queues"))
    if told:
        names = ("transition", "channel", "status", "attempts", "delivered_at", "last_error")
        typer.echo("\n" + table_text(told, names, "Told"))


@app.command()
def ack(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="Its id, or how it begins.")],
    author: Annotated[str, typer.Option("--author", help="Who takes it on.")] = "",
) -> None:
    """Take a firing incident on."""
    from alerting.incidents import acknowledged
    from alerting.store import changing, save

    lake = _lake()
    with changing(lake):
        incident = _one(lake, incident_id)
        try:
            after = acknowledged(incident, author or me(), datetime.now(UTC))
        except ValueError as error:
            raise CommandError(str(error)) from error
        save(lake, [incident], [after])
    typer.echo(
        f"{after.incident_id} {after.rule} {after.subject}: taken on by {after.acknowledged_by}"
    )


@app.command()
def close(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="Its id, or how it begins.")],
    author: Annotated[str, typer.Option("--author", help="Who closes it.")] = "",
) -> None:
    """End an incident that nothing ends any more, as of a cluster that is no longer there.

    People who were told of it are told that it is over. Where its rule is true again, so it is.
    """
    from alerting.incidents import closed
    from alerting.store import changing, save

    lake = _lake()
    with changing(lake):
        incident = _one(lake, incident_id)
        if not incident.is_open:
            raise CommandError(f"incident {incident.incident_id} is {incident.state} already")
        after = closed(incident, datetime.now(UTC), f"by {author or me()}")
        save(lake, [incident], [after] if after else [])
    typer.echo(f"{incident.incident_id} {incident.rule} {incident.subject}: closed")


Glob = Annotated[list[str] | None, typer.Option(help="Globs (* and ?); may be given again.")]


@app.command()
def silence(
    duration: Annotated[str, typer.Option("--for", help="How long: 30m, 2h, 1d.")],
    rule: Glob = None,
    cluster: Glob = None,
    group: Glob = None,
    topic: Glob = None,
    broker: Glob = None,
    author: Annotated[str, typer.Option(help="Who wants it.")] = "",
    comment: Annotated[str, typer.Option(help="Why.")] = "",
) -> None:
    """Tell nobody of what fits, for a while. What still stands then is told then."""
    from alerting.fields import seconds
    from alerting.silences import SilenceError
    from alerting.silences import silence as add
    from lake.home import Home

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
        made = add(Home.of(), match, datetime.now(UTC) + length, author or me(), comment)
    except SilenceError as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo(f"{made.silence_id} until {made.until:%Y-%m-%d %H:%M:%S} UTC")


@app.command()
def unsilence(
    silence_id: Annotated[str, typer.Argument(metavar="ID", help="As `silences` prints it.")],
) -> None:
    """End a silence."""
    from alerting.silences import SilenceError
    from alerting.silences import unsilence as end
    from lake.home import Home

    try:
        ended = end(Home.of(), silence_id)
    except SilenceError as error:
        raise CommandError(str(error)) from error
    typer.echo(f"{ended.silence_id} ended")


@app.command()
def silences(format: Format = Format.table) -> None:
    """Print the silences in force."""
    from alerting.silences import silences as known
    from lake.home import Home

    now = datetime.now(UTC)
    rows: list[dict[str, Any]] = [
        {
            "silence_id": each.silence_id,
            "match": ", ".join(f"{name}={'|'.join(globs)}" for name, globs in each.match.items()),
            "until": each.until,
            "author": each.author,
            "comment": each.comment,
        }
        for each in known(Home.of())
        if each.until > now
    ]
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        print_rows(rows, ("silence_id", "match", "until", "author", "comment"))


def _lake() -> Any:
    from lake.catalog import Lake
    from lake.home import Home

    return Lake(Home.of())


def _one(lake: Any, incident_id: str) -> Any:
    """The incident whose id begins so; an error when there is none or more than one."""
    from pyiceberg.expressions import StartsWith

    from alerting.store import of_rows
    from lake.tables.alerting import INCIDENTS

    where = StartsWith("incident_id", incident_id)  # pyright: ignore
    found = of_rows(lake.read(INCIDENTS, where))
    if len(found) != 1:
        what = "no incident" if not found else f"{len(found)} incidents"
        raise CommandError(f"{what} with id {incident_id!r}: `tidemark incidents list --all`")
    return found[0]


def _row(incident: Any) -> dict[str, Any]:
    from lake.records import to_rows

    return to_rows([incident])[0] | {"evidence": incident.details}


def _withholding(lake: Any) -> Callable[[Any], str | None]:
    """Why an incident is not told now, by the silences and the rules that are read here once."""
    from alerting.rule_files import rules_path, sound_rules
    from alerting.silences import silences as known
    from alerting.silences import withholding

    rules, _ = sound_rules(rules_path())
    return withholding(known(lake.home), rules)


def _queues(lake: Any, incident: Any) -> list[dict[str, Any]]:
    """The worst queues at the newest snapshot of the evidence."""
    from alerting.kinds import GROUPS, KINDS
    from lake.catalog import window_filter
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
