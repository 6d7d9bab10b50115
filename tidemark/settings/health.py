"""Thresholds of the states of health: the defaults, and the file of overrides for some groups.

::

    health:
    - match: {consumer_group: "batch-*"}   # globs; also cluster and topic
      standing_for: 2h                     # consumes once an hour: no queue is standing before
      rising_steps: 9
    - match: {}                            # all others
      rise_seconds: 5m

The first entry that matches a group on a topic counts; a field that it omits has its default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tidemark.settings.fields import GroupMatch, Seconds, Strict
from tidemark.settings.sections import OBSERVATIONS
from tidemark.settings.yaml_documents import read_entries


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Thresholds of the states of health; the defaults are those of the contract.

    Attributes:
        known: fewest known observations among the `tidemark.settings.sections.OBSERVATIONS` that
            count.
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


Count = Annotated[int, Field(ge=1, le=OBSERVATIONS)]


class HealthSettings(Strict, frozen=True):
    """One entry of the file; see `Thresholds`."""

    match: GroupMatch
    known: Count | None = None
    rising_steps: Count | None = None
    rise_seconds: Seconds | None = None
    standing: Count | None = None
    standing_for: Seconds | None = None

    def override(self) -> Override:
        """Return its thresholds, with the defaults of omitted fields."""
        given = self.model_dump(exclude={"match", "standing_for"}, exclude_none=True)
        if self.standing_for is not None:
            given["standing_for"] = timedelta(seconds=self.standing_for)
        return Override(self.match.model_dump(), replace(DEFAULTS, **given))


def read(file: Path, *, required: bool = False) -> tuple[Sequence[Override], list[str]]:
    """Return the entries that can be used, and a line for each mistake.

    Args:
        file: mistakes name it as it is given here.
        required: whether it is a mistake when the file does not exist.
    """
    entries, mistakes = read_entries(file, "health", HealthSettings, required=required)
    return [entry.override() for entry in entries], mistakes
