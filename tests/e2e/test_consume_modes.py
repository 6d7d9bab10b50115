"""Each cell of the table of numbers, measured: real clients of every kind against ticks.

Every group finishes a first batch of messages and never ends with one of the second batch. So the
truth stands still: that many messages are unfinished, of that age, and none is finished any more.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.alarms import members
from bench.alarms.consumers import Consumer, Mode
from tests.conftest import chosen_version
from tidemark.lab.clients import GrpcClients, Program, RemotingClients
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.lake.landing import land
from tidemark.lake.query import select
from tidemark.lake.tables import progress
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.consume_modes import NUMBERS, PULLS, Certainty, Kind, Number
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

FINISHED, UNFINISHED = 60, 40
HANGS = "hangs"
SNAPSHOTS = 2
BETWEEN_SECONDS = 11.0
"""More than the shortest base of a rate, and than a POP commit is behind."""

WITHIN_SECONDS = 300.0
MARGIN_MS = 1_500
"""Between our clock at a request and the broker's at the store of a message."""

KV_SERVICE = {"popConsumerKVServiceInit": "true", "popConsumerKVServiceEnable": "true"}


@dataclass(frozen=True, kw_only=True)
class Client:
    """A group whose members get messages in one way.

    Attributes:
        mode: the way of its first member.
        kind: the row of the table of numbers that it is of.
        joined_by: the way of a second member.
    """

    mode: Mode
    kind: Kind
    joined_by: Mode | None = None

    @property
    def name(self) -> str:
        """Its group and topic."""
        return f"m-{self.kind}-{self.mode}".replace(" ", "-").lower()

    @property
    def consumer(self) -> Consumer:
        """Its first member."""
        return Consumer(name=self.name, mode=self.mode)

    @property
    def since(self) -> str:
        """The RocketMQ version that has it."""
        return max(self.mode.since, self.joined_by.since if self.joined_by else "")


PLAIN = (
    Client(mode=Mode.PUSH, kind=Kind.PULL),
    Client(mode=Mode.ORDERED, kind=Kind.PULL),
    Client(mode=Mode.ASSIGNED, kind=Kind.UNKNOWN),
    Client(mode=Mode.POP, kind=Kind.POP),
    Client(mode=Mode.GRPC_PUSH, kind=Kind.POP),
    Client(mode=Mode.GRPC_SIMPLE, kind=Kind.POP),
    Client(mode=Mode.GRPC_FIFO, kind=Kind.POP_FIFO),
    Client(mode=Mode.PUSH, kind=Kind.MIXED, joined_by=Mode.GRPC_PUSH),
)
OF_KV_SERVICE = tuple(
    Client(mode=mode, kind=Kind.POP_KV) for mode in (Mode.POP, Mode.GRPC_PUSH, Mode.GRPC_SIMPLE)
)
CLUSTERS = {"modes": (PLAIN, {}), "modes-kv": (OF_KV_SERVICE, KV_SERVICE)}


@dataclass(kw_only=True)
class Truth:
    """The truth about a group, as its clients know it.

    Attributes:
        oldest: before and after the first message of the second batch was sent.
        begun: messages of the second batch that a member has in hand at least.
    """

    oldest: tuple[datetime, datetime]
    begun: int


@dataclass(kw_only=True)
class Seen:
    """A cluster's groups at rest.

    Attributes:
        truths: by group.
        rows: rows of ``progress.groups`` by group, in order of time.
    """

    truths: dict[str, Truth] = field(default_factory=dict)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def clients_of(cluster: str) -> list[Client]:
    """The clients that the version of the tests has."""
    return [client for client in CLUSTERS[cluster][0] if chosen_version() >= client.since]


def until(what: str, value: Any) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    while not value():
        assert time.monotonic() < deadline, f"not within {WITHIN_SECONDS:g} s: {what}"
        time.sleep(0.5)


class Work:
    """The clients of one cluster at work."""

    def __init__(self, cluster: LabCluster, stack: ExitStack) -> None:
        """Their processes, which run as long as the stack."""
        self.remoting = stack.enter_context(RemotingClients(cluster, "modes"))
        has_proxy = chosen_version() >= "5"
        self.grpc = stack.enter_context(GrpcClients(cluster)) if has_proxy else None

    def process(self, mode: Mode) -> Program:
        """The process with the members of a mode."""
        return self.grpc if mode.grpc and self.grpc else self.remoting

    def send(self, client: Client, count: int) -> None:
        """Send messages to a client's topic."""
        if client.mode.grpc and self.grpc:
            kind = "fifo" if client.mode is Mode.GRPC_FIFO else "plain"
            self.grpc.send(client.name, count, kind)
        else:
            self.remoting.send(client.name, count)

    def counts(self, client: Client) -> tuple[int, int]:
        """Messages begun with and finished, of both members."""
        modes = [client.mode, *([client.joined_by] if client.joined_by else [])]
        parts = [self.process(mode).counts(client.name) for mode in modes]
        return sum(begun for begun, _ in parts), sum(finished for _, finished in parts)

    def begin(self, client: Client) -> None:
        """Make a client's topic, start its members and let them finish the first batch."""
        members.prepare(self.remoting, self.grpc, client.consumer)
        if client.joined_by:
            assert self.grpc
            self.grpc.group(client.name)
        for mode in (client.mode, client.joined_by):
            if mode is None:
                continue
            member = replace(client.consumer, mode=mode)
            if mode.grpc:
                members.join_grpc(self.grpc, member)
            else:
                members.join_remoting(self.remoting, member)
        members.produce(self.remoting, self.grpc, client.consumer, 0)
        self.send(client, FINISHED)

    def hang(self, client: Client) -> Truth:
        """Let a client finish nothing any more, and send it the second batch."""
        for mode in (client.mode, client.joined_by):
            if mode is not None:
                self.process(mode).behave(client.name, HANGS)
        before = datetime.now(UTC)
        self.send(client, 1)
        after = datetime.now(UTC)
        self.send(client, UNFINISHED - 1)
        return Truth(oldest=(before, after), begun=0)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, warm_home) -> dict[str, Seen]:
    """The groups of each cluster at rest."""
    return {
        name: at_rest(name, tmp_path_factory.mktemp(name), warm_home)
        for name in CLUSTERS
        if clients_of(name)
    }


