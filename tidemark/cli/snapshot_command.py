"""One snapshot for a command: the choice of its cluster, and the output of its problems."""

import shlex
from dataclasses import replace
from datetime import UTC, datetime

import typer

from tidemark.cli.invocation import CommandError, invocation
from tidemark.cli.output import printable
from tidemark.collection.memory import Memory
from tidemark.collection.snapshots import NAME_IT
from tidemark.model.snapshots import SnapshotStatus
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.records import Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions
from tidemark.rocketmq.wire.addresses import split_endpoint
from tidemark.settings.clusters import Cluster, configured, fault_of_name
from tidemark.settings.home import Home


def name_servers(namesrv: str) -> tuple[str, ...]:
    """Return the name servers that an option names.

    Raises:
        BadParameter: when one is not ``HOST:PORT``.
    """
    servers = tuple(part.strip() for part in namesrv.split(";") if part.strip())
    for server in servers:
        try:
            split_endpoint(server)
        except ValueError as error:
            raise typer.BadParameter(
                f"{server!r} is not a name server: it must be HOST:PORT, several separated by ;"
            ) from error
    return servers


def clusters(home: Home, namesrv: str) -> list[Cluster]:
    """Return the clusters of a command: at these name servers, else those of the settings file.

    Raises:
        BadParameter: when there are none, or one name server is not ``HOST:PORT``.
        SettingsError: when the settings file cannot be used.
    """
    basics = invocation().basics
    servers = name_servers(namesrv.strip() or basics.namesrv)
    result = configured(home, ";".join(servers), basics.cluster, basics.clusters)
    if not result:
        raise typer.BadParameter(
            "which cluster? Give --namesrv HOST:PORT, set TIDEMARK_NAMESRV, or write "
            f"{home.path / 'clusters.yaml'}"
        )
    return result


def one_cluster(home: Home, namesrv: str) -> Cluster:
    """Return the cluster of a command that takes one only.

    Where the settings file has several clusters at the name servers of the option, all brokers
    there are one cluster, with the account and the encryption that these clusters have in common.

    Raises:
        BadParameter: also when there are several.
        SettingsError: when the settings file cannot be used.
    """
    result = clusters(home, namesrv)
    servers = name_servers(namesrv)
    first = result[0]
    alike = all((cluster.acl, cluster.tls) == (first.acl, first.tls) for cluster in result)
    if servers and alike and len(result) > 1:
        proxies = tuple(dict.fromkeys(proxy for cluster in result for proxy in cluster.proxies))
        return replace(first, namesrv=servers, name=None, cluster=None, proxies=proxies)
    if len(result) > 1:
        names = ", ".join(cluster.key for cluster in result)
        raise typer.BadParameter(f"which cluster? Set TIDEMARK_CLUSTER to one of {names}")
    return first


def target_of(cluster: Cluster) -> ClusterTarget:
    """Return the target of a cluster, with the brokers that ticks remember.

    A name server forgets a broker as soon as it is killed.
    """
    now = datetime.now(UTC)
    memory = Memory.of(invocation().shared.state, cluster.key)
    return cluster.target(memory.remembered(now), kin=memory.kin(now, cluster.others))


def take_snapshot(
    namesrv: str, deep: DeepOptions | None = None, *, counters: bool = True
) -> Snapshot:
    """Take one snapshot of a cluster, see `targeted_snapshot`."""
    return targeted_snapshot(namesrv, deep, counters=counters)[1]


def targeted_snapshot(
    namesrv: str, deep: DeepOptions | None = None, *, counters: bool = True
) -> tuple[ClusterTarget, Snapshot]:
    """Take one snapshot of a cluster and write its problems and limits to standard error.

    Args:
        namesrv: the text of the option.
        deep: options of a deep snapshot; None for a bulk snapshot.
        counters: whether to request the brokers' own counters, which can take long.

    Returns:
        The target, with its addresses and limits, and the snapshot.

    Raises:
        BadParameter: when no cluster is given.
        SettingsError: when its settings cannot be used.
        CommandError: when nothing could be read, or the cluster has a name that cannot be used.
    """
    home = invocation().home
    cluster = one_cluster(home, namesrv)
    target = replace(target_of(cluster), deep=deep, counters=counters)
    snapshot = collect_snapshot(target)
    lines = problem_lines(snapshot)
    if snapshot.status == SnapshotStatus.FAILED:
        # A shell ends a command at the semicolon between two name servers.
        servers = shlex.quote(";".join(cluster.namesrv))
        raise CommandError(
            f"{lines[0] if lines else cluster.key}; check the address with: tidemark doctor "
            f"--namesrv {servers}"
        )
    if reason := fault_of_name(snapshot.cluster):
        raise CommandError(f"{cluster.key}: {reason}; {NAME_IT}")
    for line in lines:
        typer.echo(f"{snapshot.status}: {line}", err=True)
    for item in snapshot.left_out:
        typer.echo(f"limited: {printable(item.line)}", err=True)
    return target, snapshot


def problem_lines(snapshot: Snapshot) -> list[str]:
    """Return the problems of a snapshot, one line each."""
    return [printable(problem.line) for problem in snapshot.problems]
