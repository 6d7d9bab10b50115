"""A RocketMQ cluster on this machine, with a workload, and faults to try on it."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.invocation import invocation
from tidemark.cli.output import echo
from tidemark.lab import cluster as lab_cluster
from tidemark.lab import jars, layout
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import LabError
from tidemark.lab.workloads import require_known

app = typer.Typer(no_args_is_help=True, help=__doc__)


def _default_home() -> Path:
    return invocation().home.path / "lab"


LabHome = Annotated[
    Path,
    typer.Option(
        default_factory=_default_home,
        show_default="TIDEMARK_HOME/lab",
        help="Folder with all state of the lab.",
    ),
]
NodeName = Annotated[
    str, typer.Argument(metavar="BROKER", help="broker-a, broker-a-slave, ... or namesrv")
]


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn a `LabError` into one line on standard error and exit code 1."""
    try:
        yield
    except LabError as error:
        echo(f"lab: {error}", err=True)
        raise typer.Exit(1) from None


def _print_line(line: str) -> None:
    typer.echo(line, err=True)


@app.command()
def up(
    home: LabHome,
    version: Annotated[
        str, typer.Option(help=f"RocketMQ version: {', '.join(jars.VERSIONS)}.")
    ] = jars.VERSIONS[0],
    brokers: Annotated[int, typer.Option(help="Number of masters.")] = 2,
    slaves: Annotated[bool, typer.Option("--slaves", help="A slave for each master.")] = False,
    port_base: Annotated[
        int, typer.Option(help="Port of the name server; broker i is at P + 10 + 10 i.")
    ] = layout.DEFAULT_PORT_BASE,
    workload: Annotated[
        str | None, typer.Option(help="Start a workload, e.g. all or steady.")
    ] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="Require an account and TLS; without a workload.")
    ] = False,
    rate: Annotated[float, typer.Option(help="Messages a second of the workload.")] = 20.0,
) -> None:
    """Start a name server and brokers, and wait until every broker is registered and answers."""
    with _one_line():
        if workload is not None:
            require_known(workload)
            if secure:
                raise LabError("the workload has no account and no TLS: leave out --workload")
        cluster = LabCluster.up(
            home, version, brokers, slaves, port_base, secure=secure, report=_print_line
        )
        if workload is not None:
            try:
                _print_line(f"starting workload {workload}")
                cluster.start_workload(workload, rate)
            except BaseException:
                cluster.down(graceful=False)
                raise
        typer.echo(f"RocketMQ {version} is up, name server {cluster.namesrv}")
        for broker in cluster.brokers:
            typer.echo(f"{broker.name:15} {broker.address}  pid {broker.pid}")
        if workload is None and not secure:
            place = "" if home == _default_home() else f" --home {shlex.quote(str(home))}"
            echo(
                "It has no topic and no consumer. To start it with both: "
                f"tidemark lab down{place}; tidemark lab up{place} --workload all"
            )
        echo(f"Try: tidemark lag --namesrv {cluster.namesrv}")


@app.command()
def down(
    home: LabHome,
    now: Annotated[bool, typer.Option("--now", help="Kill at once, flush nothing.")] = False,
) -> None:
    """Stop every process of the lab; its stores and logs stay until the next `up`."""
    with _one_line():
        LabCluster(home.resolve()).down(graceful=not now)


@app.command()
def kill(node: NodeName, home: LabHome) -> None:
    """Kill -9 a broker."""
    with _one_line():
        lab_cluster.kill(LabCluster.load(home), node)


@app.command()
def stop(node: NodeName, home: LabHome) -> None:
    """SIGSTOP a broker: its ports stay open, nobody responds."""
    with _one_line():
        lab_cluster.stop(LabCluster.load(home), node)


@app.command()
def resume(node: NodeName, home: LabHome) -> None:
    """Let a stopped broker go on."""
    with _one_line():
        lab_cluster.resume(LabCluster.load(home), node)


@app.command()
def restart(node: NodeName, home: LabHome) -> None:
    """Start a broker again on its store; returns when it is registered."""
    with _one_line():
        lab_cluster.restart(LabCluster.load(home), node)