def at_rest(name: str, folder: Path, warm_home) -> Seen:
    """The groups of a cluster at rest, in snapshots that one tick has computed."""
    clients = clients_of(name)
    proxy = "cluster" if chosen_version() >= "5" else None
    cluster = LabCluster.up(
        folder,
        chosen_version(),
        brokers=1,
        port_base=free_port_base(brokers=1, proxy=proxy),
        config=CLUSTERS[name][1],
        proxy=proxy,
    )
    result = Seen()
    try:
        with ExitStack() as stack:
            work = Work(cluster, stack)
            for client in clients:
                work.begin(client)
            for client in clients:
                until(
                    f"{client.name} finishes its first messages",
                    lambda it=client: work.counts(it)[1] >= FINISHED,
                )
            target = ClusterTarget(
                name_servers=(cluster.namesrv,),
                name=name,
                proxies=(cluster.proxy.address,) if proxy else None,
                deep=DeepOptions(),
            )
            time.sleep(BETWEEN_SECONDS)  # until every commit is at the broker
            land(warm_home.home, collect_snapshot(target))
            begun = {client.name: work.counts(client)[0] for client in clients}
            for client in clients:
                result.truths[client.name] = work.hang(client)
            for client in clients:
                until(
                    f"{client.name} begins with a message of the second batch",
                    lambda it=client: work.counts(it)[0] > begun[it.name],
                )
            for _ in range(SNAPSHOTS):
                time.sleep(BETWEEN_SECONDS)
                land(warm_home.home, collect_snapshot(target))
            for client in clients:
                held = work.counts(client)[0] - begun[client.name]
                result.truths[client.name].begun = min(held, UNFINISHED)
    finally:
        cluster.down(graceful=False)
    warm_home.tick()
    rows = select(warm_home.lake, progress.GROUPS, f"cluster = '{name}'", limit=10_000).to_pylist()
    for row in sorted(rows, key=lambda row: row["observed_at"]):
        if row["consumer_group"] == row["topic"]:
            result.rows.setdefault(row["consumer_group"], []).append(row)
    return result


CELLS = [
    pytest.param(cluster, client, number, id=f"{client.name}-{number}")
    for cluster in CLUSTERS
    for client in clients_of(cluster)
    for number in Number
    # Health is about ten observations: `bench.alarms` measures it of every kind.
    if number is not Number.HEALTH
]


@pytest.mark.parametrize(("of", "client", "number"), CELLS)
def test_a_number_is_what_the_table_says(seen, of, client, number):
    """A fact is the truth, a bound is on its side of it, and an unknown number is NULL."""
    rows, truths = seen[of].rows, seen[of].truths
    *_, row = rows[client.name]
    assert row["consume_kind"] == client.kind
    least, most = true_range(number, rows[client.name], truths[client.name])
    certainty, value = NUMBERS[client.kind][number].certainty, row[number]
    if value is None and PULLS in NUMBERS[client.kind][number].requests:
        # Not every version reports how far messages were handed out.
        return
    if number is Number.ONLINE:
        assert value is True
    elif number is Number.INFLIGHT and value is not None:
        assert least <= value <= most, row["inflight_source"]
    elif certainty is Certainty.FACT and number is not Number.DRAIN_SECONDS:
        assert value is not None and least <= value <= most
    elif certainty is Certainty.LOWER_BOUND:
        assert value is None or value <= most
    elif certainty is Certainty.UPPER_BOUND:
        assert value is None or value >= least
    elif number is not Number.LAG:
        assert value is None


def true_range(number: Number, rows: list[dict[str, Any]], truth: Truth) -> tuple[float, float]:
    """The least and the most that a number of the last row can truly be."""
    *_, row = rows
    before, after = ((row["observed_at"] - sent).total_seconds() * 1000 for sent in truth.oldest)
    return {
        Number.LAG: (UNFINISHED, UNFINISHED),
        Number.INFLIGHT: (truth.begun, UNFINISHED),
        Number.AVAILABLE: (0, UNFINISHED - truth.begun),
        Number.DELAY_MS: (after - MARGIN_MS, before + MARGIN_MS),
        Number.READY_DELAY_MS: (0, before + MARGIN_MS),
        Number.PRODUCE_TPS: (0, 0),
        Number.CONSUME_TPS: (0, 0),
        Number.PULL_TPS: (0, UNFINISHED / BETWEEN_SECONDS),
        # The first batch was finished within the minute that brokers count.
        Number.ACK_TPS: (0, FINISHED / 10),
    }.get(number, (0, float("inf")))


@pytest.mark.parametrize("of", [name for name in CLUSTERS if clients_of(name)])
def test_what_is_written_is_a_fact_for_every_kind(seen, of):
    """The second batch was written between the first two snapshots."""
    for name, rows in seen[of].rows.items():
        first, second, *_ = rows
        seconds = (second["observed_at"] - first["observed_at"]).total_seconds()
        assert round(second["produce_tps"] * seconds) == pytest.approx(UNFINISHED, abs=2), name
