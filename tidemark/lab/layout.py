"""The nodes of a lab, their ports, and the file of its state. Nothing is started here.

With port base P:

=============================  ==========================  =====================================
node                           listens at                  also takes
=============================  ==========================  =====================================
name server                    P                           P + 5 (controller), where there is one
proxy, in cluster mode         P + 4                       P + 3 (gRPC)
broker i (0 = ``broker-a``)    L = P + 10 + 10 i           L - 2 (VIP channel), L + 1 (HA)
its slave (``broker-a-slave``) S = L + 5                   S - 2, S + 1
proxy, in local mode           within ``broker-a``         P + 3 (gRPC), P + 4
=============================  ==========================  =====================================

That the VIP channel is ``listenPort - 2`` is fixed in RocketMQ (``BrokerController``,
``fastRemotingServer``); the HA port is ours to choose (``haListenPort``).

Nodes announce 127.0.0.1 and are set to bind to it. HA ports, and with 4.9 every port, listen on
every interface all the same, because RocketMQ has no setting for them (seen with ``ss``).
"""

import random
import socket
from pathlib import Path
from string import ascii_lowercase
from typing import Literal

from pydantic import BaseModel, ValidationError

from tidemark.lab.child_processes import Process


class LabError(Exception):
    """A failure of the lab, in one line: the failure, its place and the remedy."""


CLUSTER = "lab"
DEFAULT_PORT_BASE = 19876
MAX_BROKERS = len(ascii_lowercase)
NAMESRV = "namesrv"
PROXY = "proxy"

Proxy = Literal["cluster", "local"]
"""A Proxy of its own before the brokers, or one in the process of the only broker."""


