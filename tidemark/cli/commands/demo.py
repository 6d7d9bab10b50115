"""`tidemark demo`: a real cluster with a workload, watched every minute."""

import signal
from typing import Annotated, Any

import typer

from tidemark.cli.invocation import invocation

app = typer.Typer()


@app.command()
def demo(
    ticks: Annotated[
        int | None, typer.Option(help="End after so many ticks; else at Ctrl-C.", min=1)
    ] = None,
    no_ui: Annotated[bool, typer.Option("--no-ui", help="Without the Dagster UI.")] = False,
    port: Annotated[int, typer.Option(help="Port of the Dagster UI.", min=1, max=65535)] = 3000,
    board_port: Annotated[int, typer.Option(help="Port of the board.", min=1, max=65535)] = 8080,
    version: Annotated[str, typer.Option(help="RocketMQ version.")] = "5.3.3",
) -> None:
    """Boot a real cluster with a workload, tick every minute, serve the board and Dagster's UI."""
    from tidemark.cli.demo import demo as started
    from tidemark.cli.demo import watch
    from tidemark.lab import jars

    jars.find("java")
    # A SIGTERM stops the demo in the same order as Ctrl-C.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        settings, ui = invocation().settings, None if no_ui else port
        with started(settings, version, ui, board_port, _print_line) as running:
            _print_line(
                f"the cluster's name server is {running.cluster.namesrv}, try in another terminal:"
            )
            _print_line(f"  tidemark lag --namesrv {running.cluster.namesrv}")
            if running.port is not None:
                _print_line(
                    f"the Dagster UI is at http://127.0.0.1:{running.port}, Ctrl-C ends the demo"
                )
            watch(running, ticks, _print_line)
    except KeyboardInterrupt:
        if ticks is not None:
            raise
    _print_line("no process is left")


def _print_line(line: str) -> None:
    typer.echo(f"demo: {line}", err=True)


def _interrupt(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt
