"""How brokers hand messages to a group, from one snapshot in plain Python.

The signs are those of `spark.progress.consume_modes`. Counters of acknowledgements belong to deep
snapshots, so they may be missing here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rocketmq import names
from rocketmq.admin.pop import POP_SINCE
from rocketmq.records import Client, ConsumerOffset, Snapshot
from rocketmq.snapshot.online import speaks_grpc

POP, PULL = "pop", "pull"

Pair = tuple[str, str]


@dataclass(frozen=True)
class ConsumeModes:
    """The consume modes of one snapshot.

    Attributes:
        shown: by group and topic, the mode that other signs than 402 show.
        retries: POP retry topics.
        never_pop: brokers that are older than POP.
        pops_move_pulls: brokers whose pull offsets popped messages move.
    """

    shown: dict[Pair, str]
    retries: frozenset[str]
    never_pop: frozenset[str]
    pops_move_pulls: frozenset[str]

    @classmethod
    def of(cls, snapshot: Snapshot) -> "ConsumeModes":
        """Return the consume modes of a snapshot."""
        shown: dict[Pair, str] = {}
        for pair, mode in _of_members(snapshot.clients):
            shown[pair] = min(mode, shown.get(pair, mode))
        retries = {row.topic for row in snapshot.topics if row.kind == names.TopicKind.POP_RETRY}
        shown |= {
            (row.consumer_group, row.topic): POP
            for row in snapshot.broker_stats
            if row.stats_name in ("GROUP_ACK_NUMS", "GROUP_CK_NUMS")
            and row.sum
            and row.consumer_group
            and row.topic
        }
        versions = {row.broker: row.version for row in snapshot.brokers if row.version}
        return cls(
            shown,
            frozenset(retries),
            frozenset(
                broker
                for broker, version in versions.items()
                if names.version_order("V3") <= names.version_order(version) < POP_SINCE
            ),
            frozenset(
                row.broker
                for row in snapshot.brokers
                if (row.config or {}).get("popConsumerKVServiceEnable", "").lower() == "true"
            ),
        )

    def mode(self, row: ConsumerOffset) -> str | None:
        """Return ``pop``, ``pull`` or None for the progress of a group on a queue."""
        group, topic = row.consumer_group, row.topic
        shown = self.shown.get((group, topic))
        retry = f"{names.RETRY_PREFIX}{group}"
        retried = {f"{retry}_{topic}", f"{retry}+{topic}", topic} & self.retries
        if POP in (row.request_mode, shown) or retried:
            return POP
        return PULL if row.request_mode or shown or row.broker in self.never_pop else None

    def inflight(self, row: ConsumerOffset) -> int | None:
        """Return the messages handed out and not confirmed, where offsets show them."""
        if row.pull_offset is None or row.consumer_offset is None:
            return None
        mode = self.mode(row)
        moved = mode == POP if mode else row.broker in self.pops_move_pulls
        if moved and row.pull_source != "client_cache":
            return None
        return row.pull_offset - row.consumer_offset

    def of_row(self, row: ConsumerOffset) -> dict[str, object]:
        """Return the columns ``consume_mode`` and ``lag_is_lower_bound``."""
        mode = self.mode(row)
        bound = mode == POP and self.inflight(row) is None
        is_bound = None if mode is None else bound and not names.is_lite_topic(row.topic)
        return {"consume_mode": mode, "lag_is_lower_bound": is_bound}


def _of_members(clients: list[Client]) -> Iterator[tuple[Pair, str]]:
    for client in clients:
        topics = [subscription.topic for subscription in client.subscriptions]
        if client.consume_type == "CONSUME_POP":
            mode = POP
        elif (
            names.retry_topic(client.consumer_group) in topics
            or client.message_model == "BROADCASTING"
        ):
            mode = PULL
        elif speaks_grpc(client.client_id, topics) or client.consume_type != "CONSUME_ACTIVELY":
            mode = POP
        else:
            continue
        yield from (((client.consumer_group, topic), mode) for topic in topics)
