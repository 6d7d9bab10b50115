"""Faults of a node: kill, stop, resume and restart.

``node`` is a node's name: ``namesrv``, ``broker-a``, ``broker-a-slave``. Every function raises
`LabError` in one line when there is no such node or it is not in the state the fault needs.
"""

import signal

from tidemark.lab import processes
from tidemark.lab.cluster import BOOT_SECONDS, LabCluster
from tidemark.lab.layout import LabError
from tidemark.lab.processes import Process


def kill(cluster: LabCluster, node: str) -> None:
    """Kill a node by SIGKILL; its process has ended on return, its store stays as it was."""
    processes.stop([_running(cluster, node)], graceful_seconds=0)


def stop(cluster: LabCluster, node: str) -> None:
    """Stop a node by SIGSTOP: its ports stay open, but it no longer responds."""
    if not _running(cluster, node).freeze():
        raise LabError(f"{node} does not stop: end it with: tidemark lab kill {node}")


def resume(cluster: LabCluster, node: str) -> None:
    """Resume a node after `stop`, by SIGCONT."""
    _running(cluster, node).send(signal.SIGCONT)


def restart(
    cluster: LabCluster, node: str, seconds: float = BOOT_SECONDS, graceful_seconds: float = 0
) -> None:
    """Start a node again on its store; one that still runs is ended first.

    Return when a broker is registered and responds again. After a restart of the name server
    brokers register within 30 s, for which this waits as well.

    Args:
        cluster: the cluster of the node.
        node: its name.
        seconds: how long the start may take.
        graceful_seconds: how long it may flush and unregister before it is killed.
    """
    cluster.node(node)
    process = cluster.process(node)
    if process:
        processes.stop([process], graceful_seconds)
    cluster.start(node, seconds)


def _running(cluster: LabCluster, node: str) -> Process:
    cluster.node(node)
    process = cluster.process(node)
    if process is None or process.find() is None:
        raise LabError(f"{node} does not run: start it with: tidemark lab restart {node}")
    return process
