"""Forecasts: where they say something the truth lies in them, and else they say nothing."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.live.forecasts import (
    FEWEST,
    FURTHEST,
    LIKELIHOOD,
    WIDEST,
    time_to_reach,
)
from tidemark.model.forecasts import NoForecast

START = datetime(2026, 11, 19, 12, tzinfo=UTC)


def points(values, every=300.0):
    return [(START + timedelta(seconds=every * n), float(v)) for n, v in enumerate(values)]


def seconds(forecast):
    return forecast.low, forecast.high


def test_a_steady_drain_is_exact():
    forecast = time_to_reach(points(range(2000, 1000, -50)), 0)
    assert seconds(forecast) == pytest.approx((1050 / 50 * 300, 1050 / 50 * 300))
    assert (forecast.estimate, forecast.basis) == pytest.approx((1050 / 50 * 300, 19 * 300))
    assert forecast.reason is None


@pytest.mark.parametrize(
    ("values", "level", "reason"),
    [
        pytest.param(range(1000, 2000, 50), 0, NoForecast.MOVES_AWAY, id="it grows"),
        pytest.param([500] * 20, 0, NoForecast.MOVES_AWAY, id="it stands"),
        pytest.param(range(950, -1, -50), 0, NoForecast.REACHED, id="it is there"),
        pytest.param(
            range(1000, 1000 - 50 * FEWEST, -50), 0, NoForecast.TOO_FEW, id="too few points"
        ),
        pytest.param([1000, 0] * 10, -500, NoForecast.TOO_WIDE, id="it jumps"),
        pytest.param(
            range(10**9, 10**9 - 20, -1), 0, NoForecast.TOO_WIDE, id="further than anything known"
        ),
        pytest.param([], 0, NoForecast.UNKNOWN, id="nothing is known"),
        pytest.param(
            [*([5000] * 15), 4000, 3000, 2000, 1000], 0, NoForecast.TOO_WIDE, id="only begun"
        ),
    ],
)
def test_nothing_is_stated_where_nothing_follows(values, level, reason):
    forecast = time_to_reach(points(values), level)
    assert (forecast.estimate, forecast.low, forecast.high) == (None, None, None)
    assert forecast.reason is reason


numbers = st.lists(st.integers(0, 10**9), min_size=0, max_size=60)


@given(values=numbers, level=st.integers(-(10**9), 10**9), every=st.sampled_from([1.0, 60.0, 3e4]))
def test_an_interval_is_ordered_and_says_something(values, level, every):
    forecast = time_to_reach(points(values, every), level)
    if forecast.reason is None:
        earliest, latest = seconds(forecast)
        assert 0 < earliest <= latest <= WIDEST * earliest * (1 + 1e-9) + 1e-3
        assert latest <= FURTHEST * forecast.basis + 1e-3
        at_drift = (level - values[-1]) / ((values[-1] - values[0]) / (len(values) - 1)) * every
        assert earliest - 1e-3 <= at_drift <= latest + 1e-3
        assert forecast.estimate == pytest.approx(at_drift)


@given(
    values=st.lists(st.integers(0, 10**6), min_size=FEWEST + 1, max_size=40),
    level=st.integers(-(10**6), 10**6),
    factor=st.sampled_from([2.0, 0.25, 1000.0]),
    shift=st.integers(-1000, 1000),
)
def test_units_and_signs_change_nothing(values, level, factor, shift):
    """A lag that falls to a level and a disk that fills up to one are the same question."""
    forecast = time_to_reach(points(values), level)
    for scaled in (factor, -factor):
        other = time_to_reach(
            points([scaled * (v + shift) for v in values]), scaled * (level + shift)
        )
        assert forecast.reason is other.reason
        if forecast.reason is None:
            assert seconds(other) == pytest.approx(seconds(forecast), rel=1e-6, abs=1e-3)


def made_up(noise, number):
    """Yield forecasts of made-up drains with noise that adds up, and when they really ended."""
    generator = random.Random(int(noise * 10) + number)
    for _ in range(1500):
        drift, value = generator.uniform(5, 20), 0.0
        walk = [value]
        while len(walk) < number:
            value -= generator.gauss(drift, noise * drift)
            walk.append(value)
        gap = generator.uniform(0.3, 3) * number * drift
        forecast, steps = time_to_reach(points(walk, 60), value - gap), 0
        while gap > 0 and steps < 100 * number:
            gap -= generator.gauss(drift, noise * drift)
            steps += 1
        yield forecast, steps * 60


@pytest.mark.parametrize("noise", [0.3, 1.0])
@pytest.mark.parametrize("number", [12, 36])
def test_as_many_intervals_hold_the_truth_as_they_claim(noise, number):
    """At most a little more than a tenth miss it: the end lies between two observations."""
    stated = [(forecast, end) for forecast, end in made_up(noise, number) if not forecast.reason]
    held = [seconds(it)[0] - 60 <= end <= seconds(it)[1] + 60 for it, end in stated]
    assert len(held) > 100, "a forecast that never says anything holds nothing"
    assert sum(held) / len(held) >= LIKELIHOOD - 0.04


def test_noise_that_hides_the_drift_gives_no_forecast():
    assert sum(forecast.reason is None for forecast, _ in made_up(5.0, 36)) <= 75, "of 1500"
