"""Taking one snapshot for a command: which cluster, and what to say of what went wrong."""

import os
from typing import Annotated

import typer

from rocketmq.collector import ClusterTarget, collect_snapshot
from rocketmq.deep.reader import DeepOptions
from rocketmq.rows import Snapshot
from tidemark.errors import CommandError

NamesrvOption = Annotated[
    str,
    typer.Option(
        "--namesrv",
        envvar="TIDEMARK_NAMESRV",
        help="Name servers, HOST:PORT separated by ';'.",
    ),
]


def name_servers(namesrv: str) -> tuple[str, ...]:
    """The name servers of an option's text.

    Raises:
        BadParameter: when it is empty, or one is not ``HOST:PORT``.
    """
    if not namesrv.strip():
        raise typer.BadParameter("which cluster? Give --namesrv HOST:PORT or set TIDEMARK_NAMESRV")
    servers = tuple(part.strip() for part in namesrv.split(";") if part.strip())
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise typer.BadParameter(f"{server!r} is no name server: it must be HOST:PORT")
    return servers


def look(namesrv: str, deep: DeepOptions | None = None) -> Snapshot:
    """Takes one snapshot; problems of a partial one go to standard error.

    Args:
        namesrv: an option's text.
        deep: how deep to look, None for what is read in bulk only.

    Raises:
        CommandError: when nothing could be read.
    """
    target = ClusterTarget(
        name_servers=name_servers(namesrv),
        name=os.environ.get("TIDEMARK_CLUSTER") or None,
        deep=deep,
    )
    snapshot = collect_snapshot(target)
    lines = [f"{item.endpoint}: {item.operation}: {item.message}" for item in snapshot.problems]
    if snapshot.status == "FAILED":
        raise CommandError(
            f"{lines[0] if lines else namesrv}; check the address with: tidemark doctor "
            f"--namesrv {namesrv}"
        )
    for line in lines:
        typer.echo(f"{snapshot.status}: {line}", err=True)
    return snapshot
