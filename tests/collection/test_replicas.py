"""How long a slave is behind its master, from ends of the commit log at earlier snapshots."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.collection.memory import FINENESS, advanced, behind, date_replicas
from tidemark.rocketmq.records import Broker
from tidemark.rocketmq.snapshot.assembly import compare_replicas

START = datetime(2026, 11, 19, 12, tzinfo=UTC)
DAY = 24 * 60


def at(minute):
    return START + timedelta(minutes=minute)


def seen(brokers, minute, remembered):
    """Return what is remembered after a snapshot of (broker id, end) at a minute, and its slave."""
    rows = [
        Broker(broker="a", broker_id=number, address=f"a:{number}", commit_log_max_offset=end)
        for number, end in brokers.items()
    ]
    compare_replicas(rows)
    remembered = date_replicas(rows, at(minute), remembered)
    return remembered, rows[-1]


@pytest.mark.parametrize(
    ("snapshots", "expected"),
    [
        pytest.param([{0: 100, 1: 100}], (0, 0, False), id="nothing is lacking"),
        pytest.param([{0: 100, 1: 130}], (0, 0, False), id="the slave responded later"),
        pytest.param([{0: 100, 1: 40}], (60, None, None), id="no earlier snapshot"),
        pytest.param([{0: 100, 1: 40}, {0: 200, 1: 150}], (50, 30_000, False), id="interpolated"),
        pytest.param([{0: 100, 1: 40}, {0: 200, 1: 40}], (160, 60_000, True), id="before all"),
        pytest.param([{0: 100, 1: 40}, {0: 200, 1: None}], (None, None, None), id="no response"),
        pytest.param([{0: 100, 1: 40}, {0: None, 1: 60}], (None, None, None), id="no master"),
        pytest.param([{0: 500, 1: 40}, {0: 200, 1: 150}], (50, None, None), id="another log"),
        pytest.param(
            [{0: 100, 1: 40}, {0: None, 1: 40}, {0: 200, 1: 100}],
            (100, 120_000, False),
            id="a silent master is remembered",
        ),
    ],
)
def test_how_far_a_slave_is_behind(snapshots, expected):
    remembered, slave = {}, None
    for minute, brokers in enumerate(snapshots):
        remembered, slave = seen(brokers, minute, remembered)
    assert slave
    numbers = slave.replica_behind_bytes, slave.replica_behind_ms
    assert (*numbers, slave.replica_behind_is_lower_bound) == expected


def test_a_master_without_slaves_is_not_remembered():
    assert seen({0: 100}, 0, {})[0] == {}


@given(
    steps=st.lists(st.integers(0, 1000), min_size=2, max_size=200),
    share=st.floats(0, 1),
    every=st.sampled_from([0.25, 1, 10, 60]),
)
def test_time_lies_between_the_ends_around_it(steps, share, every):
    """The true time is known to within the forgotten ends: a part of it, and one interval."""
    ends, end, ends_at = [], 0, []
    for number, step in enumerate(steps):
        end += step
        ends_at.append((at(number * every), end))
        ends = advanced(ends, at(number * every), end)
    own = round(share * end)
    result = behind(ends, own)
    assert len(ends) <= 20 * FINENESS
    assert result is not None
    now = ends_at[-1][0]
    earlier = [
        instant for instant, value in ends_at if value <= own and now - instant <= timedelta(1)
    ]
    if own >= end:
        assert result.time == timedelta()
    elif result.is_lower_bound:
        assert all(now - instant >= result.time for instant in earlier)
    else:
        error = timedelta(minutes=every) + result.time / (FINENESS - 2) * 2
        assert result.time <= now - max(earlier) + error
        assert result.time + error >= now - max(earlier) - timedelta(minutes=every)


def test_a_day_takes_few_ends():
    ends = []
    for number in range(4 * DAY * 2):
        ends = advanced(ends, at(number / 4), number)
    assert len(ends) <= 80
    assert ends[-1][0] - ends[0][0] >= timedelta(hours=20)
    assert behind(ends, ends[-1][1] - 4 * 60).time == pytest.approx(
        timedelta(hours=1), abs=timedelta(minutes=1)
    )
