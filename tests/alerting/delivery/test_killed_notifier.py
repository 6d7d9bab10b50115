"""A notifier that is killed forgets nothing, and repeats at most the message it was at."""

import pytest

from bench.notifier import notifier

pytestmark = pytest.mark.slow


def test_every_transition_is_notified_whenever_the_notifier_is_killed(tmp_path):
    kills = 3
    result = notifier(tmp_path, kills, seed=20261121, report=lambda line: None)
    assert result.expected == 3 * kills + 3 * (kills - 1)
    assert (result.missing, result.disordered) == (0, 0)
    assert result.repeated <= kills
