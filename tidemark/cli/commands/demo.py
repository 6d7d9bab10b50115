"""`tidemark demo`: a real cluster with a workload, watched every minute."""

from typing import Annotated

import typer

from tidemark.cli.invocation import invocation

app = typer.Typer()

FIRST = (
    "a RocketMQ cluster with consumers in trouble, watched for real: 1 to 2 minutes to the first "
    "computed numbers, 4 GB of memory; jars that are missing are downloaded once, 0.5 GB. "
    "Ctrl-C ends it"
)


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
    from tidemark.cli.supervision import supervise
    from tidemark.embedded import forking
    from tidemark.lab import jars

    jars.find("java")
    _print_line(FIRST)
    code = supervise(_print_line, is_endless=ticks is None)
    if code is not None:
        if forking.running(invocation().home) is None:
            forking.down(invocation().home)  # it leaves the folder of its socket
        raise typer.Exit(code)

    from tidemark.cli.demonstration import demo as started
    from tidemark.cli.demonstration import watch
    from tidemark.host.processes import elsewhere

    ui = None if no_ui else port
    running = started(invocation().settings, version, ui, board_port, _print_line)
    namesrv = running.cluster.namesrv
    _print_line(f"the cluster's name server is {namesrv}, try in another terminal:")
    typer.echo(f"  {elsewhere()} lag --namesrv {namesrv}", err=True)
    if running.port is not None:
        _print_line(f"the Dagster UI is at http://127.0.0.1:{running.port}, Ctrl-C ends the demo")
    watch(running, ticks, _print_line)


def _print_line(line: str) -> None:
    typer.echo(f"demo: {line}", err=True)
