"""Thresholds of the states of health: defaults for every group, and overrides for some."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of the states of health; the defaults are those of the contract.

    Attributes:
        known: fewest known observations among the `settings.constants.OBSERVATIONS` that count.
        rising_steps: fewest steps between observations at which the lag does not fall, for a
            group to fall behind.
        rise_seconds: the lag must rise by more than is written in this time.
        standing: fewest observations at which a standing queue had messages waiting.
        standing_for: shortest time for which they waited. A consumer of a topic with little traffic
            commits up to 30 s late: after a long poll (15 s), and then every 5 s
            (`persistConsumerOffsetInterval`).
    """

    known: int = 3
    rising_steps: int = 7
    rise_seconds: float = 60.0
    standing: int = 3
    standing_for: timedelta = timedelta(seconds=30)


DEFAULTS = Thresholds()


@dataclass(frozen=True)
class Override:
    """Thresholds for the groups that a match selects.

    Attributes:
        match: column name (``cluster, consumer_group, topic``) to globs, of which one must match.
        thresholds: the thresholds of these groups.
    """

    match: Mapping[str, Sequence[str]]
    thresholds: Thresholds
