"""Matches of routes and inhibitions on the labels of an incident."""

import pytest
from pydantic import ValidationError

from tidemark.alerting.rules.base import IncidentMatch

LABELS = {"severity": "critical", "consumer_group": "billing", "team": "payments"}


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({}, True),
        ({"severity": "critical"}, True),
        ({"severity": ["info", "crit*"]}, True),
        ({"severity": "critical", "consumer_group": "bill"}, False),
        ({"labels": {"team": "pay*"}}, True),
        ({"labels": {"service": "*"}}, True),
        ({"labels": {"service": "?*"}}, False),
        ({"broker": "broker-a"}, False),
    ],
)
def test_every_field_has_to_match(match, expected):
    assert IncidentMatch.model_validate(match).matches(LABELS) is expected


def test_a_field_is_no_label():
    with pytest.raises(ValidationError, match="severity is a field of the match"):
        IncidentMatch.model_validate({"labels": {"severity": "info"}})
