"""Metrics of Tidemark's own, of groups and of itself."""

import pyarrow as pa
import pytest

from tests.support.scrape import metrics_of, scraped, value
from tests.support.table_rows import arrow, minute
from tidemark.board.metrics.endpoint import Facts, Metrics
from tidemark.lake.tables import alerting, progress, raw
from tidemark.model.health import Health
from tidemark.settings.sections import MetricsSettings


def groups(**columns):
    row = {"at": 1, "consumer_group": "g", "topic": "t", "complete": True}
    return {"progress.groups": arrow(progress.GROUPS, [row | columns])}


def test_numbers_of_a_group():
    samples = metrics_of(
        groups(lost=3, filtered_lag=40, drain_seconds=1.5, loss_in_seconds=60.0, delay_ms=2500)
    )
    labels = {"cluster": "lab", "consumer_group": "g", "topic": "t"}
    for name, number in {
        "lost_messages": 3,
        "filtered_lag_messages": 40,
        "drain_seconds": 1.5,
        "loss_in_seconds": 60,
        "delay_seconds": 2.5,
    }.items():
        assert samples[f"tidemark_group_{name}"] == {frozenset(labels.items()): number}
    assert "tidemark_group_lag_messages" not in samples


def test_numbers_of_brokers():
    row = {"at": 1, "broker": "broker-a", "broker_id": 1, "address": "a:2", "send_wait_ms": 150}
    row |= {"replica_behind_ms": 90_000, "replica_behind_is_lower_bound": True}
    samples = metrics_of({"raw.brokers": arrow(raw.BROKERS, [row])})
    labels = frozenset({"cluster": "lab", "broker": "broker-a", "broker_id": "1"}.items())
    numbers = {name: values[labels] for name, values in samples.items() if "_broker_" in name}
    assert numbers == {
        "tidemark_broker_send_wait_seconds": 0.15,
        "tidemark_broker_replica_behind_seconds": 90,
        "tidemark_broker_replica_behind_is_lower_bound": 1,
    }


def dead_letters(**columns):
    row = {"at": 90, "topic": "%DLQ%g", "messages": 4, "added_last_hour": 1, "complete": True}
    row |= {"oldest_at": minute(0), "newest_at": minute(88), "oldest_at_is_upper_bound": False}
    samples = metrics_of({"progress.topics": arrow(progress.TOPICS, [row | columns])})
    prefix = "tidemark_dead_letter_"
    labels = frozenset({"cluster": "lab", "consumer_group": "g"}.items())
    return {
        name.removeprefix(prefix): values[labels]
        for name, values in samples.items()
        if name.startswith(prefix)
    }


def test_dead_letters_of_a_group():
    ages = {"oldest_seconds": 5400, "oldest_is_lower_bound": 0, "newest_seconds": 120}
    assert dead_letters() == {"messages": 4, "added_last_hour": 1} | ages
    assert dead_letters(oldest_at_is_upper_bound=True)["oldest_is_lower_bound"] == 1


def test_dead_letters_that_are_unknown_have_no_sample():
    assert dead_letters(complete=False) == {}
    assert dead_letters(messages=0, added_last_hour=None, oldest_at=None) == {"messages": 0}


def test_objectives_of_the_newest_hour():
    row = {"consumer_group": "g", "topic": "t", "objective": "on-time", "target": 0.995}
    row |= {"bad": 2, "bad_before": 52, "unknown": 1, "unknown_before": 0, "budget_left": 0.75}
    rows = [
        row | {"at": 60, "hour": minute(60), "burn_rate_1h": None, "burn_rate_6h": 0.25},
        row | {"at": 59, "hour": minute(0), "burn_rate_1h": 9.0, "burn_rate_6h": 9.0},
    ]
    samples = metrics_of({"progress.objectives": arrow(progress.OBJECTIVES, rows)})
    prefix = "tidemark_objective_"
    values = {
        name.removeprefix(prefix): list(by_labels.values())
        for name, by_labels in samples.items()
        if name.startswith(prefix)
    }
    assert values == {
        "target_ratio": [0.995],
        "budget_left_ratio": [0.75],
        "burn_rate_6h": [0.25],
        "bad_seconds": [54 * 60],
        "unknown_seconds": [60],
    }


def test_one_state_of_health_is_one():
    samples = metrics_of(groups(health="STALLED", complete=False))
    numbers = {
        dict(labels)["state"]: number for labels, number in samples["tidemark_group_health"].items()
    }
    assert numbers == {state: float(state == "STALLED") for state in Health}


def test_every_declared_state_of_health_is_exported():
    comment = next(c.comment for c in progress.HEALTH if c.name == "health")
    assert set(comment.split(" | ")) == set(Health)


def test_health_that_is_unknown_has_no_state():
    assert "tidemark_group_health" not in metrics_of(groups(health=None))


def test_queue_metrics_are_off_by_default():
    row = {"at": 1, "consumer_group": "g", "topic": "t", "queue_id": 3, "lag": 9}
    tables = {"progress.queues": arrow(progress.QUEUES, [row])}
    assert value(metrics_of(tables), "tidemark_queue_lag_messages", queue_id="3") == 9
    off = metrics_of(tables, settings=MetricsSettings())
    assert not [name for name in off if name.startswith("tidemark_queue")]


