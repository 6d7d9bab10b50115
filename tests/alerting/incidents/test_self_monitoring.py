"""Rules about Tidemark itself: a pipeline that stops, fails, or reads invalid rows."""

from datetime import timedelta

import pytest

from tests.support.cluster_history import Minute, snapshot
from tests.support.computed_snapshots import NOON, computed, minute
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.incidents.life_cycle import advance
from tidemark.alerting.incidents.self_monitoring import check_pipeline
from tidemark.alerting.rules.files import DEFAULT_RULES, load_rules
from tidemark.alerting.rules.model import Rule
from tidemark.lake.catalog import Lake
from tidemark.lake.landing import land
from tidemark.lake.tables.quality import RESULTS

pytestmark = pytest.mark.slow


@pytest.fixture
def rules():
    return load_rules(DEFAULT_RULES)


def judged(
    lake: Lake,
    number: float,
    unexpected: int,
    table: str = "raw.brokers",
    elements: int | None = None,
    *,
    again: bool = False,
) -> None:
    """A validation result at a minute: of a tick on the minute before, or of a backfill."""
    row = {
        "observed_at": minute(number),
        "table": table,
        "expectation": "key_unique",
        "success": None if elements == unexpected == 0 else unexpected == 0,
        "unexpected": unexpected,
        "elements": elements,
        "judged_until": None if again else minute(number - 0.5),
    }
    lake.append(RESULTS, [row])


def shown(incidents) -> list[tuple[str, str, list[str]]]:
    names = [(incident.rule, incident.subject, incident.transitions) for incident in incidents]
    return [(rule, subject, [item.transition for item in all_]) for rule, subject, all_ in names]


def test_a_stopped_collection_is_an_incident_until_it_resumes(lake, rules):
    by_name = {rule.name: rule for rule in rules}
    for number in range(3):
        computed(lake, number)
        computed(lake, number, "west")
    incidents = advance((), [check_pipeline(lake, rules, {}, minute(3), NOON)], by_name)
    assert incidents == []
    for number in range(4, 9):
        computed(lake, number, "west")
        incidents = advance(
            incidents, [check_pipeline(lake, rules, {}, minute(number), NOON)], by_name
        )
    assert shown(incidents) == [("collection-late", "lab", ["FIRING"])]
    assert incidents[0].last_value == 360
    # That nothing is known of it for days is no good news.
    days_later = check_pipeline(lake, rules, {}, minute(3 * 1440), NOON)
    assert advance(incidents, [days_later], by_name)[0].state == "FIRING"
    computed(lake, 9)
    incidents = advance(incidents, [check_pipeline(lake, rules, {}, minute(10), NOON)], by_name)
    assert shown(incidents) == [("collection-late", "lab", ["FIRING", "RESOLVED"])]


def test_snapshots_that_land_during_a_run_are_not_late(lake, rules):
    """A day's backfill computes nothing new for a quarter of an hour."""
    computed(lake, 0)
    for number in (14, 3 * 1440):  # the latter by a clock that was ahead
        land(lake.home, snapshot(NOON, Minute(at=number), "lab"))
    (truth,) = check_pipeline(lake, rules, {}, minute(15), NOON).alerts
    assert truth.value == 900
    assert check_pipeline(lake, rules, {}, minute(15), NOON, at_work=True).alerts == ()
    (truth,) = check_pipeline(lake, rules, {}, minute(20), NOON, at_work=True).alerts
    assert truth.value == 360, "nothing has landed for six minutes"


def test_the_time_between_two_long_ticks_is_not_late(lake, rules):
    """After a tick of six minutes the newest computed snapshot is six minutes old."""
    computed(lake, 0)
    tick_took = timedelta(minutes=6)
    between = check_pipeline(lake, rules, {}, minute(6.5), NOON, tick_took=tick_took)
    assert between.alerts == () and ("collection-late", "lab") in between.untrue
    (truth,) = check_pipeline(lake, rules, {}, minute(12), NOON, tick_took=tick_took).alerts
    assert truth.value == 720, "no tick has begun for five minutes"


