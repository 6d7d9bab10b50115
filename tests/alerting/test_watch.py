"""Watching the watcher: a pipeline that stops, fails, or reads what cannot be."""

from datetime import UTC, datetime, timedelta

import pytest

from alerting.incidents import follow
from alerting.rule_files import DEFAULT_RULES, load_rules
from alerting.watch import look
from lake.catalog import Lake
from lake.tables.progress import SNAPSHOTS
from lake.tables.quality import RESULTS

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def minute(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


@pytest.fixture
def rules():
    return load_rules(DEFAULT_RULES)


def computed(lake: Lake, number: float, cluster: str = "lab") -> None:
    row = {"snapshot_id": f"{number:g}", "observed_at": minute(number), "cluster": cluster}
    lake.append(SNAPSHOTS, [row])


def judged(lake: Lake, number: float, unexpected: int, table: str = "raw.brokers") -> None:
    row = {
        "observed_at": minute(number),
        "table": table,
        "expectation": "key_unique",
        "success": unexpected == 0,
        "unexpected": unexpected,
        "window_end": minute(number),
    }
    lake.append(RESULTS, [row])


def told(incidents) -> list[tuple[str, str, list[str]]]:
    names = [(each.rule, each.subject, each.transitions) for each in incidents]
    return [(rule, subject, [each.transition for each in all_]) for rule, subject, all_ in names]


def test_a_collection_that_stops_is_an_incident_until_it_goes_on(lake, rules):
    by_name = {rule.name: rule for rule in rules}
    for number in range(3):
        computed(lake, number)
        computed(lake, number, "west")
    incidents = follow((), [look(lake, rules, {}, minute(3), NOON)], by_name)
    assert incidents == []
    for number in range(4, 9):
        computed(lake, number, "west")
        incidents = follow(incidents, [look(lake, rules, {}, minute(number), NOON)], by_name)
    assert told(incidents) == [("collection-late", "lab", ["FIRING"])]
    assert incidents[0].last_value == 360
    # That nothing is known of it for days is no good news.
    days_later = look(lake, rules, {}, minute(3 * 1440), NOON)
    assert follow(incidents, [days_later], by_name)[0].state == "FIRING"
    computed(lake, 9)
    incidents = follow(incidents, [look(lake, rules, {}, minute(10), NOON)], by_name)
    assert told(incidents) == [("collection-late", "lab", ["FIRING", "RESOLVED"])]


def test_a_first_snapshot_that_never_comes_is_an_incident(lake, rules):
    by_name = {rule.name: rule for rule in rules}
    assert look(lake, rules, {}, minute(5), since=NOON).truths == ()
    incidents = follow((), [look(lake, rules, {}, minute(6), since=NOON)], by_name)
    assert told(incidents) == [("collection-late", "tidemark", ["FIRING"])]
    computed(lake, 7)
    incidents = follow(incidents, [look(lake, rules, {}, minute(8), since=NOON)], by_name)
    assert told(incidents) == [("collection-late", "tidemark", ["FIRING", "RESOLVED"])]


def test_runs_that_fail_are_an_incident_until_one_succeeds(lake, rules):
    by_name = {rule.name: rule for rule in rules}
    once = look(lake, rules, {"tick": ["a"]}, minute(0), NOON)
    assert once.truths == (), "a single failure is tried again"
    incidents = follow(
        (), [once, look(lake, rules, {"tick": ["b", "a"]}, minute(1), NOON)], by_name
    )
    assert told(incidents) == [("runs-failing", "tick", ["FIRING"])]
    assert incidents[0].row["runs"] == ["b", "a"]
    incidents = follow(incidents, [look(lake, rules, {"tick": []}, minute(2), NOON)], by_name)
    assert told(incidents)[0][2] == ["FIRING", "RESOLVED"]


def test_of_an_expectation_the_verdict_on_the_newest_rows_counts(lake, rules):
    judged(lake, 1, 0)
    judged(lake, 2, 7)
    judged(lake, 2, 7, "raw.snapshots")
    (truth,) = look(lake, rules, {}, minute(3), NOON).truths
    assert (truth.rule, truth.subject, truth.value) == (
        "data-quality",
        "raw.brokers/key_unique",
        7,
    )
    judged(lake, 3, 0)
    after = look(lake, rules, {}, minute(4), NOON)
    assert after.truths == ()
    assert ("data-quality", "raw.brokers/key_unique") in after.untrue
