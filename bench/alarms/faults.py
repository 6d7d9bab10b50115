"""The faults of groups, and the rules that should fire about each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.alarms.consumers import Consumer, Mode


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An event that befalls a group that was healthy until then.

    Attributes:
        consumer: the group.
        text: what happens, for the report.
        rules: ready-made rules of which any names this trouble.
        becomes: how its members handle messages from then on.
        killed: whether its members are killed.
        joined_by: the mode of a second member, which joins from another process.
        joined_with: options of that member.
        late: whether its first member joins only when the fault begins.
        write_queues: of its topic from then on, beyond the four that are read.
        expires: whether the broker then deletes what it has, which happens after all other faults,
            as the others lose messages with it.
    """

    consumer: Consumer
    text: str
    rules: tuple[str, ...]
    becomes: str | None = None
    killed: bool = False
    joined_by: Mode | None = None
    joined_with: Mapping[str, str] = field(default_factory=dict)
    late: bool = False
    write_queues: int | None = None
    expires: bool = False

    def runs_on(self, version: str) -> bool:
        """Whether a RocketMQ version can have it."""
        modes = [self.consumer.mode, *([self.joined_by] if self.joined_by else [])]
        return all(version >= mode.since for mode in modes)


DEAD = ("nobody-online", "stopped")
STANDING = ("blocked", "stalled")
FAILING = ("redeliveries", "retries-growing", "dead-letters")
BEHIND = ("falling-behind",)


def _dead(mode: Mode) -> Fault:
    name = mode.value.lower().replace(" ", "-")
    return Fault(
        consumer=Consumer(name=f"dead-{name}", mode=mode),
        text="every member is killed",
        rules=DEAD,
        killed=True,
    )


def _behaves(
    name: str, mode: Mode, becomes: str, text: str, rules: tuple[str, ...], rate: float = 5.0
) -> Fault:
    return Fault(
        consumer=Consumer(name=name, mode=mode, rate=rate), text=text, rules=rules, becomes=becomes
    )


ONE_HANGS = "one message never ends"
ALL_HANG = "no message ends"
ALL_FAIL = "every message fails"
TOO_SLOW = "takes a third of what comes"

FAULTS = (
    *(
        _dead(mode)
        for mode in (
            Mode.PUSH,
            Mode.ORDERED,
            Mode.LITE_PULL,
            Mode.ASSIGNED,
            Mode.PULL,
            Mode.POP,
            Mode.GRPC_PUSH,
            Mode.GRPC_SIMPLE,
            Mode.GRPC_FIFO,
            Mode.GRPC_LITE,
        )
    ),
    _behaves("blocked-push", Mode.PUSH, "blocks", ONE_HANGS, STANDING),
    _behaves("blocked-ordered", Mode.ORDERED, "blocks", ONE_HANGS, STANDING),
    _behaves("blocked-grpc-fifo", Mode.GRPC_FIFO, "blocks", ONE_HANGS, STANDING),
    _behaves("hung-push", Mode.PUSH, "hangs", ALL_HANG, STANDING),
    _behaves("hung-lite-pull", Mode.LITE_PULL, "hangs", ALL_HANG, STANDING),
    _behaves("hung-pull", Mode.PULL, "hangs", ALL_HANG, STANDING),
    _behaves("hung-pop", Mode.POP, "hangs", ALL_HANG, STANDING),
    _behaves("hung-grpc-push", Mode.GRPC_PUSH, "hangs", ALL_HANG, STANDING),
    _behaves(
        "stalled-grpc-simple",
        Mode.GRPC_SIMPLE,
        "keeps",
        "acknowledges nothing",
        (*STANDING, *FAILING),
    ),
    _behaves("failing-push", Mode.PUSH, "fails", ALL_FAIL, FAILING),
    _behaves("failing-ordered", Mode.ORDERED, "fails", ALL_FAIL, (*STANDING, *FAILING)),
    _behaves("failing-pop", Mode.POP, "fails", ALL_FAIL, FAILING),
    _behaves("failing-grpc-push", Mode.GRPC_PUSH, "fails", ALL_FAIL, FAILING),
    _behaves("failing-grpc-fifo", Mode.GRPC_FIFO, "fails", ALL_FAIL, (*STANDING, *FAILING)),
    _behaves(
        "refused-grpc-simple",
        Mode.GRPC_SIMPLE,
        "late",
        "every acknowledgement comes too late and is refused",
        (*STANDING, *FAILING),
    ),
    _behaves("slow-push", Mode.PUSH, "takes:1200", TOO_SLOW, BEHIND, rate=10),
    _behaves("slow-ordered", Mode.ORDERED, "takes:1200", TOO_SLOW, BEHIND, rate=10),
    _behaves("slow-lite-pull", Mode.LITE_PULL, "takes:300", TOO_SLOW, BEHIND, rate=10),
    _behaves("slow-pop", Mode.POP, "takes:1200", TOO_SLOW, BEHIND, rate=10),
    _behaves("slow-grpc-push", Mode.GRPC_PUSH, "takes:1200", TOO_SLOW, BEHIND, rate=10),
    _behaves("slow-grpc-fifo", Mode.GRPC_FIFO, "takes:1200", TOO_SLOW, BEHIND, rate=10),
    Fault(
        consumer=Consumer(name="twins", mode=Mode.PUSH, options={"as": "twin"}),
        text="a second process has the same client id",
        rules=("client-ids-duplicated", "queues-contested"),
        joined_by=Mode.PUSH,
        joined_with={"as": "twin"},
    ),
    Fault(
        consumer=Consumer(name="mixed", mode=Mode.PUSH),
        text="a gRPC member joins remoting ones",
        rules=("members-mixed",),
        joined_by=Mode.GRPC_PUSH,
    ),
    Fault(
        consumer=Consumer(name="tags", mode=Mode.PUSH, tags=("A", "B"), options={"tags": "A"}),
        text="a second member wants other tags",
        rules=("subscription-inconsistent",),
        joined_by=Mode.PUSH,
        joined_with={"tags": "B"},
    ),
    Fault(
        consumer=Consumer(name="unreadable", mode=Mode.PUSH),
        text="the topic has more write queues than read queues",
        rules=("messages-unreadable",),
        write_queues=8,
    ),
    Fault(
        consumer=Consumer(name="never-commits", mode=Mode.PUSH, options={"commits": "never"}),
        text="a new group never commits",
        rules=("never-committed",),
        late=True,
    ),
    Fault(
        consumer=Consumer(name="expired", mode=Mode.PUSH),
        text="messages expire before anybody consumes them",
        rules=("messages-lost", "losing"),
        killed=True,
        expires=True,
    ),
)
