"""What makes a state of health: numbers that hold for every group, and others for some."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark.columns import fits


@dataclass(frozen=True)
class Thresholds:
    """What makes a state: the defaults of the contract.

    Attributes:
        known: of the `lake.history.OBSERVATIONS` that count so many have to be known.
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
class ForSome:
    """Thresholds of some groups.

    Attributes:
        match: column name (``cluster, consumer_group, topic``) to globs, of which one must fit.
        thresholds: theirs.
    """

    match: Mapping[str, Sequence[str]]
    thresholds: Thresholds


def column(name: str, of_all: Thresholds, of_some: Sequence[ForSome]) -> Column:
    """A threshold as it holds for a row: of the first that fits, else that of all; times in ms."""
    found = F.lit(_plain(of_all, name))
    for each in reversed(of_some):
        own = F.lit(_plain(each.thresholds, name))
        found = F.when(fits(each.match), own).otherwise(found)
    return found


def _plain(thresholds: Thresholds, name: str) -> float | int:
    value = getattr(thresholds, name)
    return value // timedelta(milliseconds=1) if isinstance(value, timedelta) else value
