"""The two clusters: one whose consumers live an ordinary life, one whose consumers have faults."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.alarms import members
from bench.alarms.consumers import HEALTHY, Consumer
from bench.alarms.faults import FAULTS, Fault
from bench.soak import print_line
from tidemark.lab import cluster as lab_cluster
from tidemark.lab.clients import GrpcClients, Program, RemotingClients
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base

HEALTHY_CLUSTER, SICK_CLUSTER = "healthy", "sick"
BROKER = "broker-a"
PAUSE_SECONDS = 10.0
CRASHED_SECONDS = 15.0
GRACEFUL_SECONDS = 40.0
APP, OTHER, KILLED = PROCESSES = ("app", "other", "killed")
"""The processes with the sick groups: of most, of members that join later, of those that die."""

FILLING_MESSAGES, FILLING_BYTES = 200, 200_000
"""Two files of the lab's commit log, and more."""

EVERY_HOUR = ";".join(f"{hour:02}" for hour in range(24))
DURING_RESTART = ("broker-down", "collection-incomplete")
"""Rules that state the truth while a broker restarts."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Something that went on in a cluster.

    Attributes:
        name: what.
        start: when it began.
        end: when it was over.
        rules: rules that rightly fire about the cluster meanwhile.
    """

    name: str
    start: datetime
    end: datetime
    rules: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Lab:
    """A cluster and the processes of its applications.

    Attributes:
        cluster: its brokers.
        producers: sends the messages of remoting members.
        grpc_producers: sends the messages of members behind the Proxy; None without a proxy.
        spans: the events of the hour.
    """

    cluster: LabCluster
    producers: RemotingClients
    grpc_producers: GrpcClients | None
    spans: list[Span] = field(default_factory=list)

    @contextmanager
    def span(self, name: str, *rules: str) -> Iterator[None]:
        """Record the span of an event."""
        start = datetime.now(UTC)
        print_line(f"{start:%H:%M:%S} {self.cluster.home.name}: {name}")
        yield
        self.spans.append(Span(name=name, start=start, end=datetime.now(UTC), rules=rules))


@contextmanager
def booted(folder: Path, version: str, brokers: int) -> Iterator[Lab]:
    """Boot a cluster with producers, and with a Proxy where the version has one."""
    proxy = "cluster" if version >= "5" else None
    lite = {"enableLmq": "true", "enableMultiDispatch": "true"} if version >= "5.5" else {}
    cluster = LabCluster.up(
        folder,
        version,
        brokers=brokers,
        port_base=free_port_base(brokers=brokers, proxy=proxy),
        config=lite,
        proxy=proxy,
    )
    try:
        with ExitStack() as stack:
            producers = stack.enter_context(RemotingClients(cluster, "producers"))
            grpc = None
            if proxy:
                grpc = stack.enter_context(GrpcClients(cluster, "grpc-producers"))
            yield Lab(cluster=cluster, producers=producers, grpc_producers=grpc)
    finally:
        cluster.down(graceful=False)


class HealthyLife:
    """An hour of ordinary life in less time."""

    PROCESSES = 2
    """Processes of each application, before one more joins."""

    def __init__(self, lab: Lab, version: str) -> None:
        """The processes of the applications; nothing is started."""
        self._lab = lab
        self.consumers = [consumer for consumer in HEALTHY if consumer.runs_on(version)]
        self._processes: list[Program] = []

    def begin(self) -> None:
        """Make topics, start members, send messages."""
        lab = self._lab
        for consumer in self.consumers:
            members.prepare(lab.producers, lab.grpc_producers, consumer)
        for part in range(self.PROCESSES):
            self._processes += self._join(part)
        self._produce(1)

    def live(self, start: float, seconds: float) -> None:
        """Cause the events of an ordinary hour, and return at its end."""
        steps: tuple[tuple[float, str, tuple[str, ...], Callable[[], None]], ...] = (
            (0.10, "a burst", (), self._burst),
            (0.15, "processes restarted one by one", (), self._restart_one_by_one),
            (0.28, "a deployment of all processes", (), self._deploy),
            (0.38, "one more member joins", (), self._one_more),
            (0.48, "it leaves", (), self._one_fewer),
            (0.52, "a burst", (), self._burst),
            (0.58, "a broker restarted", DURING_RESTART, self._restart_broker),
            (0.72, "a process crashes and comes back", (), self._crash),
            (0.82, "a burst", (), self._burst),
            (0.90, "nothing is sent", (), lambda: self._produce(0)),
        )
        for share, name, rules, happen in steps:
            time.sleep(max(0.0, start + share * seconds - time.monotonic()))
            with self._lab.span(name, *rules):
                happen()
        time.sleep(max(0.0, start + seconds - time.monotonic()))

    def end(self) -> None:
        """Kill the processes of the applications."""
        for process in self._processes:
            process.kill()

    def _join(self, part: int, processes: list[Program] | None = None) -> list[Program]:
        """Start the processes number `part` and their members; those given start again."""
        cluster = self._lab.cluster
        started = processes or [RemotingClients(cluster, f"app-{part}")]
        if not processes and self._lab.grpc_producers:
            started.append(GrpcClients(cluster, f"grpc-app-{part}"))
        for process in started:
            process.start()
            for consumer in self.consumers:
                # The third member of assigned queues and lite topics would get none.
                if part >= self.PROCESSES and consumer.mode in (
                    members.Mode.ASSIGNED,
                    members.Mode.GRPC_LITE,
                ):
                    continue
                join(process, consumer, part, self.PROCESSES)
        return started

    def _produce(self, factor: float) -> None:
        for consumer in self.consumers:
            members.produce(
                self._lab.producers, self._lab.grpc_producers, consumer, factor * consumer.rate
            )

    def _burst(self) -> None:
        for consumer in self.consumers:
            members.burst(self._lab.producers, self._lab.grpc_producers, consumer)

    def _restart_one_by_one(self) -> None:
        for number, process in enumerate(list(self._processes)):
            process.leave()
            self._join(self._part(number), [process])
            time.sleep(PAUSE_SECONDS)

    def _deploy(self) -> None:
        for process in self._processes:
            process.leave()
        for number, process in enumerate(list(self._processes)):
            self._join(self._part(number), [process])

    def _one_more(self) -> None:
        self._more = self._join(self.PROCESSES)

    def _one_fewer(self) -> None:
        for process in self._more:
            process.leave()

    def _restart_broker(self) -> None:
        lab_cluster.restart(self._lab.cluster, BROKER, graceful_seconds=GRACEFUL_SECONDS)

    def _crash(self) -> None:
        crashed = self._processes[: 2 if self._lab.grpc_producers else 1]
        for process in crashed:
            process.kill()
        time.sleep(CRASHED_SECONDS)
        self._join(0, crashed)

    def _part(self, number: int) -> int:
        return number * self.PROCESSES // len(self._processes)


