"""Faults of a node: it is killed, it hangs, it comes back.

``node`` is a node's name: ``namesrv``, ``broker-a``, ``broker-a-slave``. Every function raises
`LabError` in one line when there is no such node or it is not in the state the fault needs.
"""

import signal

from lab import processes
from lab.cluster import BOOT_SECONDS, LabCluster
from lab.errors import LabError
from lab.processes import Process


def kill(cluster: LabCluster, node: str) -> None:
    """Kill -9: the process is gone when this returns, its store is left as it was."""
    processes.stop([_running(cluster, node)], graceful_seconds=0)


def stop(cluster: LabCluster, node: str) -> None:
    """SIGSTOP: the ports stay open, but nobody responds any more when this returns."""
    if not _running(cluster, node).freeze():
        raise LabError(f"{node} does not stop: end it with: tidemark lab kill {node}")


def resume(cluster: LabCluster, node: str) -> None:
    """Resume a node after `stop`, by SIGCONT."""
    _running(cluster, node).send(signal.SIGCONT)


def restart(
    cluster: LabCluster, node: str, seconds: float = BOOT_SECONDS, graceful_seconds: float = 0
) -> None:
    """Start a node again on its store; one that still runs is ended first.

    Returns when a broker is registered and answers again. After a restart of the name server
    brokers register within 30 s, which this waits for as well.

    Args:
        cluster: whose node.
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
