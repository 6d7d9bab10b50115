"""`tidemark report` and `objectives`: the digest of a week, and the statement of a month."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from tidemark.cli.invocation import CommandError, invocation
from tidemark.cli.output import Format, echo, print_rows, to_json

if TYPE_CHECKING:
    from tidemark.alerting.weekly_report import Report
    from tidemark.lake.clocks import Week
    from tidemark.settings.owners import Owners

app = typer.Typer()


@app.command()
def report(
    week: Annotated[
        str, typer.Option("--week", help="The week, 2026-W47; else the last whole one.")
    ] = "",
    team: Annotated[str, typer.Option(help="Only of the groups of this team.")] = "",
    location: Annotated[str, typer.Option(help="Time zone in which the week begins.")] = "UTC",
    language: Annotated[str, typer.Option(help="Of the text: en or zh.")] = "en",
    send: Annotated[
        bool, typer.Option("--send", help="Send it as `reports:` of the rule files name it.")
    ] = False,
    format: Format = Format.table,
) -> None:
    """Print the week: budgets of objectives, groups in trouble, rules that fired most.

    Unknown time is neither good nor bad. A number that it could raise has the mark ≥, one that it
    could lower ≤. With --send each receiver of `reports:` gets its own report now, in its language.
    """
    from tidemark.alerting.delivery.messages import in_english
    from tidemark.alerting.delivery.report_messages import (
        report_body,
        report_document,
        report_title,
    )
    from tidemark.alerting.delivery.templates import in_chinese
    from tidemark.lake.clocks import Week
    from tidemark.settings.fields import known_zone

    if language not in ("en", "zh"):
        raise typer.BadParameter(f"--language: en or zh is wanted, not {language!r}")
    now = datetime.now(UTC)
    try:
        zone = ZoneInfo(known_zone(location))
        chosen = Week.named(week, zone) if week else Week.of(now, zone).before
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if chosen.window.start > now:
        raise typer.BadParameter(f"--week: {chosen.name} has not begun")
    if send:
        if team or location != "UTC" or language != "en" or format is Format.json:
            raise typer.BadParameter(
                "--send: team, time zone and language are those of `reports:` and its receivers"
            )
        _send(week, now)
        return
    made = _report(chosen, now, _owners(), team or None)
    if format is Format.json:
        typer.echo(to_json(report_document(made)))
        return
    phrase = in_chinese if language == "zh" else in_english
    echo(f"{report_title(made, phrase)}\n\n{report_body(made, phrase)}")


def _report(week: "Week", now: datetime, owners: "Owners", team: str | None) -> "Report":
    from tidemark.alerting.weekly_report import weekly_report

    return weekly_report(invocation().lake, week, now, owners, team)


def _owners() -> "Owners":
    """Return the teams of groups.

    Raises:
        CommandError: the file has mistakes.
    """
    from tidemark.settings import owners

    file = invocation().settings.owners_file
    entries, mistakes = owners.read(file.path, required=file.required)
    if mistakes:
        raise CommandError("\n".join(mistakes))
    return owners.Owners(entries)


def _send(name: str, now: datetime) -> None:
    """Send a week, or the last whole one, to the receivers of `reports:`.

    Raises:
        CommandError: a part of it failed, or no report is declared.
    """
    from tidemark.alerting.delivery.receivers import open_channels
    from tidemark.alerting.delivery.reports import deliver_reports
    from tidemark.alerting.rules.files import read_rule_set, rules_path
    from tidemark.lake.clocks import Week

    settings = invocation().settings
    rule_set = read_rule_set(rules_path(settings.rules))
    if not rule_set.reports:
        where = "\n".join(rule_set.mistakes) or "the rule files have no `reports:`"
        raise CommandError(f"nobody is named to send it to: {where}")
    channels, problems = open_channels(settings.notifications, rule_set.report_receivers)
    owners = _owners()
    for schedule in rule_set.reports:
        week = Week.named(name, schedule.zone) if name else Week.of(now, schedule.zone).before
        problems += deliver_reports(
            invocation().shared,
            [schedule],
            channels,
            lambda chosen, team: _report(chosen, now, owners, team),
            now,
            week,
        )
    if problems:
        raise CommandError("; ".join(problems))
    receivers = ", ".join(dict.fromkeys(schedule.receiver for schedule in rule_set.reports))
    echo(f"sent to {receivers}")


objectives_app = typer.Typer()

OBJECTIVE_COLUMNS = (
    *("consumer_group", "topic", "objective", "met", "good", "bad", "unknown", "allowed"),
    *("longest_breach", "counted_since"),
)


@objectives_app.command()
def objectives(
    month: Annotated[str, typer.Option("--month", help="The month, 2026-10; else this one.")] = "",
    format: Format = Format.table,
) -> None:
    """Print the statement of a month: good, bad and unknown minutes of each objective.

    An objective is met where its bad, unknown and coming minutes are at most the allowed ones, and
    missed where its bad minutes are more. A dash = the unknown or coming minutes decide.
    """
    from tidemark.lake.typed_rows import dict_rows
    from tidemark.planning.objectives import MONTH, month_of, statements
    from tidemark.settings.objectives import read

    now = datetime.now(UTC)
    name = month or f"{now:{MONTH}}"
    try:
        window = month_of(name)
    except ValueError as error:
        raise typer.BadParameter(f"--month: {error}") from None
    # Hours that are counted stay when the file changes, so its mistakes are no reason to end here.
    file = invocation().settings.objectives_file
    declared, mistakes = read(file.path, required=file.required)
    for mistake in mistakes:
        echo(mistake, err=True)
    rows = dict_rows(statements(invocation().lake, window, now).sort_by("consumer_group"))
    # Missed ones come first, then those that are not decided.
    rows.sort(key=lambda row: (row["met"] is not False, row["met"] is True, -row["bad"]))
    if format is Format.json:
        typer.echo(to_json(rows))
        return
    several = len({row["cluster"] for row in rows}) > 1
    nothing = f"No minute of an objective is counted in {name}."
    if not declared and not mistakes:
        nothing += f" None is declared in {file.path}."
    columns = ("cluster", *OBJECTIVE_COLUMNS) if several else OBJECTIVE_COLUMNS
    print_rows(rows, columns, nothing=invocation().nothing(nothing))
