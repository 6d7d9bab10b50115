"""The `tidemark` command: its commands by name, and failures in one line."""

import importlib
import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from tidemark.cli import usage
from tidemark.cli.invocation import begin
from tidemark.embedded.light_process import leave_out_pandas
from tidemark.host.failures import one_line
from tidemark.settings.basics import BasicSettings
from tidemark.settings.variables import warnings_of

COMMANDS = {
    "snapshot": "Take one snapshot of a cluster and print it.",
    "lag": "Show lag and delay of every consumer group, now.",
    "why": "Show why a group gets no further: stacks of its threads, messages it is at.",
    "collect": "Collect snapshots of clusters, once or repeatedly, or of files.",
    "plan": "Plan which client would own which queue.",
    "tick": "Collect, load, validate, compute and alert, once.",
    "serve": "Serve the board: pages, an API and metrics over HTTP.",
    "dev": "Run Dagster on this machine: schedules, sensors and its pages.",
    "webserver": "Serve Dagster's pages, guarded against other web pages.",
    "show": "Print rows of any table.",
    "incidents": "List, acknowledge, silence and close incidents.",
    "forecast": "Show when groups are drained, messages expire and disks are full.",
    "objectives": "Whether objectives were met in a month.",
    "report": "The digest of a week: budgets, groups in trouble, rules.",
    "audit": "What people did, when, on what and why.",
    "quarantine": "List quarantined rows; accept or dismiss them.",
    "rules": "Alert rules: check, schema, test on history.",
    "recompute": "Compute whole hours of the past again (backfill).",
    "demo": "Run a real cluster with a workload, and watch it.",
    "upgrade": "Move the tables of an older program to this one.",
    "backup": "Copy what cannot be made again.",
    "restore": "Put a backup back where it was made.",
    "config": "Every setting: its value, and where the value comes from.",
    "doctor": "Check Java, ports, catalog and brokers.",
    "engine": "Start, stop and show the shared Spark engine.",
    "lab": "Run a RocketMQ cluster on this machine, with faults to try.",
}
"""Help text by name. The module of a command is imported only when it is used: `tidemark lag`
answers before Spark, Dagster or PyIceberg would be imported."""

WITHOUT_PANDAS = (
    *("show", "incidents", "forecast", "objectives", "report", "audit", "quarantine", "serve"),
)
"""Commands that only read tables. Only Spark and Great Expectations need pandas."""


class _Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in WITHOUT_PANDAS:
            leave_out_pandas()
        app = importlib.import_module(f"tidemark.cli.commands.{cmd_name}").app
        # Each help has the form of that of `tidemark` itself, and names no option of Typer's.
        app.rich_markup_mode, app._add_completion = None, False
        command = typer.main.get_command(app)
        command.name = cmd_name
        for below in getattr(command, "commands", {}).values():
            # Typer cuts its first sentence off after 45 characters.
            below.short_help = (below.help or "").partition("\n\n")[0]
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except usage.UsageError as error:
            usage.explain(error, self, ctx)
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tidemark {version('tidemark')}")
        raise typer.Exit


@app.callback()
def options(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of a failure."),
    home: str = typer.Option("", "--home", help="Folder of all state, else TIDEMARK_HOME."),
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Show how far RocketMQ consumers have got, how late they are, and what will go wrong."""
    # Into the environment, because processes that this command starts read them there.
    if debug:
        os.environ["TIDEMARK_DEBUG"] = "1"
    if home:
        os.environ["TIDEMARK_HOME"] = home
    begin(BasicSettings.read())
    warnings = warnings_of(os.environ)
    if warnings and not _is_forked():
        for warning in warnings:
            typer.echo(f"tidemark: {warning}", err=True)


def _is_forked() -> bool:
    """Return whether another process of the same command has warned already."""
    from tidemark.embedded import forking

    return forking.forked


def main() -> None:
    """Run the command line; exit 0 on success, 2 on bad usage, else 1 with one line."""
    try:
        app(prog_name="tidemark")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has closed it; the interpreter must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        basics = BasicSettings.read()
        if basics.debug:
            raise
        from tidemark.cli.errors import remedy_of_full_disk
        from tidemark.cli.output import echo

        echo(f"tidemark: {one_line(error)}{remedy_of_full_disk(basics.home)}", err=True)
        sys.exit(1)
