"""Members of groups in processes of the lab, and the messages they get."""

import time

from bench.alarms.consumers import Consumer, Mode
from tidemark.lab.clients import GrpcClients, RemotingClients
from tidemark.lab.layout import LabError

MESSAGE_GROUPS = 8
INVISIBLE_SECONDS = 20
LITE_TOPICS = ("alice", "bob", "carol")
PRIORITIES = ("priority:0", "priority:1", "priority:2")
ROUTE_SECONDS = 60.0

Processes = dict[bool, list[RemotingClients] | list[GrpcClients]]


def prepare(remoting: RemotingClients, grpc: GrpcClients | None, consumer: Consumer) -> None:
    """Make a consumer's topic and, where members connect to a Proxy, its group."""
    name, mode = consumer.name, consumer.mode
    if not mode.grpc:
        remoting.topic(name)
        return
    assert grpc, "gRPC members need a proxy"
    grpc.topic(name, mode.message_type)
    bound_to = name if mode is Mode.GRPC_LITE else None
    grpc.group(name, orderly=mode is Mode.GRPC_FIFO, bound_to=bound_to)


def produce(
    remoting: RemotingClients, grpc: GrpcClients | None, consumer: Consumer, rate: float
) -> None:
    """Send so many messages a second to a consumer's topic from now on; 0 ends it."""
    if not consumer.mode.grpc:
        remoting.produce(consumer.name, rate, *consumer.tags)
        return
    assert grpc, "gRPC members need a proxy"
    kinds = _kinds(consumer.mode)
    for kind in kinds:
        _when_routed(grpc, consumer.name, rate / len(kinds), kind)


def burst(remoting: RemotingClients, grpc: GrpcClients | None, consumer: Consumer) -> None:
    """Send a consumer's burst, if it has one."""
    if consumer.burst and consumer.mode.grpc:
        assert grpc, "gRPC members need a proxy"
        grpc.send(consumer.name, consumer.burst)
    elif consumer.burst:
        remoting.send(consumer.name, consumer.burst)


def join_remoting(
    process: RemotingClients, consumer: Consumer, part: int = 0, parts: int = 1
) -> None:
    """Start a member in a process, which is one of so many that share assigned queues."""
    options = {"threads": str(consumer.threads), **consumer.options}
    if consumer.mode is Mode.ASSIGNED:
        options["part"] = f"{part}/{parts}"
    process.consume(consumer.mode, consumer.name, consumer.name, consumer.behaviour, **options)


def join_grpc(process: GrpcClients, consumer: Consumer, part: int = 0, parts: int = 1) -> None:
    """Start such a member that connects to the Proxy; parts share lite topics."""
    name, mode = consumer.name, consumer.mode
    if mode is Mode.GRPC_SIMPLE:
        process.work(name, name, INVISIBLE_SECONDS, consumer.behaviour)
        return
    if mode is Mode.GRPC_LITE:
        process.lite(name, name, 1, *LITE_TOPICS[part::parts])
    else:
        process.push(name, name, consumer.threads, 1)
    process.behave(name, consumer.behaviour)


def _kinds(mode: Mode) -> tuple[str, ...]:
    if mode is Mode.GRPC_FIFO:
        return (f"fifo:{MESSAGE_GROUPS}",)
    if mode is Mode.GRPC_LITE:
        return tuple(f"lite:{name}" for name in LITE_TOPICS[:2])
    return PRIORITIES if mode is Mode.GRPC_PRIORITY else ("plain",)


def _when_routed(grpc: GrpcClients, topic: str, rate: float, kind: str) -> None:
    """A name server knows a new topic a moment later."""
    deadline = time.monotonic() + ROUTE_SECONDS
    while True:
        try:
            grpc.produce(topic, rate, kind)
            return
        except LabError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
