"""Taking one snapshot for a command: which cluster, and what to say of what went wrong."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from lake.clusters import Cluster, configured
from lake.home import Home
from lake.memory import Memory
from rocketmq.collector import collect_snapshot
from rocketmq.deep.options import DeepOptions
from rocketmq.endpoint import split_endpoint
from rocketmq.rows import Snapshot
from rocketmq.target import ClusterTarget
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
        BadParameter: when one is not ``HOST:PORT``.
    """
    servers = tuple(part.strip() for part in namesrv.split(";") if part.strip())
    for server in servers:
        try:
            split_endpoint(server)
        except ValueError as error:
            raise typer.BadParameter(
                f"{server!r} is no name server: it must be HOST:PORT"
            ) from error
    return servers


def clusters(home: Home, namesrv: str) -> list[Cluster]:
    """The clusters that a command is about: at these name servers, else those of the settings file.

    Raises:
        BadParameter: when there are none, or one name server is not ``HOST:PORT``.
        SettingsError: when the settings file cannot be used.
    """
    servers = name_servers(namesrv) if namesrv.strip() else ()
    name, path = os.environ.get("TIDEMARK_CLUSTER", ""), os.environ.get("TIDEMARK_CLUSTERS")
    found = configured(home, ";".join(servers), name, path)
    if not found:
        raise typer.BadParameter(
            "which cluster? Give --namesrv HOST:PORT, set TIDEMARK_NAMESRV, or write "
            f"{home.path / 'clusters.yaml'}"
        )
    return found


def one_cluster(home: Home, namesrv: str) -> Cluster:
    """The cluster that a command is about, which can be about one only.

    Raises:
        BadParameter: also when there are several.
        SettingsError: when the settings file cannot be used.
    """
    found = clusters(home, namesrv)
    if len(found) > 1:
        names = ", ".join(cluster.key for cluster in found)
        raise typer.BadParameter(f"which cluster? Set TIDEMARK_CLUSTER to one of {names}")
    return found[0]


def target_of(home: Home, cluster: Cluster) -> ClusterTarget:
    """What to read of a cluster, with the brokers that this home's ticks remember.

    A name server forgets a broker the moment it is killed.
    """
    now = datetime.now(UTC)
    memory = Memory.of(home, cluster.key)
    return cluster.target(memory.remembered(now), kin=memory.kin(now))


def look(namesrv: str, deep: DeepOptions | None = None, *, counters: bool = True) -> Snapshot:
    """Takes one snapshot; problems of a partial one go to standard error.

    Args:
        namesrv: an option's text.
        deep: how deep to look, None for what is read in bulk only.
        counters: whether brokers are asked for their own counters, which can take them long.

    Raises:
        BadParameter: when it is not known of which cluster.
        SettingsError: when its settings cannot be used.
        CommandError: when nothing could be read.
    """
    home = Home.of()
    cluster = one_cluster(home, namesrv)
    target = replace(target_of(home, cluster), deep=deep, counters=counters)
    snapshot = collect_snapshot(target)
    lines = problem_lines(snapshot)
    if snapshot.status == "FAILED":
        raise CommandError(
            f"{lines[0] if lines else cluster.key}; check the address with: tidemark doctor "
            f"--namesrv {';'.join(cluster.namesrv)}"
        )
    for line in lines:
        typer.echo(f"{snapshot.status}: {line}", err=True)
    return snapshot


def problem_lines(snapshot: Snapshot) -> list[str]:
    """What went wrong in a snapshot, one line each."""
    return [problem.line for problem in snapshot.problems]
