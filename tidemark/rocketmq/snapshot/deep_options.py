"""Options of a deep snapshot, in a module apart so that other snapshots import only this."""

from dataclasses import dataclass


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
