"""The `tidemark` command: finds the module of a command, and turns every failure into one line."""

import importlib
import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from tidemark.errors import one_line

COMMANDS = {
    "snapshot": "Take one snapshot of a cluster and print it.",
    "lag": "Show how far every group has got, now.",
    "collect": "Land snapshots: of clusters, once or again and again, or of files.",
    "plan": "Who would own which queue with so many clients.",
    "tick": "Take a snapshot, load, judge, compute and alert, once.",
    "show": "Print rows of any table.",
    "incidents": "What is wrong; take it on, or silence it.",
    "quarantine": "Rows that cannot be measurements; say that one is, or hear of it no more.",
    "rules": "Alert rules: check, schema, test on history.",
    "recompute": "Compute whole hours of the past again.",
    "demo": "A real cluster with a workload, watched every minute.",
    "doctor": "Check Java, ports, catalog and brokers.",
    "engine": "The warm Spark engine: up, down, status.",
    "lab": "A RocketMQ cluster on this machine, with faults to try.",
}
"""Name to what it is for; the module of the same name is imported only when it is used, because
`tidemark lag` must answer before Spark, Dagster or PyIceberg would have been imported."""


class _Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"tidemark.commands.{cmd_name}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

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


@app.callback()
def options(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of a failure."),
    home: str = typer.Option("", "--home", help="Folder of all state, else TIDEMARK_HOME."),
) -> None:
    """How far every RocketMQ consumer has got, how late it is and what is about to go wrong."""
    if debug:
        os.environ["TIDEMARK_DEBUG"] = "1"
    if home:
        os.environ["TIDEMARK_HOME"] = home


def main() -> None:
    """Runs the command line; exits 0 on success, 2 on bad usage, else 1 with one line."""
    try:
        app(prog_name="tidemark")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has seen enough; the interpreter must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if os.environ.get("TIDEMARK_DEBUG"):
            raise
        typer.echo(f"tidemark: {one_line(error)}", err=True)
        sys.exit(1)
