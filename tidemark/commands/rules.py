"""`tidemark rules`: check rule files, print their schema, try them on history."""

import os
from typing import Annotated

import typer

from tidemark.errors import CommandError
from tidemark.instants import parse
from tidemark.output import Format, print_rows, to_json

app = typer.Typer(no_args_is_help=True, help="Alert rules: check, schema, test.")


@app.command()
def check(
    path: Annotated[str, typer.Argument(help="A YAML file or a folder, else TIDEMARK_RULES.")] = "",
) -> None:
    """Tell every mistake by file, line and field; exit 1 if there is one."""
    from alerting.rule_files import rules_path, sound_rules

    rules, mistakes = sound_rules(path or rules_path())
    for mistake in mistakes:
        typer.echo(mistake, err=True)
    if mistakes:
        raise typer.Exit(1)
    typer.echo(f"{len(rules)} rules, no mistake")


@app.command()
def schema() -> None:
    """Print the JSON Schema of a rule file, for editors."""
    from alerting.rule_files import schema as rule_schema

    typer.echo(to_json(rule_schema(), indent=2))


@app.command()
def test(
    path: Annotated[str, typer.Argument(metavar="RULES", help="A YAML file or a folder.")],
    start: Annotated[str, typer.Option("--from", help="ISO 8601; UTC without a zone.")],
    end: Annotated[str, typer.Option("--to", help="ISO 8601, exclusive.")],
    format: Format = Format.table,
) -> None:
    """Replay history: which incidents there would have been. Nothing is written or sent."""
    from alerting.rule_files import load_rules
    from assets.replaying import replay
    from lake.catalog import Lake
    from lake.home import Home
    from lake.window import Window
    from orchestration.resources import spark_config
    from spark.session import SparkResource

    first, last = parse(start), parse(end)
    if first >= last:
        raise typer.BadParameter(f"--to {end} is not after --from {start}")
    rules = load_rules(path)
    home = Home.of()
    if not home.catalog.exists() and not os.environ.get("TIDEMARK_CATALOG_TYPE"):
        raise CommandError(f"{home.path} holds no history; set TIDEMARK_HOME or --home")
    spark = SparkResource(spark_config=spark_config(home))
    found = replay(Lake(home), spark, rules, Window(first, last))
    rows = [
        {
            "opened_at": each.opened_at,
            "fired_at": each.fired_at,
            "resolved_at": each.resolved_at,
            "state": each.state,
            "severity": each.severity,
            "rule": each.rule,
            "subject": each.subject,
            "peak_value": each.peak_value,
            "threshold": each.threshold,
            "observations": each.observations,
            "suppressed_by": each.suppressed_by,
        }
        for each in found
    ]
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        print_rows(rows, list(rows[0]) if rows else ["rule", "subject"])
        fired = sum(each.fired_at is not None for each in found)
        typer.echo(f"{fired} would have fired; {len(found) - fired} were still pending")
