"""A killed notifier with routes loses no message, and escalates unacknowledged incidents."""

import pytest

from bench.routed_notifier import routed_notifier

pytestmark = pytest.mark.slow


def test_routes_groups_and_escalation_survive_kills(tmp_path):
    kills = 2
    found = routed_notifier(tmp_path, kills, seed=20261124, report=lambda line: None)
    assert found.expected == 4 * kills
    assert found.missing == {"team": 0, "lead": 0, "hook": 0}
    assert max(found.repeated.values()) <= kills
    assert found.wrongly_escalated == 0
