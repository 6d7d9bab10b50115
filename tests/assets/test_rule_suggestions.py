"""Thresholds that history suggests: the same replay as of rules, for each threshold."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from assets.rule_evaluation import replay
from assets.rule_suggestions import FACTORS, LEAST_HOURS, candidates, outcomes
from tests.support.table_rows import arrow, minute
from tidemark.alerting.rules.files import DEFAULT_RULES, load_rules
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress, raw

WEEK = 7 * 24
DAYS_AGO = 9 * 1440
"""Minutes before noon: most tests of this home are about other days."""

GROUP = "g-suggested"
"""No other test of this home has it."""


@pytest.fixture
def rules(tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text(
        "rules:\n"
        "- {name: lag, kind: lag, threshold: 100, for: 1, clear_for: 2}\n"
        "- {name: soon, kind: soon_lost, threshold: 1h, for: 1}\n"
        "- {name: lost, kind: lost}\n"
        "- {name: full, kind: disk, threshold: 0.85}\n"
        "- {name: late, kind: collection_late, threshold: 5m}\n"
    )
    return load_rules(file)


def fired(candidate, subjects):
    """Incidents of a candidate, of which one did not fire."""
    times = [*([minute(0)] * len(subjects)), None]
    return [
        SimpleNamespace(rule=candidate.rule.name, subject=subject, fired_at=at, reopened=0)
        for subject, at in zip([*subjects, "pending"], times, strict=True)
    ]


def test_only_thresholds_that_can_be_multiplied_are_tried(rules):
    tried = candidates(rules)
    assert {one.of for one in tried} == {"lag", "soon"}
    assert [one.threshold for one in tried if one.of == "lag"] == [100 * it for it in FACTORS]
    assert [one.threshold for one in tried if one.is_present] == [100, 3600]
    assert len({one.rule.name for one in candidates(load_rules(DEFAULT_RULES))}) == len(
        candidates(load_rules(DEFAULT_RULES))
    )


@pytest.mark.parametrize(
    ("name", "counts", "suggested"),
    [
        pytest.param("lag", (9, 7, 3, 2, 1, 0, 0), 50, id="the smallest that fires seldom"),
        pytest.param("soon", (0, 0, 1, 2, 3, 4, 9), 3600, id="of below the largest"),
        pytest.param("lag", (9, 9, 9, 9, 9, 9, 9), None, id="all fire too often"),
        pytest.param("lag", (0, 0, 0, 0, 0, 0, 0), 10, id="none ever fired"),
    ],
)
def test_the_most_sensitive_that_fires_seldom_enough_is_suggested(rules, name, counts, suggested):
    tried = [one for one in candidates(rules) if one.of == name]
    incidents = [
        incident
        for candidate, count in zip(tried, counts, strict=True)
        for incident in fired(candidate, [f"s{number % 2}" for number in range(count)])
    ]
    result = outcomes(tried, incidents, WEEK, 3 if name == "lag" else 2)
    by_threshold = {it.threshold: it for it in result}
    assert [by_threshold[one.threshold].fired for one in tried] == list(counts)
    assert [it.subjects for it in result] == [min(2, it.fired) for it in result]
    assert [it.threshold for it in result if it.is_suggested] == ([suggested] if suggested else [])


def test_a_short_history_suggests_nothing(rules):
    result = outcomes(candidates(rules), [], LEAST_HOURS - 1, 5)
    assert not any(it.is_suggested for it in result)
    assert {it.per_week for it in result} == {None}


@pytest.mark.spark
def test_each_threshold_fires_what_its_own_replay_fires(session_home, spark, rules):
    """A lag that rises to 950, twice: an incident of the lowest goes on, as it needs two untrue."""
    given = SimpleNamespace(session_for=lambda rows: spark)
    lake = Lake(session_home)
    ats = [number - DAYS_AGO for number in range(40)]
    groups = [
        {"at": at, "consumer_group": GROUP, "topic": "t", "complete": True, "online": True}
        | {"readable_lag": number % 20 * 50, "message_model": "CLUSTERING"}
        for number, at in enumerate(ats)
    ]
    snapshots = [{"at": at, "status": "COMPLETE", "brokers_read": ["broker-a"]} for at in ats]
    lake.append(raw.SNAPSHOTS, arrow(raw.SNAPSHOTS, snapshots))
    lake.append(progress.GROUPS, arrow(progress.GROUPS, groups))
    lake.append(progress.SNAPSHOTS, arrow(progress.SNAPSHOTS, [{"at": at} for at in ats]))
    window = Window(minute(ats[0]), minute(ats[-1]) + timedelta(minutes=1))
    tried = [one for one in candidates(rules) if one.of == "lag"]
    incidents = replay(lake, given, [one.rule for one in tried], window, inhibitions=())
    result = outcomes(tried, [it for it in incidents if GROUP in it.subject], WEEK, 0)
    assert {it.threshold: it.fired for it in result} == {
        **dict.fromkeys((10, 20), 1),
        **dict.fromkeys((50, 100, 200, 500), 2),
        1000: 0,
    }
    assert [it.threshold for it in result if it.is_suggested] == [1000]
