"""The `tidemark` command: its commands by name, and failures in one line."""

import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from tidemark.cli.invocation import begin, leave_out_pandas, remedy_of_full_disk
from tidemark.host.failures import one_line
from tidemark.model.spelling import nearest
from tidemark.settings.basics import BasicSettings, warnings_of

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

SHARED = {
    "restore": "backup",
    "upgrade": "backup",
    "recompute": "tick",
    "objectives": "report",
    "audit": "incidents",
    "webserver": "dev",
    "snapshot": "collect",
    "config": "doctor",
    "forecast": "plan",
}
"""Modules of commands that have none of their own name. The app of `restore` is `restore_app` of
its module."""

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
        module = importlib.import_module(f"tidemark.cli.commands.{SHARED.get(cmd_name, cmd_name)}")
        app = getattr(module, f"{cmd_name}_app" if cmd_name in SHARED else "app")
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
        except _UsageError as error:
            _explain_mistake(error, self, ctx)
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


_UsageError: Any = typer.BadParameter.__base__
"""The error of every mistake in a command line; Typer exports only a kind of it."""


def _explain_mistake(error: Any, commands: Any, ctx: Any) -> None:
    """Add to the message of a mistake what was probably meant, where that is clear.

    Args:
        error: the mistake.
        commands: the group of all commands.
        ctx: its context, which has the name of the program.
    """
    place = error.ctx
    option = getattr(error, "option_name", None)
    if option and place is not None:
        meant = _takers(option, place, commands, ctx)
        if meant:
            error.possibilities = None
            error.message = f"No such option here: {option}. {meant}"
    elif place is ctx and error.message.startswith("No such command"):
        word = error.message.split("'")[1]
        below = [
            f"{group} {name}"
            for group, name in _nested(commands, ctx)
            if name == word or word == f"{group}-{name}"
        ]
        near = nearest(word, commands.list_commands(ctx))
        known = below or ([near] if near else [])
        if known:
            meant = " or ".join(f"'{ctx.info_name} {name}'" for name in known)
            error.message = f"{error.message.rstrip('.')}. Did you mean {meant}?"


def _takers(option: str, place: Any, commands: Any, root: Any) -> str:
    """Return where an option stands: before the command, or after one of a group."""
    if place is not root and option in _options(commands):
        path = place.command_path.removeprefix(root.info_name).strip()
        value = " VALUE" if not _options(commands)[option].is_flag else ""
        return f"It stands before the command: {root.info_name} {option}{value} {path}"
    if hasattr(place.command, "list_commands"):
        named = [
            name
            for name in place.command.list_commands(place)
            if place is not root and option in _options(place.command.get_command(place, name))
        ]
        if named:
            choices = " or ".join(f"{place.command_path} {name} {option}" for name in named)
            return f"It stands after a command: {choices}"
    return ""


def _options(command: Any) -> dict[str, Any]:
    return {name: option for option in command.params for name in option.opts}


def _nested(commands: Any, ctx: Any) -> Iterator[tuple[str, str]]:
    """Yield all commands that belong to a group, with its name."""
    for group in commands.list_commands(ctx):
        command = commands.get_command(ctx, group)
        if hasattr(command, "list_commands"):
            for name in command.list_commands(ctx):
                yield group, name


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
        from tidemark.cli.output import echo

        echo(f"tidemark: {one_line(error)}{remedy_of_full_disk(basics.home)}", err=True)
        sys.exit(1)
