"""Replay of rules on the past: the same incidents whether it is read at once or in pieces."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from assets import alerting, rule_evaluation
from spark.alerts.evaluation import evaluate
from tests.support.rules_by_name import named
from tests.support.table_rows import arrow, minute
from tidemark.alerting.incidents.repository import from_rows
from tidemark.alerting.rules.files import load_rules
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress, raw
from tidemark.lake.tables.alerting import ALERTS, INCIDENTS
from tidemark.planning import history
from tidemark.planning.run_plan import plan_run
from tidemark.settings.home import Home

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
    snapshots = [
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
    computed = [{"at": snapshot["at"]} for snapshot in snapshots]
    for table, rows in (
        (raw.SNAPSHOTS, snapshots),
        (progress.GROUPS, groups),
        (progress.SNAPSHOTS, computed),
    ):
        lake.append(table, arrow(table, rows))
    return lake


WINDOW = Window(minute(at(0)), minute(at(100)))


@pytest.fixture
def rules(tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("rules:\n  - {name: lag, kind: lag, threshold: 100, for: 3, clear_for: 5}\n")
    return load_rules(file)


def shown(value):
    """Subject, opening, transitions and observations of incidents."""
    noon = minute(at(0))
    return [
        (
            item.subject,
            (item.opened_at - noon) / timedelta(minutes=1),
            [(one.transition, (one.at - noon) / timedelta(minutes=1)) for one in item.transitions],
            item.observations,
        )
        for item in value
    ]


EXPECTED = [
    (
        "lab/back/orders",
        0,
        # A reopened incident takes twice as long to resolve.
        [("FIRING", 2), ("RESOLVED", 10), ("FIRING_2", 23), ("RESOLVED_2", 40)],
        16,
    ),
    ("lab/late/orders", 3, [("FIRING", 5), ("RESOLVED", 25)], 18),
    # More than an hour later it is another one.
    ("lab/late/orders", 91, [("FIRING", 93)], 9),
]


def test_a_replay_in_pieces_makes_the_same_incidents(past, spark, rules, monkeypatch):
    given = SimpleNamespace(session_for=lambda rows: spark)
    assert shown(rule_evaluation.replay(past, given, rules, WINDOW)) == EXPECTED
    evaluated = []
    monkeypatch.setattr(rule_evaluation, "MOST_ROWS", 30)
    monkeypatch.setattr(
        rule_evaluation, "evaluate", lambda *given: evaluated.append(given[2]) or evaluate(*given)
    )
    assert shown(rule_evaluation.replay(past, given, rules, WINDOW)) == EXPECTED
    assert len(evaluated) == 7, "fifteen snapshots of two groups at a time"


@pytest.fixture
def alerted(past, spark, rules):
    """The past with the alerts of the rules."""
    evaluated = rule_evaluation.evaluated_rules(rules)
    rows = rule_evaluation.read_rows(
        spark, past, evaluated, WINDOW, history.loaded_snapshots(past, WINDOW)
    )
    past.append(ALERTS, evaluate(evaluated, rows, WINDOW).toArrow().cast(ALERTS.arrow_schema()))
    yield past
    for table in (ALERTS, INCIDENTS):
        past.replace(table, WINDOW, [])


@pytest.mark.parametrize(("most_rows", "parts"), [(100_000, 1), (5, 10)])
def test_incidents_catch_up_with_a_past_in_parts(
    alerted, spark, rules, monkeypatch, most_rows, parts
):
    """43 alerts of 100 snapshots: as many at a time as are allowed."""
    lived = []
    advance_incidents = alerting.advance_incidents
    monkeypatch.setattr(rule_evaluation, "MOST_ROWS", most_rows)
    monkeypatch.setattr(
        alerting,
        "advance_incidents",
        lambda *given, **named: lived.append(1) or advance_incidents(*given, **named),
    )
    snapshots = history.loaded_snapshots(alerted, WINDOW)

    def caught_up():
        return alerting.advance_by(alerted, spark, rules, snapshots, snapshots, all_rules=True)

    assert caught_up()[1] == 1, "still open"
    rows = from_rows(alerted.read(INCIDENTS, WINDOW))
    assert sorted(shown(rows)) == EXPECTED
    assert len(lived) == parts
    assert caught_up() == (0, 1)
    assert from_rows(alerted.read(INCIDENTS, WINDOW)) == rows


@pytest.mark.parametrize(
    ("day", "failed", "transitions"),
    [
        (-10, "GET_CONSUMER_CONNECTION_LIST billing", ["FIRING", "RESOLVED"]),
        (-9, "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", ["FIRING"]),
    ],
)
def test_a_deleted_group_is_gone_though_snapshots_are_partial(
    session_home, spark, rules, day, failed, transitions
):
    """The incident of a group that a snapshot may merely have failed to list stays open."""
    lake = Lake(session_home)
    problem = {"endpoint": "10.0.0.1:10911", "operation": failed, "code": 16, "message": "denied"}
    at_all = [day * 1440 + number for number in range(15)]
    header = {"status": "PARTIAL", "brokers_read": ["broker-a"], "problems": [problem]}
    broker = {"broker_id": 0, "address": problem["endpoint"]}
    group = {"consumer_group": "deleted", "topic": "orders", "message_model": "CLUSTERING"}
    group |= {"readable_lag": 500, "complete": True, "online": True}
    for table, rows in (
        (raw.SNAPSHOTS, [header | {"at": at} for at in at_all]),
        (raw.BROKERS, [broker | {"at": at} for at in at_all]),
        (progress.GROUPS, [group | {"at": at} for at in at_all[:5]]),
        (progress.SNAPSHOTS, [{"at": at} for at in at_all]),
    ):
        lake.append(table, arrow(table, rows))
    given = SimpleNamespace(session_for=lambda rows: spark)
    window = Window(minute(at_all[0]), minute(at_all[-1] + 1))
    (incident,) = rule_evaluation.replay(lake, given, rules, window)
    assert [one.transition for one in incident.transitions] == transitions


DAY_OF_FILES = -8 * 1440


@pytest.fixture(scope="module")
def with_files(session_home) -> Lake:
    """Ten minutes of one late group; a store's file of one broker after each snapshot."""
    lake = Lake(session_home)
    observed = [
        (DAY_OF_FILES + number + after, source, lag)
        for number in range(10)
        for after, source, lag in ((0, "remote", 500), (0.5, "store", 5))
    ]
    group = {"consumer_group": "late", "topic": "orders", "message_model": "CLUSTERING"}
    rows = {
        raw.SNAPSHOTS: [
            {"at": at, "source": source, "status": "COMPLETE"} for at, source, _ in observed
        ],
        progress.GROUPS: [
            group | {"at": at, "readable_lag": lag, "complete": True} for at, _, lag in observed
        ],
        progress.SNAPSHOTS: [{"at": at} for at, *_ in observed],
    }
    for table, of_table in rows.items():
        lake.append(table, arrow(table, of_table))
    return lake


