"""A RocketMQ cluster on this machine: start, later access, stop, and faults of its nodes.

All of its state is in one folder, its *home*: ``lab.json`` (ids and start times of running
processes, written before the next one starts), ``nodes/<name>/`` (configuration, store, logs) and
``workload/``. A `LabCluster` is only a handle on that folder, so every process that opens the
folder sees the same cluster.

A fault kills, stops, resumes or restarts a node, which is named ``namesrv``, ``broker-a``,
``broker-a-slave`` and so on. It raises `LabError` in one line when there is no such node or it is
not in the state the fault needs.
"""

import asyncio
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from filelock import FileLock

from tidemark.lab import child_processes, jars, layout
from tidemark.lab import config as node_config
from tidemark.lab.child_processes import Process
from tidemark.lab.layout import LabError, Node, State, StateFile
from tidemark.lab.workloads import WORKLOADS, Workload, require_known
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import RemotingError
from tidemark.rocketmq.wire.security import PLAIN, Security

BOOT_SECONDS = 240.0
STOP_SECONDS = 40.0
WORKLOAD = "workload"
TLS = "tls"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Broker:
    """A broker of a lab.

    Attributes:
        name: the node's name, the argument of faults: ``broker-a``, ``broker-a-slave``.
        broker: the broker group's name: ``broker-a``.
        broker_id: 0 = master, 1 = slave.
        address: ``127.0.0.1:port``.
        pid: None when it does not run.
    """

    name: str
    broker: str
    broker_id: int
    address: str
    pid: int | None


