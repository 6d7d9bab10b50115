"""Clients of a lab, remoting and gRPC: one process each with members of many groups.

``workload/RemotingClients.java`` implements the commands of clients that talk to the brokers
themselves, ``grpc/GrpcClients.java`` those of clients of a Proxy, which send, pop, acknowledge and
count messages. Both take commands on their standard input, see ``shared/Commands.java``.
"""

import os
import subprocess
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tidemark.lab.cluster import LabCluster
from tidemark.lab.config import logback
from tidemark.lab.layout import LabError
from tidemark.lab.workloads import grpc_java_command, java_command

LEAVE_SECONDS = 30.0


class Program(ABC):
    """A program, for as long as the context lasts."""

    def __init__(self, cluster: LabCluster, name: str) -> None:
        """A program of a cluster; nothing is started.

        Args:
            cluster: the cluster of its clients.
            name: of the program and of its folder in the home of the cluster.
        """
        self._cluster = cluster
        self.name = name
        self._folder = cluster.home / name
        self._process: subprocess.Popen[str] | None = None

    @abstractmethod
    def _command_line(self, folder: Path) -> list[str]:
        """Return the command line; compiles the program where these sources were not yet."""

    def __enter__(self) -> Self:
        """Start the program; see `start`."""
        self.start()
        return self

    def start(self) -> None:
        """Start the program.

        Raises:
            LabError: the lab lacks the node of its clients, there is no JDK, or the sources do not
                compile.
        """
        self._folder.mkdir(exist_ok=True)
        (self._folder / "logback.xml").write_text(logback(self._folder))
        command = self._command_line(self._folder)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={key: value for key, value in os.environ.items() if key != "CLASSPATH"},
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill the program; see `kill`."""
        self.kill()

    def kill(self) -> None:
        """Kill the program: its clients vanish as those of a crashed process do."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def leave(self) -> None:
        """End the program as a deployment does: its members leave, then the process ends."""
        self._command("leave")
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.communicate(timeout=LEAVE_SECONDS)
        self.kill()

    @property
    def log(self) -> Path:
        """The text that the program wrote to its standard error."""
        return self._folder / "output.log"

    def behave(self, group: str, behaviour: str) -> None:
        """Change how the program's member of a group handles messages, see `Behaviour.java`."""
        self._command("behave", group, behaviour)

    def counts(self, group: str) -> tuple[int, int]:
        """Messages that the program's member of a group began with, and that it finished."""
        begun, finished = self._command("count", group)
        return begun, finished

    def _command(self, *words: str | int | float) -> list[int]:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise LabError(f"{self.name} does not run: use it as a context")
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        response = process.stdout.readline()
        sign, _, rest = response.strip().partition(" ")
        if sign != "ok":
            raise LabError(f"{words[0]} failed ({rest or 'the program ended'}): see {self.log}")
        return [int(number) for number in rest.split()]


class RemotingClients(Program):
    """One process of an application, for as long as the context lasts."""

    def _command_line(self, folder: Path) -> list[str]:
        command = java_command(self._cluster.version, folder, "RemotingClients")
        return [*command, self._cluster.namesrv, ",".join(self._cluster.masters), self.name]

    def topic(self, name: str, read_queues: int = 4, write_queues: int = 4) -> None:
        """Make a topic on every master."""
        self._command("topic", name, read_queues, write_queues)

    def configure_brokers(self, name: str, value: str) -> None:
        """Change a setting of every master."""
        self._command("configure", name, value)

    def send(self, topic: str, count: int, size: int = 100) -> None:
        """Send messages of so many bytes, each confirmed."""
        self._command("send", topic, count, size)

    def flood(self, topic: str, count: int) -> None:
        """Send messages as fast as the process can, without waiting for responses."""
        self._command("flood", topic, count)

    def produce(self, topic: str, rate: float, *tags: str) -> None:
        """Send so many messages a second from now on, with these tags in turn; 0 ends it."""
        self._command("produce", topic, rate, ",".join(tags or ("A",)))

    def consume(
        self, kind: str, group: str, topic: str, behaviour: str = "takes:1", **options: str
    ) -> None:
        """Start a member of a group.

        Args:
            kind: ``push``, ``ordered``, ``broadcast``, ``pop``, ``lite-pull``, ``assigned`` or
                ``pull``.
            group: the group.
            topic: the topic that it consumes.
            behaviour: how it handles messages, see `Behaviour.java`.
            options: ``tags``; ``threads``; ``part=I/N``, the queues of an assigned member;
                ``commits=never``; ``as``, a name of its own in its client id.
        """
        words = [f"{name}={value}" for name, value in options.items()]
        self._command("consume", kind, group, topic, behaviour, *words)


