"""A killed notifier with routes loses no message, and escalates unacknowledged incidents."""

import pytest

from bench.routed_notifier import routed_notifier

pytestmark = pytest.mark.slow


def test_routes_groups_and_escalation_survive_kills(tmp_path):
    kills = 2
    notifier = routed_notifier(tmp_path, kills, seed=20261124, report=lambda line: None)
    assert notifier.expected == 4 * kills
    assert notifier.missing == {"team": 0, "lead": 0, "hook": 0}
    assert max(notifier.repeated.values()) <= kills
    assert notifier.wrongly_escalated == 0
