"""What a look is told: which cluster, how long to wait, how hard to ask."""

from dataclasses import dataclass

from rocketmq.client import RemotingClient
from rocketmq.deep.options import DeepOptions
from rocketmq.security import PLAIN, Security

Remembered = tuple[str, int, str]
"""(broker, broker id, address)."""


@dataclass(slots=True, frozen=True)
class ClusterTarget:
    """What to look at, and how long to wait for it.

    Attributes:
        name_servers: ``host:port``, asked in this order until one answers.
        name: what Tidemark calls the cluster; None for RocketMQ's own name.
        cluster: RocketMQ's name of the cluster to look at, where a name server knows several; None
            takes all brokers it knows (and joins the clusters' names by ``+`` when nothing else
            names them).
        remembered: (broker, broker id, address) known from earlier looks. A broker that was killed
            vanishes from the name server at once; it is then tried at its old address, and is a
            hole in the snapshot when it does not answer.
        kin: the same of clusters that were looked at under another name or by another name server.
            One that shares a broker's address with this one is this one.
        connect_timeout: seconds for one connection.
        request_timeout: seconds for one answer.
        total_timeout: seconds after which nothing is waited for any more.
        in_flight: requests under way at one broker at a time; a broker that is busy or slow gets
            fewer, see `rocketmq.pacing`.
        max_requests: requests to one broker in one look at most, None for no limit; what is then
            not asked is a problem in the snapshot.
        security: account and encryption.
        counters: also ask each address for its own counters (28), from which most of ``brokers``
            comes; a busy broker takes longer for it than for all else together.
        deep: also ask what takes a question each, see `rocketmq.deep`; None for not. It has a time
            limit of its own, after ``total_timeout``.
    """

    name_servers: tuple[str, ...]
    name: str | None = None
    cluster: str | None = None
    remembered: tuple[Remembered, ...] = ()
    kin: tuple[tuple[Remembered, ...], ...] = ()
    connect_timeout: float = 2.0
    request_timeout: float = 3.0
    total_timeout: float = 8.0
    in_flight: int = 64
    max_requests: int | None = None
    security: Security = PLAIN
    counters: bool = True
    deep: DeepOptions | None = None

    def client(self, total_timeout: float, ask_clients: bool = False) -> RemotingClient:
        """A transport that keeps to these limits, for so many seconds."""
        return RemotingClient(
            connect_timeout=self.connect_timeout,
            request_timeout=self.request_timeout,
            total_timeout=total_timeout,
            in_flight=self.in_flight,
            max_requests=self.max_requests,
            security=self.security,
            ask_clients=ask_clients,
        )