class Node(BaseModel, frozen=True):
    """One server process of the lab.

    Attributes:
        name: its name on the command line: ``namesrv``, ``broker-a``, ``broker-a-slave``.
        broker: the broker group's name (``broker-a``), None for the name server.
        broker_id: 0 = master, 1 = slave, None for the name server.
        port: port of clients, on 127.0.0.1.
        grpc_port: port of gRPC clients at a proxy, or at a broker in one. The remoting port of a
            proxy is the next.
        controller_port: port of the controller: in a name server that runs one, and at a broker
            that gets its role from one.
    """

    name: str
    broker: str | None = None
    broker_id: int | None = None
    port: int
    grpc_port: int | None = None
    controller_port: int | None = None

    @property
    def role(self) -> Literal["namesrv", "proxy", "broker"]:
        """The role of the node, also where a process runs several roles."""
        if self.broker is not None:
            return "broker"
        return "namesrv" if self.grpc_port is None else "proxy"

    @property
    def address(self) -> str:
        """``127.0.0.1:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def grpc_address(self) -> str:
        """``127.0.0.1:port`` for gRPC clients."""
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def ports(self) -> tuple[int, ...]:
        """Every port the process listens at."""
        proxy = () if self.grpc_port is None else (self.grpc_port, self.grpc_port + 1)
        if self.role == "proxy":
            return proxy
        if self.role == "namesrv":
            controller = () if self.controller_port is None else (self.controller_port,)
            return (self.port, *controller)
        return (self.port - 2, self.port, self.ha_port, *proxy)

    @property
    def ha_port(self) -> int:
        """The port at which a master sends its log to slaves."""
        return self.port + 1


def plan(
    port_base: int,
    brokers: int,
    slaves: bool,
    proxy: Proxy | None = None,
    controller: bool = False,
) -> list[Node]:
    """Return the nodes of a lab in the order they start: name server, masters, slaves, proxy.

    Args:
        port_base: the name server's port.
        brokers: number of masters.
        slaves: give each master one slave.
        proxy: where a Proxy runs, if one does.
        controller: run a controller in the name server, which gives the brokers their ids: each
            master 1, each slave 2, and the present master is also listed as 0.

    Raises:
        LabError: too few or too many brokers, or ports outside 1024-65535.
    """
    if not 1 <= brokers <= MAX_BROKERS:
        raise LabError(f"a lab has 1 to {MAX_BROKERS} brokers, not {brokers}")
    grpc_port = port_base + 3
    controller_port = port_base + 5 if controller else None
    nodes = [Node(name=NAMESRV, port=port_base, controller_port=controller_port)]
    names = [f"broker-{letter}" for letter in ascii_lowercase[:brokers]]
    for is_slave in (False, True) if slaves else (False,):
        for i, name in enumerate(names):
            with_proxy = proxy == "local" and i == 0 and not is_slave
            nodes.append(
                Node(
                    name=f"{name}-slave" if is_slave else name,
                    broker=name,
                    broker_id=(2 if controller else 1) if is_slave else 0,
                    port=port_base + 10 + 10 * i + (5 if is_slave else 0),
                    grpc_port=grpc_port if with_proxy else None,
                    controller_port=controller_port,
                )
            )
    if proxy == "cluster":
        nodes.append(Node(name=PROXY, port=grpc_port + 1, grpc_port=grpc_port))
    highest = max(port for node in nodes for port in node.ports)
    if port_base < 1024 or highest > 65535:
        raise LabError(
            f"ports {port_base} to {highest} do not all lie in 1024-65535: "
            "choose another --port-base"
        )
    return nodes


def is_free(port: int) -> bool:
    """Return whether a server could listen at this port of 127.0.0.1 now."""
    with socket.socket() as candidate:
        # Servers set this too: without it a port that was closed a moment ago seems taken.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def require_free_ports(nodes: list[Node]) -> None:
    """Check that every port is free, so that nothing is started in vain.

    Raises:
        LabError: names the first port taken and the node that needs it.
    """
    for node in nodes:
        for port in node.ports:
            if not is_free(port):
                raise LabError(
                    f"port {port} (needed by {node.name}) is in use: choose another --port-base, "
                    f"or find its owner with: ss -ltnp 'sport = :{port}'"
                )


def free_port_base(
    brokers: int = 2,
    slaves: bool = False,
    proxy: Proxy | None = None,
    controller: bool = False,
) -> int:
    """Return a port base whose ports are all free now, so that labs can run side by side.

    Bases lie below the ports that the kernel assigns to outgoing connections (from 32768 on Linux).

    Raises:
        LabError: none was found.
    """
    for _ in range(200):
        base = random.randrange(20000, 32000, 100)
        nodes = plan(base, brokers, slaves, proxy, controller)
        if all(is_free(port) for node in nodes for port in node.ports):
            return base
    raise LabError("no free ports between 20000 and 32000 for a lab")


class State(BaseModel):
    """The record of a lab in its home: nodes and started processes.

    Attributes:
        version: RocketMQ version of every node.
        nodes: in the order they start.
        secure: whether it requires an account and TLS.
        processes: by node name, and ``workload``; a name is absent when it was never started.
    """

    version: str
    nodes: list[Node]
    secure: bool = False
    processes: dict[str, Process] = {}

    def running(self) -> dict[str, int]:
        """Return the process ids by name, of those that run now."""
        return {name: process.pid for name, process in self.processes.items() if process.find()}


class StateFile:
    """The file a `State` is kept in."""

    def __init__(self, home: Path) -> None:
        """A handle on ``home/lab.json``; nothing is read."""
        self._home = home
        self._path = home / "lab.json"

    def exists(self) -> bool:
        """Return whether a lab was ever started in this home."""
        return self._path.exists()

    def read(self) -> State:
        """Return the state in the file.

        Raises:
            LabError: there is none, or it cannot be read.
        """
        try:
            return State.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            raise LabError(f"no lab in {self._home}: start one with: tidemark lab up") from None
        except (OSError, ValidationError) as error:
            reason = str(error).splitlines()[0]
            raise LabError(f"cannot read {self._path} ({reason})") from error

    def write(self, state: State) -> None:
        """Replace the file, by rename: a reader sees the old or the new."""
        partial = self._path.with_suffix(".partial")
        partial.write_text(state.model_dump_json(indent=2))
        partial.replace(self._path)

    def record(self, name: str, process: Process) -> None:
        """Write down one more process."""
        state = self.read()
        state.processes[name] = process
        self.write(state)
