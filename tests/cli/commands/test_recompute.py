"""`tidemark recompute` refuses hours that nobody can compute, with the reason."""

from datetime import UTC, datetime, timedelta

from tests.support.commands import output_of
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.retention import remember_observed_since

NOW = floor_hour(datetime.now(UTC))


def refused(lake: Lake, first: datetime, last: datetime) -> str:
    hours = [f"{at:%Y-%m-%dT%H:%MZ}" for at in (first, last)]
    return output_of(lake.home, "recompute", "--from", hours[0], "--to", hours[1], code=2)


def test_hours_before_the_first_observation_are_refused(lake: Lake) -> None:
    remember_observed_since(lake, NOW - 4 * HOUR)
    assert "nothing was observed before" in refused(lake, NOW - 9 * HOUR, NOW - 5 * HOUR)


def test_hours_beyond_history_are_refused(lake: Lake) -> None:
    before = NOW - timedelta(days=60)
    assert "TIDEMARK_HISTORY_DAYS" in refused(lake, before, before + HOUR)
