"""The settings file of health: thresholds of single groups.

::

    health:
    - match: {consumer_group: "batch-*"}   # globs; also cluster and topic
      standing_for: 2h                     # consumes once an hour: no queue is standing before
      rising_steps: 9
    - match: {}                            # all others
      rise_seconds: 5m

The first entry that matches a group on a topic counts; a field that it omits has its default.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field

from settings.constants import OBSERVATIONS
from settings.fields import Seconds, Strict
from settings.health_thresholds import DEFAULTS, Override
from settings.matching import GroupMatch
from settings.yaml_documents import read_entries

Count = Annotated[int, Field(ge=1, le=OBSERVATIONS)]


class HealthSettings(Strict, frozen=True):
    """One entry of the file; see `settings.health_thresholds.Thresholds`."""

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
    return [each.override() for each in entries], mistakes
