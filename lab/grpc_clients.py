"""gRPC clients of a lab's Proxy: they send, pop, acknowledge, and count what they did.

One Java program runs them all; what its commands do is in ``grpc/GrpcClients.java``.
"""

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from lab import compiling
from lab.cluster import LabCluster
from lab.config import logback
from lab.errors import LabError


class GrpcClients:
    """The clients, for as long as the context lasts: ``with GrpcClients(cluster) as clients``."""

    def __init__(self, cluster: LabCluster) -> None:
        """Clients of the proxy of a cluster; nothing is started."""
        self._cluster = cluster
        self._folder = cluster.home / "grpc"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start the program.

        Raises:
            LabError: no proxy in the lab, no JDK, or the sources do not compile.
        """
        self._folder.mkdir(exist_ok=True)
        (self._folder / "logback.xml").write_text(logback(self._folder))
        proxy, namesrv = self._cluster.proxy, self._cluster.namesrv
        command = compiling.grpc_command(self._cluster.version, self._folder)
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [*command, proxy.grpc_address, namesrv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={key: value for key, value in os.environ.items() if key != "CLASSPATH"},
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill the program: its clients vanish as those of a crashed process do."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    @property
    def log(self) -> Path:
        """What the program wrote to its standard error."""
        return self._folder / "output.log"

    def topic(self, name: str, message_type: str = "NORMAL", queues: int = 4) -> None:
        """Make a topic on the first master.

        Args:
            name: the topic.
            message_type: ``NORMAL``, ``FIFO``, ``DELAY`` or ``LITE``; a Proxy refuses messages of
                others.
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
        """Make a consumer group on the first master.

        Args:
            name: the group.
            orderly: whether its messages are consumed in order.
            bound_to: the topic whose lite topics it consumes.
        """
        words = ["-o", str(orderly).lower()]
        if bound_to:
            words += ["--attributes", f"+lite.bind.topic={bound_to}"]
        self._admin("updateSubGroup", "-b", self._master, "-g", name, *words)

    def send(self, topic: str, count: int, kind: str = "plain") -> None:
        """Send messages, each confirmed.

        Args:
            topic: where to.
            count: how many.
            kind: ``plain``, ``fifo``, ``lite:NAME`` to a lite topic, or seconds of delay.
        """
        self._command("send", topic, count, kind)

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

    def counts(self, group: str) -> tuple[int, int]:
        """Messages that a push consumer's listener began with, and that it finished."""
        begun, finished = self._command("count", group)
        return begun, finished

    def close(self, group: str) -> None:
        """Let a consumer leave; what it did not acknowledge is handed out again later."""
        self._command("close", group)

    def send_remoting(self, topic: str, count: int) -> None:
        """Send messages past the proxy, which static topics need."""
        self._command("remoting-send", topic, count)

    def read_remoting(self, topic: str, group: str, count: int) -> int:
        """Read and commit at least so many messages past the proxy; how many it were."""
        return self._command("remoting-read", topic, group, count)[0]

    @property
    def _master(self) -> str:
        return self._cluster.brokers[0].address

    def _admin(self, *words: str) -> None:
        self._command("admin", *words)

    def _command(self, *words: str | int) -> list[int]:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise LabError("the gRPC clients do not run: use them as a context")
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        response = process.stdout.readline()
        sign, _, rest = response.strip().partition(" ")
        if sign != "ok":
            raise LabError(f"{words[0]} failed ({rest or 'the clients ended'}): see {self.log}")
        return [int(number) for number in rest.split()]
