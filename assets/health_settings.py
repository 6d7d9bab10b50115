"""The settings file of health: thresholds of single groups.

::

    health:
    - match: {consumer_group: "batch-*"}   # globs; also cluster and topic
      standing_for: 2h                     # reads once an hour: no queue stands before
      rising_steps: 9
    - match: {}                            # all others
      rise_seconds: 5m

The first entry that fits a group on a topic counts; what it does not say is as `Thresholds` has it.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field

from alerting.fields import Seconds, Strict
from alerting.matching import GroupMatch
from lake.documents import read_items
from lake.history import OBSERVATIONS
from lake.home import Home
from spark.thresholds import DEFAULTS, ForSome

Count = Annotated[int, Field(ge=1, le=OBSERVATIONS)]


class HealthSettings(Strict):
    """One entry of the file; see `spark.thresholds.Thresholds`."""

    match: GroupMatch
    known: Count | None = None
    rising_steps: Count | None = None
    rise_seconds: Seconds | None = None
    standing: Count | None = None
    standing_for: Seconds | None = None

    def for_some(self) -> ForSome:
        """What it says, with the defaults for what it does not."""
        said = self.model_dump(exclude={"match", "standing_for"}, exclude_none=True)
        if self.standing_for is not None:
            said["standing_for"] = timedelta(seconds=self.standing_for)
        return ForSome(self.match.model_dump(), replace(DEFAULTS, **said))


NAMED_BY = "TIDEMARK_HEALTH"


def settings_path(home: Home, environment: Mapping[str, str] = os.environ) -> Path:
    """Where the file is: ``TIDEMARK_HEALTH``, else ``health.yaml`` in the home."""
    return Path(environment.get(NAMED_BY) or home.path / "health.yaml")


def read(file: Path) -> tuple[Sequence[ForSome], list[str]]:
    """The entries that can be used, and a line for each mistake; none where there is no file.

    A file that somebody named has to be there.

    Args:
        file: mistakes name it as it is given here.
    """
    found: list[ForSome] = []
    mistakes: list[str] = []
    validate = HealthSettings.model_validate
    for item in read_items(file, "health", "an entry", validate, named_by=NAMED_BY):
        if isinstance(item, str):
            mistakes.append(item)
        else:
            found.append(item.value.for_some())
    return found, mistakes