class GrpcClients(Program):
    """The clients, for as long as the context lasts: ``with GrpcClients(cluster) as clients``."""

    def __init__(self, cluster: LabCluster, name: str = "grpc") -> None:
        """Clients of the proxy of a cluster; nothing is started."""
        super().__init__(cluster, name)

    def _command_line(self, folder: Path) -> list[str]:
        command = grpc_java_command(self._cluster.version, folder)
        return [*command, self._cluster.proxy.grpc_address, self._cluster.namesrv]

    def topic(self, name: str, message_type: str = "NORMAL", queues: int = 4) -> None:
        """Make a topic on the first master.

        Args:
            name: the topic.
            message_type: ``NORMAL``, ``FIFO``, ``DELAY``, ``PRIORITY`` or ``LITE``; a Proxy refuses
                messages of others.
            queues: how many.
        """
        of_queues = ("-r", str(queues), "-w", str(queues))
        type_of = ("-a", f"+message.type={message_type}")
        self._admin("updateTopic", "-b", self._master, "-t", name, *of_queues, *type_of)

    def static_topic(self, name: str, queues: int = 4) -> None:
        """Make a static topic: its queues have logical offsets of their own."""
        broker = self._cluster.brokers[0].broker
        self._admin("updateStaticTopic", "-t", name, "-qn", str(queues), "-b", broker)

    def group(self, name: str, orderly: bool = False, bound_to: str | None = None) -> None:
        """Make a consumer group on every master: a Proxy may request its configuration from any.

        Args:
            name: the group.
            orderly: whether its messages are consumed in order.
            bound_to: the topic whose lite topics it consumes.
        """
        words = ["-o", str(orderly).lower()]
        if bound_to:
            words += ["--attributes", f"+lite.bind.topic={bound_to}"]
        for master in self._cluster.masters:
            self._admin("updateSubGroup", "-b", master, "-g", name, *words)

    def send(self, topic: str, count: int, kind: str = "plain") -> None:
        """Send messages, each confirmed.

        Args:
            topic: where to.
            count: how many.
            kind: ``plain``; ``fifo``, or ``fifo:N`` of N message groups; ``lite:NAME`` to a lite
                topic; ``priority:P``; or seconds of delay.
        """
        self._command("send", topic, count, kind)

    def produce(self, topic: str, rate: float, kind: str = "plain") -> None:
        """Send so many messages a second from now on; 0 ends it."""
        self._command("produce", topic, rate, kind)

    def work(
        self, group: str, topic: str, invisible_seconds: int, behaviour: str = "takes:1"
    ) -> None:
        """Start a simple consumer that receives and acknowledges on and on."""
        self._command("work", group, topic, invisible_seconds, behaviour)

    def simple(self, group: str, topic: str) -> None:
        """Start a simple consumer."""
        self._command("simple", group, topic)

    def receive(self, group: str, count: int, invisible_seconds: int = 600) -> int:
        """Pop messages for a simple consumer, which keeps them; how many came."""
        return self._command("receive", group, count, invisible_seconds)[0]

    def acknowledge(self, group: str, count: int) -> None:
        """Acknowledge the oldest messages that a simple consumer keeps."""
        self._command("ack", group, count)

    def push(self, group: str, topic: str, threads: int, milliseconds: int) -> None:
        """Start a push consumer whose listener takes so long over each message."""
        self._command("push", group, topic, threads, milliseconds)

    def lite(self, group: str, topic: str, milliseconds: int, *names: str) -> None:
        """Start such a consumer, of one thread, on lite topics of the topic it is bound to."""
        self._command("lite", group, topic, 1, milliseconds, *names)

    def close(self, group: str) -> None:
        """Let a consumer leave; its unacknowledged messages are handed out again later."""
        self._command("close", group)

    def send_remoting(self, topic: str, count: int) -> None:
        """Send messages past the proxy, which static topics need."""
        self._command("remoting-send", topic, count)

    def read_remoting(self, topic: str, group: str, count: int) -> int:
        """Read and commit at least so many messages past the proxy; return their number."""
        return self._command("remoting-read", topic, group, count)[0]

    @property
    def _master(self) -> str:
        return self._cluster.brokers[0].address

    def _admin(self, *words: str) -> None:
        self._command("admin", *words)
