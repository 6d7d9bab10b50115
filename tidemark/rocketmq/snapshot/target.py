"""The target of a snapshot: the cluster, the time limits, the request limits."""

from dataclasses import dataclass

from tidemark.rocketmq.snapshot.deep_options import DeepOptions
from tidemark.rocketmq.wire.client import MAX_CONNECTIONS, RemotingClient
from tidemark.rocketmq.wire.pacing import MAX_BYTES, Allowance
from tidemark.rocketmq.wire.security import PLAIN, Security

Remembered = tuple[str, int, str]
"""(broker, broker id, address)."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ClusterTarget:
    """The cluster to collect, and the limits.

    Attributes:
        name_servers: ``host:port``; all get requests, and their listings are united.
        name: Tidemark's name of the cluster; None for RocketMQ's own name.
        cluster: RocketMQ's name of the cluster, where a name server lists several. None takes all
            listed brokers, and joins the clusters' names by ``+`` where no other name is known.
        last_name: name of the cluster in earlier snapshots; used where the name server lists none,
            as after its start.
        remembered: (broker, broker id, address) known from earlier snapshots. A killed broker
            vanishes from the name server at once. It is then tried at its old address, and counts
            as unreachable when it does not respond.
        kin: the remembered brokers of clusters collected under another name or by another name
            server. A cluster that shares a broker's address with this one is this one.
        connect_timeout: seconds for one connection.
        request_timeout: seconds for one response.
        total_timeout: seconds for all requests but the deep ones.
        in_flight: requests under way at one broker at a time; a broker that is busy or slow gets
            fewer, see `tidemark.rocketmq.wire.pacing`.
        max_requests: requests to one broker per snapshot at most, None for no limit. Requests
            beyond the limit are a problem in the snapshot.
        max_brokers: broker addresses that are read at most. Addresses beyond the limit are a
            problem in the snapshot.
        max_mib: MiB received for a snapshot at most; a response beyond them is a problem.
        max_connections: connections open at a time; more brokers take turns.
        max_lite_topics: lite topics measured at one broker at most. There may be one for every
            session, and each takes a request.
        proxies: ``host:port`` of the remoting ports of RocketMQ proxies in cluster mode. Only they
            report the members that are online through them; all get requests.
        security: account and encryption.
        counters: also request each address's own counters (28), the source of most of ``brokers``.
            A busy broker takes longer for it than for all other requests together.
        deep: options of a deep snapshot, see `tidemark.rocketmq.deep`; None for a snapshot that is
            not deep. The deep part has a time limit of its own, after ``total_timeout``.
    """

    name_servers: tuple[str, ...]
    name: str | None = None
    cluster: str | None = None
    last_name: str | None = None
    remembered: tuple[Remembered, ...] = ()
    kin: tuple[tuple[Remembered, ...], ...] = ()
    connect_timeout: float = 2.0
    request_timeout: float = 3.0
    total_timeout: float = 8.0
    in_flight: int = 64
    max_requests: int | None = None
    max_brokers: int = 1_000
    max_mib: int = MAX_BYTES // 2**20
    max_connections: int = MAX_CONNECTIONS
    max_lite_topics: int = 2000
    proxies: tuple[str, ...] = ()
    security: Security = PLAIN
    counters: bool = True
    deep: DeepOptions | None = None

    def allowance(self) -> Allowance:
        """Return the allowance of one snapshot."""
        return Allowance(self.max_mib * 2**20)

    def client(
        self,
        total_timeout: float,
        client_reports: bool = False,
        allowance: Allowance | None = None,
        message_lookup: bool = False,
    ) -> RemotingClient:
        """Return a transport that keeps to these limits for ``total_timeout`` seconds.

        Args:
            total_timeout: seconds.
            client_reports: see `RemotingClient`.
            allowance: the rest of a snapshot's allowance; None for a whole one.
            message_lookup: see `RemotingClient`.
        """
        return RemotingClient(
            connect_timeout=self.connect_timeout,
            request_timeout=self.request_timeout,
            total_timeout=total_timeout,
            in_flight=self.in_flight,
            max_requests=self.max_requests,
            security=self.security,
            client_reports=client_reports,
            message_lookup=message_lookup,
            allowance=allowance or self.allowance(),
            max_connections=self.max_connections,
            owner=";".join(self.name_servers),
        )
