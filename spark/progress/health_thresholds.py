"""Health thresholds as columns: those of a group's first matching override, else the defaults."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from settings.health_thresholds import Override, Thresholds
from spark.columns import matches

Threshold = Callable[[str], Column]
"""Returns the threshold of that name, as it holds for a row."""


def threshold_column(name: str, defaults: Thresholds, overrides: Sequence[Override]) -> Column:
    """Return a threshold for each row.

    Args:
        name: a field of `settings.health_thresholds.Thresholds`.
        defaults: of groups that no override matches.
        overrides: the first that matches a row applies.

    Returns:
        A number; durations in milliseconds.
    """
    found = F.lit(_number(defaults, name))
    for override in reversed(overrides):
        own = F.lit(_number(override.thresholds, name))
        found = F.when(matches(override.match), own).otherwise(found)
    return found


def _number(thresholds: Thresholds, name: str) -> float | int:
    value = getattr(thresholds, name)
    return value // timedelta(milliseconds=1) if isinstance(value, timedelta) else value
