"""The choice of what a limited part of a deep snapshot requests. Pure."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

ROTATING = 4
"""One request in so many of a limit goes in turn to what is not needed most."""


def chosen(ranked: Sequence[T], limit: int, turn: int, key: Callable[[T], Any]) -> list[T]:
    """Return what to request: most of the limit by need, the rest in turn.

    Over consecutive turns each item has its turn, also where always the same ones need it most.

    Args:
        ranked: the items, the most needed first.
        limit: items at most.
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
