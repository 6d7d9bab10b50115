"""Choice of the requests of a part of a deep snapshot that has a limit. Pure."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

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
