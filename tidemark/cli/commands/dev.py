"""`tidemark dev` and `webserver`: Dagster on this machine, and its pages behind a guard."""

import signal
import time
from contextlib import suppress
from typing import Annotated, Any

import typer

from tidemark.cli.invocation import CommandError, invocation

app = typer.Typer()

CHECK_SECONDS = 1.0
"""Seconds between checks of the started processes by the supervisor."""


@app.command()
def dev(
    port: Annotated[int, typer.Option(help="Port of Dagster's pages.", min=1, max=65535)] = 3000,
) -> None:
    """Run schedules, sensors and Dagster's pages, until Ctrl-C; TIDEMARK_SCHEDULE=on ticks."""
    from orchestration.instance.dagster_home import prepare
    from tidemark.cli.dagster_processes import DagsterProcesses, is_taken, stop

    if is_taken(port):
        raise CommandError(
            f"port {port} on 127.0.0.1 is taken; stop what listens there or give --port"
        )
    # A SIGTERM stops it in the same order as Ctrl-C.
    signal.signal(signal.SIGTERM, _interrupt)
    home = invocation().settings.home
    prepare(home)
    home.dagster.mkdir(parents=True, exist_ok=True)
    processes = DagsterProcesses(home=home)
    try:
        with suppress(KeyboardInterrupt):
            typer.echo("dev: starting Dagster, which takes some ten seconds", err=True)
            processes.start(port)
            typer.echo(
                f"dev: Dagster's pages are at http://127.0.0.1:{port}, Ctrl-C ends them", err=True
            )
            while True:
                time.sleep(CHECK_SECONDS)
                processes.check()
    finally:
        stop(processes.running.values())


def _interrupt(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt


webserver_app = typer.Typer()

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@webserver_app.command(context_settings=PASSED_ON)
def webserver(context: typer.Context) -> None:
    """Serve Dagster's pages guarded; takes the options of dagster-webserver, --read-only too.

    Browsers reach them by loopback, by an address, or by a name of TIDEMARK_WEBSERVER_HOSTS.
    """
    from orchestration.instance.dagster_home import prepare
    from tidemark.board.access import words
    from tidemark.cli.dagster_guard import serve

    settings = invocation().settings
    prepare(settings.home)
    serve(context.args, frozenset(words(settings.webserver_hosts.lower())))
