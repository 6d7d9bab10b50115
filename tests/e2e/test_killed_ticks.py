"""A tick may be killed at any moment; files may be joined before the next.

`make soak` does it fifty times.
"""

import random

import pytest

from bench.soak import soak
from tests.support.homes import warmed
from tidemark.settings.home import Home

pytestmark = [pytest.mark.spark, pytest.mark.kills]


def test_ticks_killed_at_random_moments_leave_no_trace(tmp_path, warm_home, spark_engine, capsys):
    seed = random.randrange(1_000_000)
    happened: list[str] = [f"seed {seed}"]
    with warmed(Home.of(tmp_path / "struck"), spark_engine) as struck:
        assert soak(struck.lake, warm_home.lake, 3, seed, happened.append) == [], happened
    with capsys.disabled():
        print("\n" + "; ".join(happened))  # noqa: T201  the moments, to do them again
