"""Ways in which brokers hand messages to a group, from one snapshot and the history.

The signs are those of `spark.progress.consume_modes`. Counters of acknowledgements belong to deep
snapshots, so they may be missing here. What earlier snapshots showed is known to tables only.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from tidemark.model.consumption import ConsumeMode
from tidemark.rocketmq import names
from tidemark.rocketmq.admin.pop import POP_SINCE
from tidemark.rocketmq.consume_modes import (
    IS_BOUND,
    NUMBERS,
    REMEMBERED,
    SHOWN_BY_OFFSETS,
    Kind,
    Number,
    ReadyFrom,
    kind_of,
    ready_from,
)
from tidemark.rocketmq.records import Client, ConsumerOffset, Snapshot
from tidemark.rocketmq.snapshot.online import speaks_grpc

POP, PULL = ConsumeMode.POP.value, ConsumeMode.PULL.value

Pair = tuple[str, str]

NOTHING_REMEMBERED: Mapping[Pair, str] = MappingProxyType({})

MODE_COLUMNS = ("consumer_group", "topic", "consume_mode", "consume_mode_at")
"""Columns of ``progress.queues`` with the mode of a group on a topic."""


def remembered_modes(rows: Iterable[Mapping[str, Any]], now: datetime) -> dict[Pair, str]:
    """Return the mode of each group and topic that earlier snapshots showed.

    Args:
        rows: `MODE_COLUMNS` of the newest ``progress.queues``.
        now: the instant of the snapshot.
    """
    pairs: dict[Pair, str] = {}
    for row in rows:
        mode, at = row["consume_mode"], row["consume_mode_at"]
        if mode and at and now - at <= REMEMBERED:
            pair = (row["consumer_group"], row["topic"])
            pairs[pair] = min(mode, pairs.get(pair, mode))
    return pairs


@dataclass(frozen=True, kw_only=True)
class Consumed:
    """The numbers that the offsets of one queue show of a group, by its kind of consumption.

    Attributes:
        mode: ``pop``, ``pull`` or None.
        kind: the row of `tidemark.rocketmq.consume_modes.NUMBERS`.
        inflight: messages handed out and not confirmed, where offsets show them.
        ready_offset: the offset after which messages wait to be handed out, where it is known.
        priority_rank: how many queues of the broker go before this one; None without priorities.
    """

    mode: str | None
    kind: Kind
    inflight: int | None
    ready_offset: int | None
    priority_rank: int | None = None

    @property
    def lag_is_lower_bound(self) -> bool | None:
        """Whether messages handed out and not consumed are missing from lag; None = unknown."""
        is_bound = IS_BOUND[NUMBERS[self.kind][Number.LAG].certainty]
        return is_bound and self.inflight is None


@dataclass(frozen=True, kw_only=True)
class ConsumeModes:
    """The consume modes of one snapshot.

    Attributes:
        shown: by group and topic, the mode that other signs than 402 show.
        retries: POP retry topics.
        never_pop: brokers that are older than POP.
        pops_move_pulls: brokers whose pull offsets popped messages move.
        both: groups and topics with signs of both modes.
        orderly: groups whose gRPC members consume in order.
        ranked: by broker and topic with priorities, the number of its read queues.
        low_ids_first: brokers where the first of these queues has the highest priority.
        remembered: by group and topic, the mode that earlier snapshots showed.
    """

    shown: dict[Pair, str]
    retries: frozenset[str]
    never_pop: frozenset[str]
    pops_move_pulls: frozenset[str]
    both: frozenset[Pair]
    orderly: frozenset[str]
    ranked: dict[tuple[str, str], int]
    low_ids_first: frozenset[str]
    remembered: Mapping[Pair, str]

    @classmethod
    def of(
        cls, snapshot: Snapshot, remembered: Mapping[Pair, str] = NOTHING_REMEMBERED
    ) -> "ConsumeModes":
        """Return the consume modes of a snapshot.

        Args:
            snapshot: the snapshot.
            remembered: see `remembered_modes`; they count where the snapshot shows none.
        """
        seen: dict[Pair, set[str]] = {}
        for pair, mode in _of_members(snapshot.clients):
            seen.setdefault(pair, set()).add(mode)
        retries = {row.topic for row in snapshot.topics if row.kind == names.TopicKind.POP_RETRY}
        for row in snapshot.broker_stats:
            is_sign = row.stats_name in names.POP_COUNTERS and row.sum
            if is_sign and row.consumer_group and row.topic:
                seen.setdefault((row.consumer_group, row.topic), set()).add(POP)
        versions = {row.broker: row.version for row in snapshot.brokers if row.version}
        return cls(
            shown={pair: min(modes) for pair, modes in seen.items()},
            retries=frozenset(retries),
            never_pop=frozenset(
                broker
                for broker, version in versions.items()
                if names.version_order("V3") <= names.version_order(version) < POP_SINCE
            ),
            pops_move_pulls=frozenset(
                row.broker
                for row in snapshot.brokers
                if (row.config or {}).get("popConsumerKVServiceEnable", "").lower() == "true"
            ),
            both=frozenset(pair for pair, modes in seen.items() if len(modes) > 1),
            orderly=frozenset(
                row.consumer_group for row in snapshot.consumer_groups if row.consume_orderly
            ),
            ranked={
                (row.broker, row.topic): row.read_queues
                for row in snapshot.topics
                if row.message_type == "PRIORITY" and row.read_queues is not None
            },
            low_ids_first=frozenset(
                row.broker
                for row in snapshot.brokers
                if (row.config or {}).get("priorityOrderAsc", "").lower() == "false"
            ),
            remembered=remembered,
        )

    def mode(self, row: ConsumerOffset) -> str | None:
        """Return ``pop``, ``pull`` or None for the progress of a group on a queue."""
        group, topic = row.consumer_group, row.topic
        shown = self.shown.get((group, topic))
        retry = f"{names.RETRY_PREFIX}{group}"
        retried = {f"{retry}_{topic}", f"{retry}+{topic}", topic} & self.retries
        if POP in (row.request_mode, shown) or retried:
            return POP
        if row.request_mode or shown or row.broker in self.never_pop:
            return PULL
        return self.remembered.get((group, topic))

    def consumed(self, row: ConsumerOffset) -> Consumed:
        """Return the facts about a group that the offsets of a queue show."""
        mode, kind = self.mode(row), self.kind(row)
        starts = {
            ReadyFrom.PULL_OFFSET: row.pull_offset,
            ReadyFrom.COMMIT: row.consumer_offset,
            None: None,
        }
        return Consumed(
            mode=mode,
            kind=kind,
            inflight=self._inflight(row, kind),
            ready_offset=starts[ready_from(kind)],
            priority_rank=self._priority_rank(row) if mode == POP else None,
        )

    def _priority_rank(self, row: ConsumerOffset) -> int | None:
        """Return how many queues go before this one, as `spark.progress.queues` does."""
        queues = self.ranked.get((row.broker, row.topic), 0)
        if row.queue_id >= queues:
            return None
        return row.queue_id if row.broker in self.low_ids_first else queues - 1 - row.queue_id

    def kind(self, row: ConsumerOffset) -> Kind:
        """Return the kind of consumption of a group on a queue."""
        pops_by_setting = row.request_mode == POP
        return kind_of(
            self.mode(row),
            is_lite=names.is_lite_topic(row.topic),
            offset_store=row.offset_store,
            # Remoting clients pop where the broker is set to it, and never in order.
            is_mixed=(row.consumer_group, row.topic) in self.both and not pops_by_setting,
            is_orderly=row.consumer_group in self.orderly and not pops_by_setting,
            has_kv_service=row.broker in self.pops_move_pulls,
        )

    def _inflight(self, row: ConsumerOffset, kind: Kind) -> int | None:
        if row.pull_offset is None or row.consumer_offset is None:
            return None
        is_sure = kind is Kind.PULL or row.broker not in self.pops_move_pulls
        shown = (kind in SHOWN_BY_OFFSETS and is_sure) or row.pull_source == "client_cache"
        return row.pull_offset - row.consumer_offset if shown else None


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
