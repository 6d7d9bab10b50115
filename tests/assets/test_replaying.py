"""What rules would have made of the past: the same whether it is read at once or piece by piece."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from alerting.rule_files import load_rules
from assets import replaying
from lake.catalog import Lake
from lake.tables import progress, raw
from lake.window import Window
from tests.builders import arrow, minute

pytestmark = pytest.mark.spark

DAYS_AGO = 5 * 1440
"""Minutes before noon: other tests of this home are about other days."""

LATE = {"late": [*range(3, 21), *range(91, 100)], "back": [*range(6), *range(21, 31)]}
"""The minutes at which each group is late."""


def at(number: float) -> float:
    return number - DAYS_AGO


@pytest.fixture(scope="module")
def past(session_home) -> Lake:
    """A hundred minutes of two groups."""
    lake = Lake(session_home)
    looks = [
        {"at": at(number), "status": "COMPLETE", "brokers_read": ["broker-a"]}
        for number in range(100)
    ]
    groups = [
        {
            "at": at(number),
            "consumer_group": group,
            "topic": "orders",
            "readable_lag": 500 if number in late else 5,
            "complete": True,
            "online": True,
            "message_model": "CLUSTERING",
        }
        for number in range(100)
        for group, late in LATE.items()
    ]
    computed = [{"at": look["at"]} for look in looks]
    for table, rows in (
        (raw.SNAPSHOTS, looks),
        (progress.GROUPS, groups),
        (progress.SNAPSHOTS, computed),
    ):
        lake.append(table, arrow(table, rows))
    return lake


def replayed(lake, spark, tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("rules:\n  - {name: lag, kind: lag, threshold: 100, for: 3, clear_for: 5}\n")
    given = SimpleNamespace(session_for=lambda rows: spark)
    window = Window(minute(at(0)), minute(at(100)))
    found = replaying.replay(lake, given, load_rules(file), window)
    noon = minute(at(0))
    return [
        (
            each.subject,
            (each.opened_at - noon) / timedelta(minutes=1),
            [(one.transition, (one.at - noon) / timedelta(minutes=1)) for one in each.transitions],
            each.observations,
        )
        for each in found
    ]


def test_a_past_read_piece_by_piece_makes_the_same_incidents(past, spark, tmp_path, monkeypatch):
    expected = [
        (
            "lab/back/orders",
            0,
            # What came back takes twice as long to be over.
            [("FIRING", 2), ("RESOLVED", 10), ("FIRING_2", 23), ("RESOLVED_2", 40)],
            16,
        ),
        ("lab/late/orders", 3, [("FIRING", 5), ("RESOLVED", 25)], 18),
        # More than an hour later it is another one.
        ("lab/late/orders", 91, [("FIRING", 93)], 9),
    ]
    assert replayed(past, spark, tmp_path) == expected
    asked = []
    evaluate = replaying.evaluate
    monkeypatch.setattr(replaying, "MOST_ROWS", 30)
    monkeypatch.setattr(
        replaying, "evaluate", lambda *given: asked.append(given[2]) or evaluate(*given)
    )
    assert replayed(past, spark, tmp_path) == expected
    assert len(asked) == 7, "fifteen snapshots of two groups at a time"
