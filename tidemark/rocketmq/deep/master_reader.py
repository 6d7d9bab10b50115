"""The base of readers that send many small requests to one master, within a limit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.wire.client import RemotingClient

T = TypeVar("T")

ROTATING = 4
"""One of so many requests within a limit goes to the other items, in turn."""


def chosen(ranked: Sequence[T], limit: int, turn: int, key: Callable[[T], Any]) -> list[T]:
    """Return the items to request: most of the limit by need, the rest in turn.

    Over consecutive snapshots each item has its turn, also where the ranking never changes.

    Args:
        ranked: the items, the most needed first.
        limit: most items.
        turn: number of the deep snapshot.
        key: a stable order of items, by which turns go.
    """
    if len(ranked) <= limit:
        return list(ranked)
    if limit <= 0:
        return []
    in_turn = -(-limit // ROTATING)
    most_needed = limit - in_turn
    others = sorted(ranked[most_needed:], key=key)
    start = turn * in_turn % len(others)
    return [*ranked[:most_needed], *[*others, *others][start : start + in_turn]]


@dataclass(slots=True, kw_only=True)
class MasterReader:
    """Sends requests to one master; failures go to the problems.

    Attributes:
        broker: name of its broker group.
        address: ``host:port``.
        limit: requests at most.
        turn: number of the deep snapshot, see `tidemark.rocketmq.deep.master_reader`.
        left_out: items that the limit left out, counted by `read`.
    """

    client: RemotingClient
    problems: Problems
    broker: str
    address: str
    limit: int
    turn: int = 0
    left_out: int = 0
