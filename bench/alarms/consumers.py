"""The healthy consumers: one group of each mode and habit, declared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Mode(StrEnum):
    """How members of a group get messages, and through which client."""

    PUSH = "push"
    ORDERED = "ordered"
    BROADCAST = "broadcast"
    LITE_PULL = "lite-pull"
    ASSIGNED = "assigned"
    PULL = "pull"
    POP = "pop"
    GRPC_PUSH = "gRPC push"
    GRPC_SIMPLE = "gRPC simple"
    GRPC_FIFO = "gRPC FIFO"
    GRPC_LITE = "gRPC lite"
    GRPC_PRIORITY = "gRPC priority"

    @property
    def grpc(self) -> bool:
        """Whether members connect to a Proxy."""
        return self.value.startswith("gRPC")

    @property
    def since(self) -> str:
        """The RocketMQ version that brought it."""
        return _SINCE.get(self, "5" if self.grpc else "4")

    @property
    def message_type(self) -> str:
        """The message type of its topics, which a Proxy checks."""
        return _MESSAGE_TYPES.get(self, "NORMAL")


_SINCE = {Mode.POP: "5", Mode.GRPC_LITE: "5.5", Mode.GRPC_PRIORITY: "5.4"}
_MESSAGE_TYPES = {
    Mode.GRPC_FIFO: "FIFO",
    Mode.GRPC_LITE: "LITE",
    Mode.GRPC_PRIORITY: "PRIORITY",
}


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """A group with a topic of its own, which has the group's name.

    Attributes:
        name: of the group.
        mode: of its members.
        habit: what distinguishes it, for the report.
        rate: messages a second to its topic.
        burst: messages that come at once with each burst.
        tags: of the messages, in turn.
        behaviour: how members handle messages, see ``tidemark/lab/shared/Behaviour.java``.
        threads: of each member.
        options: of each member, see `RemotingClients.consume`.
    """

    name: str
    mode: Mode
    habit: str = "keeps up"
    rate: float = 5.0
    burst: int = 0
    tags: tuple[str, ...] = ("A",)
    behaviour: str = "takes:5"
    threads: int = 4
    options: Mapping[str, str] = field(default_factory=dict)

    def runs_on(self, version: str) -> bool:
        """Whether a RocketMQ version has its mode."""
        return version >= self.mode.since


HEALTHY = (
    Consumer(name="push", mode=Mode.PUSH),
    Consumer(
        name="push-slow",
        mode=Mode.PUSH,
        habit="200 ms a message, half of what it could take",
        behaviour="takes:200",
        threads=2,
        rate=8,
    ),
    Consumer(
        name="push-bursts", mode=Mode.PUSH, habit="bursts of 3,000 messages", rate=1, burst=3000
    ),
    Consumer(name="push-quiet", mode=Mode.PUSH, habit="one message a minute", rate=1 / 60),
    Consumer(name="push-unused", mode=Mode.PUSH, habit="a topic without messages", rate=0),
    Consumer(
        name="push-filter",
        mode=Mode.PUSH,
        habit="takes one tag of three",
        tags=("A", "B", "C"),
        options={"tags": "A"},
    ),
    Consumer(
        name="push-rare",
        mode=Mode.PUSH,
        habit="filters every message out",
        options={"tags": "Z"},
    ),
    Consumer(
        name="push-retries",
        mode=Mode.PUSH,
        habit="requests one message in 40 again, twice",
        behaviour="retries:40",
    ),
    Consumer(name="ordered", mode=Mode.ORDERED),
    Consumer(name="ordered-quiet", mode=Mode.ORDERED, habit="one message a minute", rate=1 / 60),
    Consumer(name="broadcast", mode=Mode.BROADCAST),
    Consumer(name="lite-pull", mode=Mode.LITE_PULL),
    Consumer(
        name="lite-pull-quiet", mode=Mode.LITE_PULL, habit="one message a minute", rate=1 / 60
    ),
    Consumer(name="assigned", mode=Mode.ASSIGNED),
    Consumer(name="pull", mode=Mode.PULL),
    Consumer(name="pop", mode=Mode.POP),
    Consumer(
        name="pop-slow",
        mode=Mode.POP,
        habit="2 s a message, half of what it could take",
        behaviour="takes:2000",
        rate=2,
    ),
    Consumer(name="grpc-push", mode=Mode.GRPC_PUSH),
    Consumer(
        name="grpc-slow",
        mode=Mode.GRPC_PUSH,
        habit="5 s a message, half of what it could take",
        behaviour="takes:5000",
        threads=10,
        rate=2,
    ),
    Consumer(
        name="grpc-bursts", mode=Mode.GRPC_PUSH, habit="bursts of 500 messages", rate=1, burst=500
    ),
    Consumer(name="grpc-quiet", mode=Mode.GRPC_PUSH, habit="one message a minute", rate=1 / 60),
    Consumer(
        name="grpc-retries",
        mode=Mode.GRPC_PUSH,
        habit="fails one message in 40, twice",
        behaviour="retries:40",
    ),
    Consumer(name="grpc-simple", mode=Mode.GRPC_SIMPLE),
    Consumer(
        name="grpc-simple-slow",
        mode=Mode.GRPC_SIMPLE,
        habit="1 s a message, half of what it could take",
        behaviour="takes:1000",
        rate=1,
    ),
    Consumer(name="grpc-fifo", mode=Mode.GRPC_FIFO),
    Consumer(
        name="grpc-fifo-slow",
        mode=Mode.GRPC_FIFO,
        habit="500 ms a message",
        behaviour="takes:500",
        rate=2,
    ),
    Consumer(name="grpc-lite", mode=Mode.GRPC_LITE),
    Consumer(
        name="grpc-priority",
        mode=Mode.GRPC_PRIORITY,
        habit="messages of three priorities",
        behaviour="takes:50",
    ),
)
