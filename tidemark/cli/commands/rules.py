"""`tidemark rules`: check rule files, show routes, print their schema, replay history, suggest."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.cli.invocation import CommandError, invocation, parse, path
from tidemark.cli.output import Format, echo, print_rows, table_text, to_json
from tidemark.model.spelling import did_you_mean
from tidemark.settings.times import in_words

if TYPE_CHECKING:
    from tidemark.alerting.incidents.incident import Incident
    from tidemark.alerting.rules.model import Inhibition, Rule
    from tidemark.lake.clocks import Window

app = typer.Typer(no_args_is_help=True, help="Alert rules: check, route, schema, test, suggest.")

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
    """Print which routes an incident takes: its receivers, and how they are notified.

    An incident of a group also has the labels of its owner, as owners.yaml has them: team, contact
    and links. Name cluster and consumer_group among --labels for those of another group.
    """
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
    matched = _owner_labels(matched) | matched
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


def _owner_labels(matched: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of the owner of the group that an incident is about; none without one."""
    from tidemark.settings import owners

    file = invocation().settings.owners_file
    entries, mistakes = owners.read(file.path, required=file.required)
    for mistake in mistakes:
        echo(mistake, err=True)
    owner = owners.Owners(entries).of(matched.get("cluster"), matched.get("consumer_group"))
    return owner.labels if owner else {}


def _labels(written: Sequence[str]) -> dict[str, str]:
    """Return the labels of ``NAME=VALUE`` texts; one text may hold several, after commas."""
    pairs = [pair.partition("=") for text in written for pair in text.split(",") if pair]
    for name, equals, _ in pairs:
        if not (name.strip() and equals):
            raise typer.BadParameter(f"--labels: NAME=VALUE is wanted, not {name!r}")
    return {name.strip(): value for name, _, value in pairs}


class SchemaOf(StrEnum):
    """Files of declarations that have a schema."""

    RULES = "rules"
    OBJECTIVES = "objectives"
    OWNERS = "owners"


@app.command()
def schema(
    of: Annotated[
        SchemaOf, typer.Option("--of", help="The file: rules, objectives or owners.")
    ] = SchemaOf.RULES,
) -> None:
    """Print the JSON Schema of a rule file, or of objectives.yaml or owners.yaml, for editors."""
    from tidemark.alerting.rules import files
    from tidemark.settings import objectives, owners

    schemas = {
        SchemaOf.RULES: files.schema,
        SchemaOf.OBJECTIVES: objectives.schema,
        SchemaOf.OWNERS: owners.schema,
    }
    typer.echo(to_json(schemas[of](), indent=2))


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
    from tidemark.alerting.rules.files import RuleError, read_rule_set

    window = _window(start, end)
    declared = read_rule_set(path)
    if declared.mistakes:
        raise RuleError(list(declared.mistakes))
    rules = declared.rules
    incidents = _replay(rules, window, declared.inhibitions)
    rows = [{name: getattr(incident, name) for name in REPLAYED} for incident in incidents]
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        _print_replayed(rows, limit)
    if names := not_replayed(rules):
        # JSON on standard output stays JSON.
        skipped = f"not replayed, as they need the clock: {', '.join(names)}"
        echo(skipped, err=format is Format.json)


def _window(start: str, end: str) -> "Window":
    """Return the time of a replay.

    Raises:
        BadParameter: an end is no instant, or they are in the wrong order.
    """
    from tidemark.lake.clocks import Window

    first, last = parse(start), parse(end)
    if first >= last:
        raise typer.BadParameter(f"--to {end} is not after --from {start}")
    return Window(first, last)


def _replay(
    rules: Sequence["Rule"], window: "Window", inhibitions: Sequence["Inhibition"]
) -> list["Incident"]:
    """Return the incidents of a replay of the stored history.

    Raises:
        CommandError: there is none.
    """
    from assets.rule_evaluation import replay
    from orchestration.resources import spark_config
    from spark.session.configuration import SparkResource

    invoked = invocation()
    if not invoked.basics.has_history:
        raise CommandError(f"{invoked.home.path} holds no history; set TIDEMARK_HOME or --home")
    spark = SparkResource(spark_config=spark_config(invoked.settings))
    return replay(invoked.lake, spark, rules, window, inhibitions)


SUGGESTED = ("rule", "threshold", "fired", "a_week", "subjects", "note")
"""Columns that are printed of a threshold that was tried."""


@app.command()
def suggest(
    start: Annotated[str, typer.Option("--from", help="ISO 8601; UTC without a zone.")],
    end: Annotated[str, typer.Option("--to", help="ISO 8601, exclusive.")],
    path: Annotated[str, typer.Argument(help="A YAML file or a folder, else TIDEMARK_RULES.")] = "",
    most: Annotated[
        float, typer.Option("--most", help="Incidents of a rule a week at most.", min=0)
    ] = 5.0,
    rule: Annotated[list[str] | None, typer.Option(help="Only of this rule; repeatable.")] = None,
    format: Format = Format.table,
) -> None:
    """Try other thresholds on the stored history, and print what each would have fired.

    Suggested is the most sensitive threshold of a rule that fires at most --most times a week; none
    over less than a day of history. Overrides keep their thresholds, and inhibitions do not count.
    Nothing is written or sent.
    """
    from assets.rule_suggestions import LEAST_HOURS, candidates, outcomes
    from tidemark.alerting.rules.files import load_rules, rules_path
    from tidemark.lake.tables import progress

    window = _window(start, end)
    declared = load_rules(path or rules_path(invocation().settings.rules))
    names = [one.name for one in declared]
    for name in rule or ():
        if name not in names:
            meant = did_you_mean(name, names)
            raise typer.BadParameter(f"--rule: no rule {name!r}{meant or ''}")
    tried = candidates(one for one in declared if not rule or one.name in rule)
    if not tried:
        raise CommandError("no rule has a threshold that may be multiplied: give others a --rule")
    incidents = _replay([one.rule for one in tried], window, inhibitions=())
    hours = sum(hour in window for hour in invocation().lake.rows_by_hour(progress.SNAPSHOTS))
    rows = [asdict(one) for one in outcomes(tried, incidents, hours, most)]
    if format is Format.json:
        typer.echo(to_json(rows))
        return
    print_rows([_suggestion(row) for row in rows], SUGGESTED, nothing="")
    basis = f"{hours} computed hours"
    if hours < LEAST_HOURS:
        basis += f": too few to suggest anything, {LEAST_HOURS} are needed"
    echo(basis)


def _suggestion(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a threshold that was tried as the table shows it."""
    notes = {"suggested": row["is_suggested"], "present": row["is_present"]}
    seconds = row["unit"] == "seconds"
    return {
        **{name: row[name] for name in ("rule", "fired", "subjects")},
        "threshold": in_words(row["threshold"]) if seconds else f"{row['threshold']:,.6g}",
        "a_week": None if row["per_week"] is None else round(row["per_week"], 1),
        "note": ", ".join(name for name, holds in notes.items() if holds),
    }


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