def test_files_of_one_broker_change_nothing_of_a_cluster_that_is_observed(with_files, spark, rules):
    """The part of the lag that a store's file shows does not interrupt a rule's time."""
    given = SimpleNamespace(session_for=lambda rows: spark)
    window = Window(minute(DAY_OF_FILES), minute(DAY_OF_FILES + 10))
    (incident,) = rule_evaluation.replay(with_files, given, rules, window)
    assert [(one.transition, one.at) for one in incident.transitions] == [
        ("FIRING", minute(DAY_OF_FILES + 2))
    ]
    assert incident.observations == 10


def test_counters_of_one_log_are_no_former_day_of_a_cluster(with_files, spark):
    """A line of ``stats.log`` counts one broker, so it is not what a group usually receives."""
    name, at, day = "throughput_drop", DAY_OF_FILES + 5, 1440
    hour = {"stats_name": "GROUP_GET_NUMS", "stats_window": "hour", "stats_key": "orders@late"}
    hour |= {"consumer_group": "late", "topic": "orders"}
    former = [(at - number * day, "remote", 100) for number in (1, 2, 3)]
    former += [(at - number * day + 1, "stats_log", 1) for number in (1, 2, 3, 4, 5)]
    snapshots = [{"at": at, "source": source, "status": "COMPLETE"} for at, source, _ in former]
    with_files.append(raw.SNAPSHOTS, arrow(raw.SNAPSHOTS, snapshots))
    counted = [hour | {"at": at, "tps": tps} for at, _, tps in [*former, (at, "remote", 10)]]
    with_files.append(progress.THROUGHPUT, arrow(progress.THROUGHPUT, counted))
    window = Window(minute(DAY_OF_FILES), minute(DAY_OF_FILES + 10))
    known = history.loaded_snapshots(with_files, history.remembered(window))
    rows = rule_evaluation.read_rows(
        spark, with_files, named(name), window, history.whole_clusters(known)
    )
    (row,) = evaluate(named(name), rows, window).collect()
    assert row.value == 0.1


def test_a_replay_skips_rows_older_than_the_computed(tmp_path):
    """An hour that is computed for the first time when the one after it already was."""
    lake = Lake(Home.of(tmp_path))
    snapshots = [{"at": at, "status": "COMPLETE", "cluster": "lab"} for at in (0, 1, 70)]
    snapshots.append({"at": 2, "status": "COMPLETE", "cluster": "west"})
    lake.append(raw.SNAPSHOTS, arrow(raw.SNAPSHOTS, snapshots))

    def fresh():
        plan = plan_run(lake, Window(minute(0), minute(60)))
        return [
            (loaded_snapshot.cluster, loaded_snapshot.observed_at) for loaded_snapshot in plan.new
        ]

    assert fresh() == [("lab", minute(0)), ("lab", minute(1)), ("west", minute(2))]
    lake.append(progress.SNAPSHOTS, arrow(progress.SNAPSHOTS, [{"at": 0, "cluster": "lab"}]))
    assert fresh() == [("lab", minute(1)), ("west", minute(2))]
    lake.append(progress.SNAPSHOTS, arrow(progress.SNAPSHOTS, [{"at": 70, "cluster": "lab"}]))
    assert fresh() == [("west", minute(2))]