class LabCluster:
    """A cluster in a home folder; make one with `up` or `load`."""

    def __init__(self, home: Path) -> None:
        """A handle on ``home``; nothing is read or started."""
        self.home = home
        self._state = StateFile(home)

    @classmethod
    def up(
        cls,
        home: Path,
        version: str = jars.VERSIONS[0],
        brokers: int = 2,
        slaves: bool = False,
        port_base: int = layout.DEFAULT_PORT_BASE,
        config: Mapping[str, str] | None = None,
        secure: bool = False,
        files: Mapping[str, str] | None = None,
        proxy: layout.Proxy | None = None,
        controller: bool = False,
        report: Callable[[str], None] = _log.info,
    ) -> Self:
        """Start an empty cluster and wait until every broker is registered and responds.

        When this fails or is interrupted, everything it started is stopped again.

        Args:
            home: folder of its own; files of an earlier lab there are deleted.
            version: one of `tidemark.lab.jars.VERSIONS`.
            brokers: number of masters: ``broker-a``, ``broker-b``, ...
            slaves: give each master one slave.
            port_base: the name server's port; for the others see `tidemark.lab.layout`.
            config: broker configuration that wins over the lab's own.
            secure: require an account and TLS in both directions, see `security`; the workload
                knows neither.
            files: files that each broker loads, written into its folder before it starts: text by
                relative path, see `tidemark.lab.large`.
            proxy: run a Proxy before the brokers (``cluster``), or one with the broker in it
                (``local``).
            controller: run a controller that makes brokers master or slave, see `layout.plan`.
            report: called with a line for each step.

        Raises:
            LabError: a lab runs there already, a port is taken, no Java, no jars, or it did not
                come up within `BOOT_SECONDS`.
        """
        cluster = cls(home.resolve())
        nodes = layout.plan(port_base, brokers, slaves, proxy, controller)
        with cluster._locked():
            cluster._require_usable_home()
            layout.require_free_ports(nodes)
            jars.find("java")
            if proxy == "local" and version in jars.COMPANIONS:
                raise LabError(f"no Proxy of RocketMQ {version} is on Maven Central to run it in")
            jars.fetch(version, report)
            jars.fetch_broker(version, report)
            if proxy:
                jars.fetch_proxy(version, report)
            for leftover in ("nodes", WORKLOAD, TLS):
                shutil.rmtree(cluster.home / leftover, ignore_errors=True)
            cluster._state.write(State(version=version, nodes=nodes, secure=secure))
            extra = config or {}
            if secure:
                node_config.write_certificates(cluster.folder_of_certificates)
                extra = {**node_config.broker_properties(version), **extra}
            try:
                cluster._boot(nodes, extra, files or {}, report)
            except BaseException:
                cluster._stop_all(graceful_seconds=0)
                raise
        return cluster

    @classmethod
    def load(cls, home: Path) -> Self:
        """Return the cluster that runs in ``home``.

        Raises:
            LabError: none runs there.
        """
        cluster = cls(home.resolve())
        if not cluster.is_running():
            raise LabError(f"no lab runs in {cluster.home}: start one with: tidemark lab up")
        return cluster

    @property
    def version(self) -> str:
        """RocketMQ version of the brokers, and of other nodes unless it has a companion."""
        return self._state.read().version

    @property
    def nodes(self) -> list[Node]:
        """Every node: the name server, then the brokers."""
        return self._state.read().nodes

    @property
    def namesrv(self) -> str:
        """Address of the name server, ``127.0.0.1:port``."""
        return self.node(layout.NAMESRV).address

    @property
    def proxy(self) -> Node:
        """The node that gRPC clients connect to.

        Raises:
            LabError: the lab has no proxy.
        """
        for node in self.nodes:
            if node.grpc_port is not None:
                return node
        raise LabError(f"no proxy in the lab of {self.home}")

    @property
    def folder_of_certificates(self) -> Path:
        """The folder of a secure lab's authority, and of the certificates and keys from it."""
        return self.home / TLS

    @property
    def security(self) -> Security:
        """Account and certificates for clients of a secure lab; `PLAIN` for any other lab."""
        if not self._state.read().secure:
            return PLAIN
        return node_config.security(self.folder_of_certificates)

    @property
    def brokers(self) -> list[Broker]:
        """Every broker, masters first, whether it runs or not."""
        return [
            Broker(
                name=node.name,
                broker=node.broker,
                broker_id=node.broker_id or 0,
                address=node.address,
                pid=self.pid(node.name),
            )
            for node in self.nodes
            if node.broker is not None
        ]

    @property
    def masters(self) -> list[str]:
        """Addresses of the masters."""
        return [broker.address for broker in self.brokers if broker.broker_id == 0]

    def node(self, name: str) -> Node:
        """Return a node by name.

        Raises:
            LabError: there is no such node; names those there are.
        """
        nodes = {node.name: node for node in self.nodes}
        if name not in nodes:
            raise LabError(f"no node {name} in the lab of {self.home}: it has {', '.join(nodes)}")
        return nodes[name]

    def process(self, name: str) -> Process | None:
        """Return the recorded process of a node or of ``workload``; None if never started."""
        return self._state.read().processes.get(name)

    def pid(self, name: str) -> int | None:
        """Return the process id of a node, or of ``workload``; None when it does not run."""
        return self._state.read().running().get(name)

    def is_running(self) -> bool:
        """Return whether any process of this home runs."""
        return self._state.exists() and bool(self._state.read().running())

    def down(self, graceful: bool = True) -> None:
        """Stop every process of this home, if any runs. Logs and stores stay.

        Args:
            graceful: let brokers flush and unregister, up to `STOP_SECONDS`; else kill at once.
        """
        if not self._state.exists():
            return
        with self._locked():
            self._stop_all(STOP_SECONDS if graceful else 0)

    def start(self, name: str, seconds: float = BOOT_SECONDS) -> None:
        """Start a node that does not run, on the store it left, and wait until it is registered.

        For the name server: until every broker that responds is registered there again.

        Raises:
            LabError: it runs already, or did not come up in time.
        """
        node = self.node(name)
        with self._locked():
            if self.pid(name) is not None:
                raise LabError(f"{name} runs already")
            layout.require_free_ports([node])
            self._start_node(node)
            waited_for = [node]
            if node.role == "namesrv":
                # A new name server lists no broker until the brokers' next heartbeat, up to 30 s.
                brokers = [node for node in self.nodes if node.broker]
                unreachable = unreachable_addresses(
                    [broker.address for broker in brokers], self.security
                )
                waited_for += [broker for broker in brokers if broker.address not in unreachable]
            self._wait_for(waited_for, time.monotonic() + seconds)

    def start_workload(
        self, name: str = "all", rate: float = 20.0, seconds: float = BOOT_SECONDS
    ) -> None:
        """Start a workload and wait until its consumers run and it produces.

        Args:
            name: one of `tidemark.lab.workloads.WORKLOADS`.
            rate: messages a second to ``lab_orders``; the other topics get a share of it.
            seconds: how long to wait.

        Raises:
            LabError: unknown name, one runs already, or it was not ready in time.
        """
        require_known(name)
        if self._state.read().secure:
            raise LabError("the workload has no account and no TLS: start a lab without --secure")
        if self.pid(WORKLOAD) is not None:
            raise LabError(f"a workload runs already in {self.home}")
        with self._locked():
            self._start_workload(name, rate, seconds)

    def stop_producers(self, seconds: float = 60.0) -> dict[str, int]:
        """Stop producing while consumers continue; return when the last message has arrived.

        That includes messages with a delay, so from here on no ``max_offset`` of the workload's
        topics changes.

        Returns:
            Messages sent so far, by topic, each confirmed by its broker.

        Raises:
            LabError: no workload runs, or it did not stop in time.
        """
        self._require_workload()
        return self._workload().pause(self._workload_runs, seconds)

    def start_producers(self, seconds: float = 60.0) -> None:
        """Resume producing after `stop_producers`.

        Raises:
            LabError: no workload runs, or it did not resume in time.
        """
        self._require_workload()
        self._workload().go_on(self._workload_runs, seconds)

    def stop_workload(self) -> None:
        """End the workload's process, consumers and producers; does nothing when none runs."""
        with self._locked():
            state = self._state.read()
            process = state.processes.pop(WORKLOAD, None)
            if process:
                child_processes.stop([process], graceful_seconds=10)
                self._state.write(state)

    # Home

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One change of this home at a time, from whatever process."""
        try:
            self.home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LabError(
                f"cannot use {self.home} ({error.strerror}): give another --home"
            ) from error
        with FileLock(self.home / ".lock"):
            yield

    def _require_usable_home(self) -> None:
        if self._state.exists():
            if self.is_running():
                raise LabError(
                    f"a lab runs already in {self.home} (name server {self.namesrv}): "
                    "stop it with: tidemark lab down"
                )
        elif any(path.name != ".lock" for path in self.home.iterdir()):
            raise LabError(f"{self.home} is not empty and not a lab's: give another --home")

    # Processes

    def folder(self, name: str) -> Path:
        """Return where a node keeps configuration, store and logs."""
        return self.home / "nodes" / name

    def _boot(
        self,
        nodes: list[Node],
        config: Mapping[str, str],
        files: Mapping[str, str],
        report: Callable[[str], None],
    ) -> None:
        deadline = time.monotonic() + BOOT_SECONDS
        for node in nodes:
            folder = self.folder(node.name)
            texts = node_config.files(node, self.namesrv, folder, config)
            for name, text in {**texts, **(files if node.broker else {})}.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        # In this order a broker finds the name server, and a slave its master, at its first
        # attempt; the next one would be 10 to 30 s later.
        waves = (
            [node for node in nodes if node.role == "namesrv"],
            [node for node in nodes if node.broker_id == 0],
            [node for node in nodes if node.broker_id],
            [node for node in nodes if node.role == "proxy"],
        )
        for wave in waves:
            if wave:
                report(f"starting {', '.join(node.name for node in wave)}")
            for node in wave:
                self._start_node(node)
            self._wait_for(wave, deadline)

    def _start_node(self, node: Node) -> None:
        folder = self.folder(node.name)
        java_path = jars.find("java")
        secure = self._state.read().secure
        options = node_config.java_options(self.folder_of_certificates) if secure else []
        if node.grpc_port is not None:
            path = jars.fetch_proxy(self.version)
        elif node.broker is not None:
            path = jars.fetch_broker(self.version)
        else:
            path = jars.fetch(self.version)
        command = node_config.command(node, java_path, path, folder, options)
        # Set for the brokers of a shell, ROCKETMQ_HOME and NAMESRV_ADDR would win over our files.
        environment = {
            key: value
            for key, value in os.environ.items()
            if key not in ("ROCKETMQ_HOME", "NAMESRV_ADDR", "CLASSPATH")
        }
        environment["ROCKETMQ_HOME"] = str(folder)
        self._state.record(
            node.name, child_processes.start(command, folder / "output.log", environment)
        )

    def _wait_for(self, nodes: list[Node], deadline: float) -> None:
        """Wait until the name server lists the brokers of these, and each of these responds."""
        expected = {(node.broker, node.broker_id) for node in nodes if node.broker}
        while True:
            for node in nodes:
                self._require_alive(node)
            registered = registered_brokers(self.namesrv, self.security)
            missing = expected if registered is None else expected - registered
            addresses = [node.address for node in nodes if node.broker]
            closed = [node for node in nodes if node.grpc_port and layout.is_free(node.grpc_port)]
            if (
                not closed
                and registered is not None
                and not missing
                and not unreachable_addresses(addresses, self.security)
            ):
                return
            if time.monotonic() > deadline:
                names = ", ".join(node.name for node in nodes)
                raise LabError(f"{names} not ready in time: see {self.home / 'nodes'}/*/logs")
            time.sleep(0.1)

    def _require_alive(self, node: Node) -> None:
        if self.pid(node.name) is None:
            log = self.folder(node.name) / "output.log"
            lines = log.read_text(errors="replace").split("\n") if log.exists() else []
            first_line = next((line.strip() for line in lines if line.strip()), "nothing")
            raise LabError(
                f"{node.name} ended while it started, it printed: {first_line[:200]} (see {log})"
            )

    def _stop_all(self, graceful_seconds: float) -> None:
        state = self._state.read()
        child_processes.stop(state.processes.values(), graceful_seconds)
        state.processes.clear()
        self._state.write(state)

    # Workload

    def _workload(self) -> Workload:
        return Workload(self.home / WORKLOAD)

    def _workload_runs(self) -> bool:
        return self.pid(WORKLOAD) is not None

    def _require_workload(self) -> None:
        if not self._workload_runs():
            raise LabError(f"no workload runs in {self.home}: start one with lab up --workload all")

    def _start_workload(self, name: str, rate: float, seconds: float) -> None:
        workload = self._workload()
        masters = [node.address for node in self.nodes if node.broker_id == 0]
        command = workload.prepare(self.version, self.namesrv, masters, WORKLOADS[name], rate)
        process = child_processes.start(command, workload.log, os.environ)
        try:
            self._state.record(WORKLOAD, process)
            workload.wait_until_ready(self._workload_runs, seconds)
        except BaseException:
            child_processes.stop([process], graceful_seconds=0)
            raise


def registered_brokers(namesrv: str, security: Security = PLAIN) -> set[tuple[str, int]] | None:
    """Return (broker, broker_id) of the listed brokers; None without a response."""

    async def request() -> set[tuple[str, int]]:
        async with RemotingClient(total_timeout=3, security=security) as client:
            info = await admin.broker_cluster_info(client, namesrv)
        return {(name, key) for name, group in info.brokers.items() for key in group.addresses}

    try:
        return asyncio.run(request())
    except RemotingError:
        return None


def unreachable_addresses(brokers: list[str], security: Security = PLAIN) -> list[str]:
    """Return the given broker addresses that do not respond now."""

    async def request() -> list[BaseException | object]:
        async with RemotingClient(total_timeout=3, security=security) as client:
            questions = (admin.broker_runtime_info(client, broker) for broker in brokers)
            return await asyncio.gather(*questions, return_exceptions=True)

    responses = asyncio.run(request())
    pairs = zip(brokers, responses, strict=True)
    return [broker for broker, response in pairs if isinstance(response, RemotingError)]


def kill(cluster: LabCluster, node: str) -> None:
    """Kill a node by SIGKILL; its process has ended on return, its store stays as it was."""
    child_processes.stop([_running(cluster, node)], graceful_seconds=0)


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
        child_processes.stop([process], graceful_seconds)
    cluster.start(node, seconds)


def _running(cluster: LabCluster, node: str) -> Process:
    cluster.node(node)
    process = cluster.process(node)
    if process is None or process.find() is None:
        raise LabError(f"{node} does not run: start it with: tidemark lab restart {node}")
    return process