class SickLife:
    """Groups that are healthy for a while, and then each has its fault."""

    def __init__(self, lab: Lab, version: str) -> None:
        """The processes; nothing is started."""
        self._lab = lab
        self.faults = [fault for fault in FAULTS if fault.runs_on(version)]
        self.began: dict[str, datetime] = {}
        cluster = lab.cluster
        self._remoting = {name: RemotingClients(cluster, name) for name in PROCESSES}
        self._grpc = {
            name: GrpcClients(cluster, f"grpc-{name}") for name in PROCESSES if lab.grpc_producers
        }

    def begin(self) -> None:
        """Make topics, start members, send messages."""
        lab = self._lab
        for fault in self.faults:
            members.prepare(lab.producers, lab.grpc_producers, fault.consumer)
        for process in (*self._remoting.values(), *self._grpc.values()):
            process.start()
        for fault in self.faults:
            if not fault.late:
                self._join(KILLED if fault.killed else APP, fault.consumer)
            members.produce(lab.producers, lab.grpc_producers, fault.consumer, fault.consumer.rate)

    def strike(self) -> None:
        """Let every fault begin."""
        with self._lab.span("the faults begin"):
            for processes in (self._remoting, self._grpc):
                if KILLED in processes:
                    processes[KILLED].kill()
            for fault in self.faults:
                if not fault.expires:
                    self._begin(fault)
                    self.began[fault.consumer.name] = datetime.now(UTC)

    def expire(self) -> None:
        """Let the broker delete all but the newest messages."""
        with self._lab.span("old messages expire"):
            producers = self._lab.producers
            # Only files that are full are deleted, at these hours.
            producers.send("expired", FILLING_MESSAGES, FILLING_BYTES)
            producers.configure_brokers("deleteWhen", EVERY_HOUR)
            producers.configure_brokers("fileReservedTime", "0")
            for fault in self.faults:
                if fault.expires:
                    self.began[fault.consumer.name] = datetime.now(UTC)

    def _begin(self, fault: Fault) -> None:
        consumer = fault.consumer
        if fault.late:
            self._join(APP, consumer)
        if fault.becomes:
            self._process(APP, consumer).behave(consumer.name, fault.becomes)
        if fault.joined_by:
            mode = fault.joined_by
            options = fault.joined_with
            second = Consumer(name=consumer.name, mode=mode, options=options)
            if mode.grpc:
                grpc = self._lab.grpc_producers
                assert grpc, "gRPC members need a proxy"
                grpc.group(consumer.name)
            self._join(OTHER, second)
        if fault.write_queues:
            self._lab.producers.topic(consumer.name, write_queues=fault.write_queues)

    def end(self) -> None:
        """Kill the processes of the applications."""
        for process in (*self._remoting.values(), *self._grpc.values()):
            process.kill()

    def _join(self, name: str, consumer: Consumer) -> None:
        join(self._process(name, consumer), consumer)

    def _process(self, name: str, consumer: Consumer) -> Program:
        return (self._grpc if consumer.mode.grpc else self._remoting)[name]


def join(process: Program, consumer: Consumer, part: int = 0, parts: int = 1) -> None:
    """Start a member of a group in a process, unless it is one of the other kind."""
    if isinstance(process, GrpcClients) and consumer.mode.grpc:
        members.join_grpc(process, consumer, part, parts)
    elif isinstance(process, RemotingClients) and not consumer.mode.grpc:
        members.join_remoting(process, consumer, part, parts)
