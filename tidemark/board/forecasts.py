"""Forecasts that pages show: when a lag is drained, when messages expire, when a disk is full."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidemark.lake.bounds import bound_of
from tidemark.live.forecasts import Forecast, time_to_reach

DISK_REFUSES = 0.9
"""Share of a full disk above which a broker refuses messages (`diskSpaceWarningLevelRatio`)."""

LEVELS = {"lag": 0.0, "loss_in_seconds": 0.0, "disk_ratio": DISK_REFUSES}
"""Columns to the level whose reaching is forecast."""


def forecasts(points: Sequence[Mapping[str, Any]], *columns: str) -> dict[str, Forecast | None]:
    """Return forecasts by column; None where nothing follows.

    Args:
        points: the last hours of a group or broker in order of time.
        columns: keys of `LEVELS`. A bound is no number that a forecast may rest on, and where the
            newest number is unknown nothing is forecast.
    """
    stated: dict[str, Forecast | None] = {}
    for name in columns:
        known = [
            (row["observed_at"], float(row[name]))
            for row in points
            if row[name] is not None and bound_of(name, row) is None
        ]
        is_current = known and known[-1][0] == points[-1]["observed_at"]
        stated[name] = time_to_reach(known, LEVELS[name]) if is_current else None
    return stated
