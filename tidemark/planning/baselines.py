"""Hours with which an hour is compared, and the hours that lack a row in ``progress.baselines``."""

from datetime import timedelta

from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.schema import any_of, window_filter
from tidemark.lake.tables import progress

WEEK = timedelta(days=7)

WEEKS = 4
"""Weeks before an hour that its usual values are from."""

AROUND = 1
"""Hours before and after the same hour of a week that count as well. A daily job that begins a few
minutes later is usual then, and so is all of it when the clocks of a country change."""


def compared_with(hours: Window) -> list[Window]:
    """Return the windows that whole hours are compared with, the newest week first."""
    return [
        Window(hours.start - week * WEEK - AROUND * HOUR, hours.end - week * WEEK + AROUND * HOUR)
        for week in range(1, WEEKS + 1)
    ]


def has_history(lake: Lake, compared: list[Window]) -> bool:
    """Return whether a group was observed in one of some windows."""
    where = any_of(*(window_filter(progress.GROUPS, window) for window in compared))
    return lake.read(progress.GROUPS, where, columns=("observed_at",), limit=1).num_rows > 0


def lacking_baselines(lake: Lake, hours: Window) -> Window:
    """Return the smallest window with those of some hours that lack baselines."""
    lacking = []
    hour = hours.start
    while hour < hours.end:
        if not lake.has_rows(progress.BASELINES, Window(hour, hour + HOUR)):
            lacking.append(hour)
        hour += HOUR
    return Window(lacking[0], lacking[-1] + HOUR) if lacking else Window(hours.start, hours.start)
