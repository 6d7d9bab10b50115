"""`tidemark rules`: check rule files, show routes, print their schema, replay history."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.cli.errors import CommandError
from tidemark.cli.invocation import invocation, parse, path
from tidemark.cli.output import Format, echo, print_rows, table_text, to_json

if TYPE_CHECKING:
    from tidemark.alerting.rules.model import Rule

app = typer.Typer(no_args_is_help=True, help="Alert rules: check, route, schema, test.")

REPLAYED = (
    *("opened_at", "fired_at", "resolved_at", "state", "severity", "rule", "subject"),
    *("peak_value", "threshold", "observations", "suppressed_by"),
)
"""Columns that are printed of an incident of a replay."""


@app.command()
def check(
    path: Annotated[str, typer.Argument(help="A YAML file or a folder, else TIDEMARK_RULES.")] = "",
) -> None:
    """Print every mistake with file, line and field; exit 1 if there is one."""
    from tidemark.alerting.rules.files import read_rule_set, rules_path

    rule_set = read_rule_set(path or rules_path(invocation().settings.rules))
    for mistake in rule_set.mistakes:
        echo(mistake, err=True)
    if rule_set.mistakes:
        raise typer.Exit(1)
    echo(f"{len(rule_set.rules)} rules, no mistake")


@app.command()
def route(
    path: Annotated[str, typer.Argument(help="A YAML file or a folder, else TIDEMARK_RULES.")] = "",
    incident: Annotated[str, typer.Option(help="Id of an incident, or its first characters.")] = "",
    labels: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE, such as severity=critical or team=a; repeatable."),
    ] = None,
    format: Format = Format.table,
) -> None:
    """Print which routes an incident takes: its receivers, and how they are notified."""
    from tidemark.alerting.incidents.actions import IncidentError, one_incident
    from tidemark.alerting.rules.files import read_rule_set, rules_path

    if bool(incident) == bool(labels):
        raise typer.BadParameter("name an incident by --incident, or its labels by --labels")
    rule_set = read_rule_set(path or rules_path(invocation().settings.rules))
    for mistake in rule_set.mistakes:
        echo(mistake, err=True)
    try:
        matched = (
            one_incident(invocation().lake, incident).match_labels
            if incident
            else _labels(labels or [])
        )
    except IncidentError as error:
        raise CommandError(str(error)) from error
    rows = [
        {
            "route": node.place,
            "receiver": node.receiver,
            "group": " ".join(node.group_key(matched)[1:]),
            "group_wait": node.group_wait,
            "group_interval": node.group_interval,
            "repeat_interval": node.repeat_interval,
            "escalate_after": node.escalate_after,
            "escalate_to": node.escalate_to,
            "active": [one.name for one in node.active],
            "mute": [one.name for one in node.mute],
        }
        for node in rule_set.routing.routes(matched)
    ]
    if format is Format.json:
        typer.echo(to_json(rows))
        return
    if rows:
        print_rows(rows, list(rows[0]), nothing="")
        return
    to_all = "every receiver, as the routes have a mistake" if rule_set.routing.broadcasts else ""
    echo(f"no routes: it goes to {to_all or 'TIDEMARK_NOTIFY_URLS'}, at once")


def _labels(written: Sequence[str]) -> dict[str, str]:
    """Return the labels of ``NAME=VALUE`` texts; one text may hold several, after commas."""
    pairs = [pair.partition("=") for text in written for pair in text.split(",") if pair]
    for name, equals, _ in pairs:
        if not (name.strip() and equals):
            raise typer.BadParameter(f"--labels: NAME=VALUE is wanted, not {name!r}")
    return {name.strip(): value for name, _, value in pairs}


@app.command()
def schema() -> None:
    """Print the JSON Schema of a rule file, for editors."""
    from tidemark.alerting.rules.files import schema as rule_schema

    typer.echo(to_json(rule_schema(), indent=2))


@app.command()
def test(
    path: Annotated[
        Path, typer.Argument(parser=path, metavar="RULES", help="A YAML file or a folder.")
    ],
    start: Annotated[str, typer.Option("--from", help="ISO 8601; UTC without a zone.")],
    end: Annotated[str, typer.Option("--to", help="ISO 8601, exclusive.")],
    limit: Annotated[int, typer.Option(help="Most incidents to print.", min=0)] = 100,
    format: Format = Format.table,
) -> None:
    """Replay history: print the incidents of these rules. Nothing is written or sent.

    The table shows the first incidents and how often each rule would have fired; JSON has all
    incidents. Rules about Tidemark's own work need the clock and are left out by name.
    """
    from assets.rule_evaluation import replay
    from orchestration.resources import spark_config
    from spark.session.configuration import SparkResource
    from tidemark.alerting.rules.files import RuleError, read_rule_set
    from tidemark.lake.clocks import Window

    first, last = parse(start), parse(end)
    if first >= last:
        raise typer.BadParameter(f"--to {end} is not after --from {start}")
    declared = read_rule_set(path)
    if declared.mistakes:
        raise RuleError(list(declared.mistakes))
    rules = declared.rules
    invoked = invocation()
    if not invoked.basics.has_history:
        raise CommandError(f"{invoked.home.path} holds no history; set TIDEMARK_HOME or --home")
    spark = SparkResource(spark_config=spark_config(invoked.settings))
    incidents = replay(invoked.lake, spark, rules, Window(first, last), declared.inhibitions)
    rows = [{name: getattr(incident, name) for name in REPLAYED} for incident in incidents]
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        _print_replayed(rows, limit)
    if names := not_replayed(rules):
        # JSON on standard output stays JSON.
        skipped = f"not replayed, as they need the clock: {', '.join(names)}"
        echo(skipped, err=format is Format.json)


def _print_replayed(rows: Sequence[dict[str, Any]], limit: int) -> None:
    """Print the first incidents of a replay, and how many there are of each rule."""
    nothing = "No incident would have been opened."
    print_rows(rows[:limit], list(rows[0]) if rows else (), nothing=nothing)
    if len(rows) > limit:
        echo(f"and {len(rows) - limit} more: --limit {len(rows)}, or --format json")
    if rows:
        summary = by_rule(rows)
        echo("\n" + table_text(summary, list(summary[0]), "By rule"))
    fired = sum(row["fired_at"] is not None for row in rows)
    echo(f"{fired} would have fired; {len(rows) - fired} were still pending")


def not_replayed(rules: Sequence["Rule"]) -> list[str]:
    """Return the names of the rules about Tidemark's own work, which no snapshot decides."""
    from tidemark.alerting.rules.kinds import PIPELINE

    return [rule.name for rule in rules if rule.kind_definition.source == PIPELINE]


def by_rule(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per rule: how often it fired, of how many subjects, and how many resolved.

    Args:
        rows: one per incident.

    Returns:
        The rule that fired most comes first. ``inhibited`` counts incidents that another inhibits.
    """
    counted: dict[str, Counter[str]] = {}
    subjects: dict[str, set[str]] = {}
    for row in rows:
        counts = counted.setdefault(row["rule"], Counter())
        subjects.setdefault(row["rule"], set()).add(row["subject"])
        counts["fired"] += row["fired_at"] is not None
        counts["pending"] += row["fired_at"] is None
        counts["resolved"] += row["resolved_at"] is not None
        counts["inhibited"] += row["suppressed_by"] is not None
    return sorted(
        (
            {
                "rule": rule,
                "fired": counts["fired"],
                "subjects": len(subjects[rule]),
                "resolved": counts["resolved"],
                "pending": counts["pending"],
                "inhibited": counts["inhibited"],
            }
            for rule, counts in counted.items()
        ),
        key=lambda row: (-row["fired"], row["rule"]),
    )
