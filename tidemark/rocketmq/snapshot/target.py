"""The target of a snapshot: the cluster, the time limits, the request limits, the deep part."""

from dataclasses import dataclass

from tidemark.rocketmq.wire.client import MAX_CONNECTIONS, RemotingClient
from tidemark.rocketmq.wire.pacing import MAX_BYTES, Allowance
from tidemark.rocketmq.wire.security import PLAIN, Security


@dataclass(slots=True, frozen=True, kw_only=True)
class DeepOptions:
    """The parts of a deep snapshot and their limits. A limit of 0 leaves a part out.

    Attributes:
        client_reports: send requests to clients (307, 223).
        groups: groups whose clients report whether they lag or not, even where the request makes a
            client commit, see `tidemark.rocketmq.deep.client_reports`.
        priority_groups: groups whose clients report whether they lag or not, unless the request
            would make a client commit. Groups with open incidents belong here: their recovery then
            shows at once.
        max_clients: requests to clients, all groups together.
        max_stats: requests for counters (315) to one address, masters and slaves.
        tag_sample_size: consume-queue entries sampled per queue (321).
        max_tag_requests: requests for such entries to one broker; each takes up to 16 entries.
        max_consume_stats: requests (208) to one broker that cross-check the bulk responses.
        max_store_times: requests for store times (303) to one broker, one per group and topic.
        total_timeout: seconds for the whole deep part.
        broker_metrics: read the metrics endpoint of every broker that has one for Prometheus.
        turn: number of the deep snapshot, by which limits rotate over items that they leave out.
    """

    client_reports: bool = True
    groups: tuple[str, ...] = ()
    priority_groups: tuple[str, ...] = ()
    max_clients: int = 100
    max_stats: int = 20_000
    tag_sample_size: int = 256
    max_tag_requests: int = 2_000
    max_consume_stats: int = 20
    max_store_times: int = 50
    total_timeout: float = 30.0
    broker_metrics: bool = False
    turn: int = 0


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
