"""Forecasts: when a number reaches a level, as an interval, or nothing where that is too wide.

The number is taken for a sum of changes: a drift, and noise that adds up with time, as a lag is
what was produced less what was consumed. The drift over the points is uncertain, and so is the
noise to come; both are in the interval. A straight line would hide the second, and would claim most
where the number moves most.

With drift m and variance s² a second over points of T seconds, a number that is g away from the
level has reached it by t with the quantile z where m t - z s sqrt(t + t²/T) >= g. Both ends are the
roots of one quadratic equation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import pairwise

from tidemark.model.forecasts import NoForecast

LIKELIHOOD = 0.9
"""Share of forecasts whose interval holds the instant, where the number behaves as assumed."""

FEWEST = 8
"""Fewest changes; over fewer the noise is not known."""

WIDEST = 4.0
"""Largest ratio of the interval's end to its start; a wider one helps no person."""

FURTHEST = 10.0
"""Furthest forecast, in times of what the points cover."""

Point = tuple[datetime, float]
"""A number at an instant."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """When a number reaches a level, after its newest observation; or why that is not stated.

    Attributes:
        estimate: seconds at the drift of the points.
        low: seconds to the start of the interval.
        high: seconds to its end.
        basis: seconds that the points cover; None where there are too few.
        reason: why there is no interval; None where there is one.
    """

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    basis: float | None = None
    reason: NoForecast | None = None


def time_to_reach(points: Sequence[Point], level: float) -> Forecast:
    """Return when a number reaches a level.

    Nothing is stated where it is there already, moves away, has too few points, or where the
    interval is without end, wider than `WIDEST` or further than `FURTHEST`.

    Args:
        points: known numbers in order of time, none of them a bound.
        level: the level.
    """
    if not points:
        return Forecast(reason=NoForecast.UNKNOWN)
    (first, start), (last, newest) = points[0], points[-1]
    gap = level - newest
    if not gap:
        return Forecast(reason=NoForecast.REACHED)
    covered = (last - first).total_seconds()
    if len(points) <= FEWEST or covered <= 0:
        return Forecast(reason=NoForecast.TOO_FEW)
    sign = math.copysign(1.0, gap)
    drift = sign * (newest - start) / covered
    if drift <= 0:
        return Forecast(basis=covered, reason=NoForecast.MOVES_AWAY)
    variance = _variance(points, sign, drift)
    ends = _ends(abs(gap), drift, variance, covered, _quantile(len(points) - 2))
    if ends is None or ends[1] > WIDEST * ends[0] or ends[1] > FURTHEST * covered:
        return Forecast(basis=covered, reason=NoForecast.TOO_WIDE)
    return Forecast(estimate=abs(gap) / drift, low=ends[0], high=ends[1], basis=covered)


def _variance(points: Sequence[Point], sign: float, drift: float) -> float:
    """Return the variance of the number over a second, after its drift."""
    total = 0.0
    for (before, old), (after, new) in pairwise(points):
        seconds = (after - before).total_seconds()
        total += (sign * (new - old) - drift * seconds) ** 2 / seconds
    return total / (len(points) - 2)


def _ends(
    gap: float, drift: float, variance: float, covered: float, quantile: float
) -> tuple[float, float] | None:
    """Return both ends of the interval in seconds; None where it has no end."""
    noise = quantile**2 * variance
    square = drift**2 - noise / covered
    if square <= 0:
        return None
    middle = 2 * gap * drift + noise
    root = math.sqrt(max(0.0, middle**2 - 4 * square * gap**2))
    # The smaller root as product over larger: a difference of nearly equal numbers would be noise.
    latest = (middle + root) / (2 * square)
    return gap**2 / (square * latest), latest


@cache
def _quantile(degrees: int) -> float:
    """Return the quantile of Student's distribution."""
    # Imported here: most commands forecast nothing.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + LIKELIHOOD) / 2))
