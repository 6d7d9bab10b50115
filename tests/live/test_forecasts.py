"""Forecasts: where they say something the truth lies in them, and else they say nothing."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tidemark.live.forecasts import (
    FEWEST,
    FURTHEST,
    LIKELIHOOD,
    WIDEST,
    _quantile,
    time_to_reach,
)

START = datetime(2026, 11, 19, 12, tzinfo=UTC)


def points(values, every=300.0):
    return [(START + timedelta(seconds=every * n), float(v)) for n, v in enumerate(values)]


def seconds(forecast):
    return forecast.earliest.total_seconds(), forecast.latest.total_seconds()


def test_a_steady_drain_is_exact():
    forecast = time_to_reach(points(range(2000, 1000, -50)), 0)
    assert forecast
    assert seconds(forecast) == pytest.approx((1050 / 50 * 300, 1050 / 50 * 300))
    assert forecast.basis == timedelta(seconds=19 * 300)


@pytest.mark.parametrize(
    ("values", "level"),
    [
        pytest.param(range(1000, 2000, 50), 0, id="it grows"),
        pytest.param([500] * 20, 0, id="it stands"),
        pytest.param(range(950, -1, -50), 0, id="it is there"),
        pytest.param(range(1000, 1000 - 50 * FEWEST, -50), 0, id="too few points"),
        pytest.param([1000, 0] * 10, -500, id="it jumps"),
        pytest.param(range(10**9, 10**9 - 20, -1), 0, id="further than anything is known"),
        pytest.param([], 0, id="nothing is known"),
        pytest.param([*([5000] * 15), 4000, 3000, 2000, 1000], 0, id="it has only begun"),
    ],
)
def test_nothing_is_said_where_nothing_follows(values, level):
    assert time_to_reach(points(values), level) is None


numbers = st.lists(st.integers(0, 10**9), min_size=0, max_size=60)


@given(values=numbers, level=st.integers(-(10**9), 10**9), every=st.sampled_from([1.0, 60.0, 3e4]))
def test_an_interval_is_ordered_and_says_something(values, level, every):
    forecast = time_to_reach(points(values, every), level)
    if forecast is not None:
        earliest, latest = seconds(forecast)
        assert 0 < earliest <= latest <= WIDEST * earliest * (1 + 1e-9) + 1e-3
        assert latest <= FURTHEST * forecast.basis.total_seconds() + 1e-3
        at_drift = (level - values[-1]) / ((values[-1] - values[0]) / (len(values) - 1)) * every
        assert earliest - 1e-3 <= at_drift <= latest + 1e-3


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
        assert (forecast is None) == (other is None)
        if forecast and other:
            assert seconds(other) == pytest.approx(seconds(forecast), rel=1e-6, abs=1e-3)


@pytest.mark.parametrize("degrees", [7, 10, 20, 34, 100])
def test_the_quantile_is_students(degrees):
    assert _quantile(degrees) == pytest.approx(stats.t.ppf((1 + LIKELIHOOD) / 2, degrees), rel=0.01)


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
    stated = [(forecast, end) for forecast, end in made_up(noise, number) if forecast]
    held = [seconds(it)[0] - 60 <= end <= seconds(it)[1] + 60 for it, end in stated]
    assert len(held) > 100, "a forecast that never says anything holds nothing"
    assert sum(held) / len(held) >= LIKELIHOOD - 0.04


def test_noise_that_hides_the_drift_gives_no_forecast():
    assert sum(forecast is not None for forecast, _ in made_up(5.0, 36)) <= 75, "of 1500"
