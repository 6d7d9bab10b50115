"""Clients that talk to the brokers themselves: one process with members of many groups.

``workload/RemotingClients.java`` implements its commands.
"""

from pathlib import Path

from tidemark.lab import compiling
from tidemark.lab.programs import Program


class RemotingClients(Program):
    """One process of an application, for as long as the context lasts."""

    def _command_line(self, folder: Path) -> list[str]:
        command = compiling.command(self._cluster.version, folder, "RemotingClients")
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