def test_a_tick_that_has_only_begun_resolves_nothing(lake, rules):
    by_name = {rule.name: rule for rule in rules}
    computed(lake, 0)
    incidents = advance((), [check_pipeline(lake, rules, {}, minute(20), NOON)], by_name)
    land(lake.home, snapshot(NOON, Minute(at=20), "lab"))
    begun = check_pipeline(lake, rules, {}, minute(20.5), NOON, at_work=True)
    incidents = advance(incidents, [begun], by_name)
    assert shown(incidents) == [("collection-late", "lab", ["FIRING"])]
    computed(lake, 20)
    after = check_pipeline(lake, rules, {}, minute(21), NOON)
    assert shown(advance(incidents, [after], by_name))[0][2] == ["FIRING", "RESOLVED"]


def test_a_long_tick_that_computed_nothing_resolves_nothing(lake, rules):
    """It allows for older snapshots afterwards, and none is newer than the incident."""
    by_name = {rule.name: rule for rule in rules}
    computed(lake, 0)
    incidents = advance((), [check_pipeline(lake, rules, {}, minute(6), NOON)], by_name)
    tick_took = timedelta(minutes=10)
    for _ in range(2):
        after = check_pipeline(lake, rules, {}, minute(14), NOON, tick_took=tick_took)
        assert after.alerts == ()
        incidents = advance(incidents, [after], by_name)
        assert shown(incidents) == [("collection-late", "lab", ["FIRING"])]
    computed(lake, 7)
    after = check_pipeline(lake, rules, {}, minute(15), NOON, tick_took=tick_took)
    incidents = advance(incidents, [after], by_name)
    assert shown(incidents) == [("collection-late", "lab", ["FIRING", "RESOLVED"])]
    # The same of the incident when it fires again.
    incidents = advance(incidents, [check_pipeline(lake, rules, {}, minute(18), NOON)], by_name)
    after = check_pipeline(lake, rules, {}, minute(19), NOON, tick_took=tick_took)
    incidents = advance(incidents, [after], by_name)
    assert shown(incidents)[0][2] == ["FIRING", "RESOLVED", "FIRING_2"]


def test_a_first_snapshot_that_never_comes_is_an_incident(lake, rules):
    by_name = {rule.name: rule for rule in rules}
    assert check_pipeline(lake, rules, {}, minute(5), since=NOON).alerts == ()
    incidents = advance((), [check_pipeline(lake, rules, {}, minute(6), since=NOON)], by_name)
    assert shown(incidents) == [("collection-late", "tidemark", ["FIRING"])]
    computed(lake, 7)
    incidents = advance(
        incidents, [check_pipeline(lake, rules, {}, minute(8), since=NOON)], by_name
    )
    assert shown(incidents) == [("collection-late", "tidemark", ["FIRING", "RESOLVED"])]


def test_age_counts_from_the_last_snapshot_days_ago(lake, rules):
    """It was off for three days, and had been watched for two months."""
    first, day = minute(-60 * 1440), 1440
    computed(lake, -40 * day)
    computed(lake, 0)
    (truth,) = check_pipeline(lake, rules, {}, minute(3 * day), first).alerts
    assert (truth.subject, truth.value) == ("tidemark", 3 * 86_400)
    assert truth.row["newest_at"] == NOON.isoformat()
    (truth,) = check_pipeline(lake, rules, {}, minute(3 * day), since=minute(2 * day)).alerts
    assert truth.value == 86_400, "watching began later"


def test_runs_that_fail_are_an_incident_until_one_succeeds(lake, rules):
    by_name = {rule.name: rule for rule in rules}
    once = check_pipeline(lake, rules, {"tick": ["a"]}, minute(0), NOON)
    assert once.alerts == (), "a single failure is tried again"
    incidents = advance(
        (), [once, check_pipeline(lake, rules, {"tick": ["b", "a"]}, minute(1), NOON)], by_name
    )
    assert shown(incidents) == [("runs-failing", "tick", ["FIRING"])]
    assert incidents[0].row["runs"] == ["b", "a"]
    incidents = advance(
        incidents, [check_pipeline(lake, rules, {"tick": []}, minute(2), NOON)], by_name
    )
    assert shown(incidents)[0][2] == ["FIRING", "RESOLVED"]


