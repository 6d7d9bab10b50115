"""Instants that people write are in UTC unless they name a zone."""

from datetime import UTC, datetime

import pytest

from tidemark.settings.times import utc_instant

EIGHT = datetime(2026, 11, 19, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["2026-11-19T08:00", "2026-11-19 08:00:00", "2026-11-19T08:00Z", "2026-11-19T16:00+08:00"],
)
def test_an_instant_is_in_utc_unless_it_names_a_zone(text: str) -> None:
    instant = utc_instant(text)
    assert instant == EIGHT and instant.tzinfo is UTC


def test_a_wrong_instant_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="yesterday"):
        utc_instant("yesterday")


def test_the_first_year_of_a_zone_may_be_none_of_utc() -> None:
    with pytest.raises(OverflowError):
        utc_instant("0001-01-01T00:00+08:00")
