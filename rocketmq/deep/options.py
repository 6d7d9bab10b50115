"""What a deep look is told. Light on purpose: who never looks deeply imports only this."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class DeepOptions:
    """How deep to look, and what it may cost. A limit of 0 leaves that part out.

    Attributes:
        ask_clients: ask clients at all (307, 223).
        groups: groups whose clients are asked whether they lag or not, also where asking makes a
            client commit, see `rocketmq.deep.clients`.
        watched: groups whose clients are asked whether they lag or not, unless asking would change
            something: those that somebody was alerted to, so that its end is seen.
        max_clients: questions to clients, all together.
        max_stats: requests for counters (315) to one address, masters and slaves.
        tag_sample_size: consume-queue entries sampled of one queue (321).
        max_tag_requests: requests for them to one broker; each takes up to 16.
        max_consume_stats: requests (208) to one broker for what is held against the bulk answers.
        max_store_times: requests for store times (303) to one broker, a group and topic each.
        total_timeout: seconds for all of it.
    """

    ask_clients: bool = True
    groups: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    max_clients: int = 100
    max_stats: int = 20_000
    tag_sample_size: int = 256
    max_tag_requests: int = 2_000
    max_consume_stats: int = 20
    max_store_times: int = 50
    total_timeout: float = 30.0