@pytest.mark.parametrize(
    ("family", "prefix"),
    [("native", "rocketmq_consumer_lag"), ("exporter", "rocketmq_group"), ("own", "tidemark_")],
)
def test_each_family_has_a_switch(family, prefix):
    tables = groups(lag=1, health="OK")
    on = metrics_of(tables, settings=MetricsSettings())
    off = metrics_of(tables, settings=MetricsSettings(**{family: False}))
    assert [name for name in on if name.startswith(prefix)]
    assert not [name for name in off if name.startswith(prefix)]


def test_incidents_by_cluster_state_severity_and_rule():
    """One of Tidemark itself has no cluster."""
    same = {"rule": "lag-high", "severity": "warning", "cluster": "orders"}
    rows = [
        same | {"incident_id": str(number), "state": state}
        for number, state in enumerate(["FIRING", "FIRING", "ACKNOWLEDGED", "RESOLVED"])
    ]
    rows.append(same | {"incident_id": "4", "state": "FIRING", "cluster": None})
    names = alerting.INCIDENTS.column_names
    table = (
        alerting.INCIDENTS.arrow_schema()
        .empty_table()
        .from_pylist(
            [{name: row.get(name) for name in names} for row in rows],
            schema=alerting.INCIDENTS.arrow_schema(),
        )
    )
    samples = metrics_of({"alerting.incidents": table})
    labels = {"state": "FIRING", "severity": "warning", "rule": "lag-high", "cluster": "orders"}
    assert samples["tidemark_incidents"][frozenset(labels.items())] == 2
    assert value(samples, "tidemark_incidents", state="FIRING", cluster="") == 1
    assert value(samples, "tidemark_incidents", state="ACKNOWLEDGED") == 1
    assert value(samples, "tidemark_incidents", state="RESOLVED") is None


def snapshots(*problems_by_minute):
    problem = {"endpoint": "e", "operation": "o", "code": None, "message": "m"}
    return {
        "raw.snapshots": arrow_of_snapshots(
            [
                {"at": at, "duration_ms": 250, "problems": [problem] * count}
                for at, count in problems_by_minute
            ]
        )
    }


def arrow_of_snapshots(rows):
    full = [{"observed_at": minute(row["at"]), "cluster": "lab", **row} for row in rows]
    names = raw.SNAPSHOTS.column_names
    return pa.Table.from_pylist(
        [{name: row.get(name) for name in names} for row in full],
        schema=raw.SNAPSHOTS.arrow_schema(),
    )


def test_of_itself():
    computed = {"progress.snapshots": arrow(progress.SNAPSHOTS, [{"at": 0}, {"at": 1}])}
    facts = Facts(version="1.2.3", table_rows={"raw.brokers": 4}, tick_seconds=8.5)
    metrics = Metrics(MetricsSettings())
    metrics.refresh(computed | snapshots((1, 2)), facts)
    samples = scraped(metrics.page(now=minute(3)).body.decode())
    assert value(samples, "tidemark_snapshot_age_seconds", cluster="lab") == pytest.approx(120)
    assert value(samples, "tidemark_collect_duration_seconds", cluster="lab") == 0.25
    assert value(samples, "tidemark_collect_problems_total", cluster="lab") == 2
    assert value(samples, "tidemark_tick_duration_seconds") == 8.5
    assert value(samples, "tidemark_rows", table="raw.brokers") == 4
    assert value(samples, "tidemark_build_info", version="1.2.3") == 1


def test_age_grows_between_refreshes():
    metrics = Metrics(MetricsSettings())
    metrics.refresh({"progress.snapshots": arrow(progress.SNAPSHOTS, [{"at": 0}])}, Facts())
    for later in (1, 2):
        samples = scraped(metrics.page(now=minute(later)).body.decode())
        assert value(samples, "tidemark_snapshot_age_seconds") == pytest.approx(later * 60)


def test_counters_never_fall():
    """A snapshot counts once, and stays counted when retention removes it."""
    metrics = Metrics(MetricsSettings())
    entries = []
    for at_and_problems in ([(1, 2)], [(1, 2), (2, 1)], [(2, 1)], [(3, 0)]):
        metrics.refresh(snapshots(*at_and_problems), Facts())
        samples = scraped(metrics.page().body.decode())
        entries.append(value(samples, "tidemark_collect_problems_total"))
    assert entries == [2, 3, 3, 3]


def test_notifications_by_what_became_of_them():
    def sent(*rows):
        names = alerting.NOTIFICATIONS.column_names
        return {
            "alerting.notifications": pa.Table.from_pylist(
                [{name: {"channel": "mail", **row}.get(name) for name in names} for row in rows],
                schema=alerting.NOTIFICATIONS.arrow_schema(),
            )
        }

    metrics = Metrics(MetricsSettings())
    metrics.refresh(sent({"status": "PENDING", "attempts": 2}), Facts())
    metrics.refresh(sent({"status": "DELIVERED", "attempts": 3}), Facts())
    metrics.refresh(sent(), Facts())
    samples = scraped(metrics.page().body.decode())
    assert value(samples, "tidemark_notifications_total", outcome="delivered") == 1
    assert value(samples, "tidemark_notifications_total", outcome="failed") == 2
    assert value(samples, "tidemark_notifications_total", outcome="withheld") == 0