def test_the_validation_result_of_the_newest_rows_counts(lake, rules):
    judged(lake, 1, 0)
    judged(lake, 2, 7)
    judged(lake, 2, 7, "raw.snapshots")
    (truth,) = check_pipeline(lake, rules, {}, minute(3), NOON).alerts
    assert (truth.rule, truth.subject, truth.value) == (
        "data-quality",
        "raw.brokers/key_unique",
        7,
    )
    judged(lake, 3, 0)
    after = check_pipeline(lake, rules, {}, minute(4), NOON)
    assert after.alerts == ()
    assert ("data-quality", "raw.brokers/key_unique") in after.untrue


@pytest.fixture
def about_rows(rules):
    return [rule for rule in rules if rule.kind == "quality"]


def after(incidents: list[Incident], lake: Lake, rules: list[Rule], number: float):
    by_name = {rule.name: rule for rule in rules}
    return advance(incidents, [check_pipeline(lake, rules, {}, minute(number), NOON)], by_name)


def test_a_validation_result_of_no_rows_counts_nothing(lake, about_rows):
    """A cluster that cannot be reached has no rows, and none of them breaks anything."""
    incidents: list[Incident] = []
    for number in range(1, 4):
        judged(lake, number, 7, elements=90)
        incidents = after(incidents, lake, about_rows, number + 0.1)
    assert shown(incidents) == [("data-quality", "raw.brokers/key_unique", ["FIRING"])]
    for number in range(4, 40):
        judged(lake, number, 0, elements=0)
        incidents = after(incidents, lake, about_rows, number + 0.1)
    assert incidents[0].state == "FIRING"
    for number in range(40, 45):
        judged(lake, number, 0, elements=90)
        incidents = after(incidents, lake, about_rows, number + 0.1)
    assert shown(incidents)[0][2] == ["FIRING", "RESOLVED"]
    # That a table has none where it should have some is another thing.
    judged(lake, 45, 1, elements=0)
    (truth,) = check_pipeline(lake, about_rows, {}, minute(46), NOON).alerts
    assert truth.value == 1


def test_a_validation_result_read_twice_is_one_observation(lake, about_rows):
    incidents: list[Incident] = []
    judged(lake, 1, 7)
    for number in range(9):
        incidents = after(incidents, lake, about_rows, 2 + number / 2)
    assert [(incident.state, incident.observations) for incident in incidents] == [("PENDING", 1)]
    for number in (7, 8):
        judged(lake, number, 7)
        incidents = after(incidents, lake, about_rows, number + 0.5)
    (firing,) = incidents
    assert (firing.state, firing.opened_at, firing.fired_at) == ("FIRING", minute(0.5), minute(7.5))
    judged(lake, 9, 0)
    for number in range(9):
        incidents = after(incidents, lake, about_rows, 10 + number / 2)
    assert (incidents[0].state, incidents[0].streak) == ("FIRING", 1)


def test_a_backfill_advances_no_incident(lake, about_rows):
    """Its rows have been judged: it is no third failure in a row, and no success either."""
    incidents: list[Incident] = []
    for number in (1, 2):
        judged(lake, number, 7)
        incidents = after(incidents, lake, about_rows, number + 0.1)
    judged(lake, 2.2, 7, again=True)
    incidents = after(incidents, lake, about_rows, 2.3)
    assert [(incident.state, incident.observations) for incident in incidents] == [("PENDING", 2)]
    judged(lake, 3, 7)
    incidents = after(incidents, lake, about_rows, 3.1)
    assert [incident.state for incident in incidents] == ["FIRING"]
    for number in range(4, 30):
        judged(lake, number, 0, again=True)
        incidents = after(incidents, lake, about_rows, number + 0.1)
    assert shown(incidents) == [("data-quality", "raw.brokers/key_unique", ["FIRING"])]


def test_an_hour_that_is_audited_twice_is_one_observation(lake, about_rows):
    incidents: list[Incident] = []
    row = {"table": "raw.brokers", "expectation": "key_unique", "success": False, "unexpected": 7}
    for number in (12, 15, 20):
        at = {"observed_at": minute(number), "judged_until": minute(0)}
        lake.append(RESULTS, [row | at])
        incidents = after(incidents, lake, about_rows, number + 0.1)
    assert [(incident.state, incident.observations) for incident in incidents] == [("PENDING", 1)]
