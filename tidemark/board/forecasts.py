"""Forecasts of groups and brokers: until nothing waits, messages expire, or a disk is full."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tidemark.board.data_files import DataFiles
from tidemark.board.newest import clusters_at
from tidemark.board.responses import object_model
from tidemark.board.trends import BROKERS, GROUPS, Listed, read_points
from tidemark.lake.bounds import bound_of
from tidemark.lake.catalog import Lake
from tidemark.live.forecasts import LIKELIHOOD, Forecast, time_to_reach
from tidemark.model.forecasts import ForecastKind, NoForecast

DISK_REFUSES = 0.9
"""Share of a full disk above which a broker refuses messages (`diskSpaceWarningLevelRatio`)."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """A level whose reaching is forecast.

    Attributes:
        column: the number.
        level: the level.
        rises: whether the number reaches it from below.
    """

    column: str
    level: float
    rises: bool = False

    def is_reached(self, value: float) -> bool:
        """Return whether a value is at the level or beyond."""
        return value >= self.level if self.rises else value <= self.level


LEVELS: Mapping[Listed, Mapping[ForecastKind, Level]] = {
    GROUPS: {
        ForecastKind.DRAIN: Level(column="lag", level=0.0),
        ForecastKind.LOSS: Level(column="loss_in_seconds", level=0.0),
    },
    BROKERS: {ForecastKind.DISK_FULL: Level(column="disk_ratio", level=DISK_REFUSES, rises=True)},
}
"""Forecasts of the rows of a list."""

UNIT = "s"

_FORECAST = object_model(
    "Forecast",
    "The time from the newest observation until something happens, or why none is stated.",
    estimate=(float, "at the mean change of the last hours; null where nothing is stated"),
    low=(float, f"start of the interval that holds the time in {LIKELIHOOD:.0%} of cases"),
    high=(float, "end of that interval"),
    unit=(str, f"of these numbers: {UNIT}"),
    basis=(float, "time that the observations behind it cover; null where they are too few"),
    reason=(NoForecast, "why nothing is stated; null where there is an interval"),
)


def forecasts_model(listed: Listed) -> Any:
    """Return the type and the meaning of the forecasts of a row, for `object_model`."""
    kinds = ", ".join(LEVELS[listed])
    return dict[str, _FORECAST], f"{kinds}: the time until then"  # pyright: ignore


def forecasts(points: Sequence[Mapping[str, Any]], listed: Listed) -> dict[str, dict[str, Any]]:
    """Return the forecasts of a row by `ForecastKind`, as `forecasts_model` describes them.

    Args:
        points: the last hours of the row in order of time.
        listed: the list that it is of.
    """
    return {
        kind.value: {**asdict(_forecast(points, level)), "unit": UNIT}
        for kind, level in LEVELS[listed].items()
    }


def read_forecasts(lake: Lake, now: datetime) -> list[dict[str, Any]]:
    """Return all forecasts of the newest snapshots of clusters, those of the same row together.

    Args:
        lake: the tables.
        now: the present instant.

    Returns:
        A row per forecast: the key of the group on a topic or broker, ``observed_at`` of its newest
        observation, ``forecast``, and its columns. A key that the row does not have is None.

    Raises:
        DamagedError: a file of a table is missing or damaged.
    """
    at, _ = clusters_at(lake, now)
    files = DataFiles(lake)
    keys = dict.fromkeys(name for listed in LEVELS for name in listed.key)
    rows: list[dict[str, Any]] = []
    for listed in LEVELS:
        points = read_points(lake, files, at, listed)
        for key in sorted(points.places):
            own = points.of(*key)
            named = dict(zip(listed.key, key, strict=True))
            # A group or broker that has gone has no row in the newest snapshot.
            if own[-1]["observed_at"] == at[named["cluster"]]:
                rows += [
                    {
                        **keys,
                        **named,
                        "observed_at": own[-1]["observed_at"],
                        "forecast": kind,
                        **stated,
                    }
                    for kind, stated in forecasts(own, listed).items()
                ]
    return rows


def _forecast(points: Sequence[Mapping[str, Any]], level: Level) -> Forecast:
    """Return when a level is reached, from no bound, and nothing where the newest number is one.

    An earlier number that is unknown or a bound is left out.
    """
    newest = points[-1] if points else {}
    value = newest.get(level.column)
    if value is None:
        return Forecast(reason=NoForecast.UNKNOWN)
    if bound_of(level.column, newest):
        return Forecast(reason=NoForecast.BOUND)
    if level.is_reached(value):
        return Forecast(reason=NoForecast.REACHED)
    known = [
        (row["observed_at"], float(row[level.column]))
        for row in points
        if row[level.column] is not None and bound_of(level.column, row) is None
    ]
    return time_to_reach(known, level.level)
