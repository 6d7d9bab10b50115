"""Thresholds of the states of health: defaults for every group, and overrides for some."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of the states of health; the defaults are those of the contract.

    Attributes:
        known: of the `settings.constants.OBSERVATIONS` that count so many have to be known.
        rising_steps: steps up or level, of all between them, from which a group falls behind.
        rise_seconds: the rise has to be more than is written in so long.
        standing: a queue stands when it has waited at so many of them,
        standing_for: and for so long. A consumer of a topic with little traffic commits up to 30 s
            late: after a long poll (15 s), and then every 5 s (`persistConsumerOffsetInterval`).
    """

    known: int = 3
    rising_steps: int = 7
    rise_seconds: float = 60.0
    standing: int = 3
    standing_for: timedelta = timedelta(seconds=30)


DEFAULTS = Thresholds()


@dataclass(frozen=True)
class Override:
    """Thresholds of some groups.

    Attributes:
        match: column name (``cluster, consumer_group, topic``) to globs, of which one must match.
        thresholds: theirs.
    """

    match: Mapping[str, Sequence[str]]
    thresholds: Thresholds
