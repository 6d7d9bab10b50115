"""Instants on the command line."""

from datetime import UTC, datetime

import pytest
import typer

from tidemark.cli.invocation import parse


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-11-19T08:00", 8),
        ("2026-11-19T08:00:00Z", 8),
        ("2026-11-19T08:00+08:00", 0),
        ("2026-11-19", 0),
    ],
)
def test_an_instant_without_zone_is_utc(text, hour):
    parsed = parse(text)
    assert parsed == datetime(2026, 11, 19, hour, tzinfo=UTC)
    assert parsed.tzinfo is UTC, "or its hour is printed as one of UTC"


@pytest.mark.parametrize("text", ["noon", "0001-01-01T00:00+08:00"])
def test_another_text_is_bad_usage(text):
    with pytest.raises(typer.BadParameter, match="is not an ISO 8601 instant"):
        parse(text)
