"""The sensors as Dagster evaluates them: faults are found and notified."""

import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import dagster as dg
import pytest
from msgspec.structs import replace

from assets.dagster_names import job_tags, with_own_keys
from assets.resources import (
    CollectorResource,
    LakeResource,
    ObjectivesResource,
    QualityResource,
    RulesResource,
)
from orchestration.jobs import TICK
from orchestration.sensors import sensors
from tests.support.notification_servers import heartbeats, serve
from tests.support.notified_incidents import incident
from tidemark.alerting.incidents.repository import OBJECTIVE_REMOVED, advance_incidents, save
from tidemark.alerting.incidents.self_monitoring import check_pipeline
from tidemark.alerting.rules.files import DEFAULT_RULES, load_rules
from tidemark.lake.catalog import Lake
from tidemark.lake.tables.alerting import INCIDENTS, NOTIFICATIONS
from tidemark.lake.tables.progress import SNAPSHOTS
from tidemark.lake.tables.quality import RESULTS
from tidemark.settings.environment import Settings

notify, watch, _ = sensors(running=False)


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def evaluate(
    sensor, lake, instance, rules=DEFAULT_RULES, cursor=None, suites="", objectives="none"
):
    resources = {
        "lake": LakeResource(home=str(lake.home.path)),
        "alert_rules": RulesResource(path=str(rules)),
        "collector": CollectorResource(),
        "quality_settings": QualityResource(path="", folder=str(suites)),
        "objectives": ObjectivesResource(path=str(objectives)),
        "notification_settings": Settings.read().notifications,
    }
    with dg.build_sensor_context(
        instance=instance, resources=with_own_keys(resources), cursor=cursor
    ) as context:
        return sensor(context)


def stopped(lake) -> None:
    """A collection that stopped a quarter of an hour ago."""
    at = datetime.now(UTC) - timedelta(minutes=15)
    lake.append(SNAPSHOTS, [{"snapshot_id": "s", "observed_at": at, "cluster": "lab"}])


def test_a_stopped_collection_is_notified_once(lake, instance, monkeypatch):
    stopped(lake)
    assert "1 found, 1 incidents changed" in evaluate(watch, lake, instance).skip_message
    with serve() as hook:
        monkeypatch.setenv("TIDEMARK_NOTIFY_URLS", f"{hook.url} nosuch://s3cret")
        result = evaluate(notify, lake, instance)
        assert [event.metadata["delivered"].value for event in result.asset_events] == [1]
        assert "delivered 0" in evaluate(notify, lake, instance).skip_reason.skip_message
    (message,) = hook.received
    assert message["title"] == "[critical] FIRING collection-late: lab"
    rows = lake.read(NOTIFICATIONS).to_pylist()
    assert {(row["transition"], row["status"]) for row in rows} == {("FIRING", "DELIVERED")}
    assert len(rows) == 2, "the log and the webhook; the bad address silenced neither"


def test_a_removed_cluster_leaves_no_incident(lake, instance):
    stopped(lake)
    file = lake.home.path / "clusters.yaml"
    west = "- {name: west, namesrv: 10.0.0.2:9876}\n"
    file.write_text("clusters:\n- {name: lab, namesrv: 10.0.0.1:9876}\n" + west)
    assert "1 found, 1 incidents changed" in evaluate(watch, lake, instance).skip_message
    file.write_text("clusters:\n" + west)
    assert "0 found, 1 incidents changed" in evaluate(watch, lake, instance).skip_message
    assert "0 found, 0 incidents changed" in evaluate(watch, lake, instance).skip_message
    (row,) = lake.read(INCIDENTS).to_pylist()
    assert (row["rule"], row["state"]) == ("collection-late", "RESOLVED")


RULES = load_rules(DEFAULT_RULES)


def test_incidents_of_removed_expectations_close(lake, instance, tmp_path):
    """Without a result, what is built in waits for one; what a person removed gets none."""
    row = {"table": "raw.topics", "success": False, "unexpected": 7, "elements": 9}
    names = ("perm_in_0_to_7", "is_ours")
    for number in range(3):
        at = datetime.now(UTC) - timedelta(minutes=90 - number)
        lake.append(
            RESULTS,
            [row | {"expectation": name, "observed_at": at, "judged_until": at} for name in names],
        )
        failing = check_pipeline(lake, RULES, {}, at + timedelta(seconds=1), at)
        advance_incidents(lake, [failing], RULES, all_rules=True)
    assert states(lake) == dict.fromkeys(names, "FIRING")
    suite = tmp_path / "suites" / "raw.topics.json"
    suite.parent.mkdir()
    ours = {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "topic"},
        "meta": {"name": "is_ours"},
    }
    for text in ("{", json.dumps({"expectations": [ours]})):
        suite.write_text(text)
        evaluate(watch, lake, instance, suites=suite.parent)
        assert states(lake) == dict.fromkeys(names, "FIRING")
    suite.write_text(json.dumps({"expectations": [ours | {"meta": {"name": "renamed"}}]}))
    evaluate(watch, lake, instance, suites=suite.parent)
    assert states(lake) == {"perm_in_0_to_7": "FIRING", "is_ours": "RESOLVED"}


def states(lake) -> dict[str, str]:
    """State by expectation."""
    rows = lake.read(INCIDENTS).to_pylist()
    return {row["subject"].split("/")[1]: row["state"] for row in rows if row["kind"] == "quality"}


def test_a_stuck_run_queue_is_an_incident(lake, instance):
    stopped(lake)
    job = dg.JobDefinition(name=TICK.name, graph_def=dg.GraphDefinition(name=TICK.name))
    for status in (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.NOT_STARTED):
        instance.create_run_for_job(job, status=status)
    evaluate(watch, lake, instance)
    (row,) = lake.read(INCIDENTS).to_pylist()
    assert (row["rule"], row["subject"], row["state"]) == ("collection-late", "lab", "FIRING")


def test_a_first_tick_that_never_starts_is_found(lake, instance):
    long_ago = datetime.now(UTC) - timedelta(minutes=6)
    resources = {
        "lake": LakeResource(home=str(lake.home.path)),
        "alert_rules": RulesResource(path=str(DEFAULT_RULES)),
        "collector": CollectorResource(),
        "quality_settings": QualityResource(path=""),
        "objectives": ObjectivesResource(path="none"),
    }
    with dg.build_sensor_context(instance=instance, resources=with_own_keys(resources)) as context:
        watch(context)
        assert lake.read(INCIDENTS).num_rows == 0
        assert context.cursor, "it remembers since when it has watched"
        context.update_cursor(long_ago.isoformat())
        watch(context)
    (row,) = lake.read(INCIDENTS).to_pylist()
    assert (row["rule"], row["subject"], row["state"]) == ("collection-late", "tidemark", "FIRING")


def test_a_wrong_digest_setting_delays_no_notification(lake, instance, monkeypatch):
    stopped(lake)
    evaluate(watch, lake, instance)
    with serve() as hook, serve() as digest:
        monkeypatch.setenv("TIDEMARK_NOTIFY_URLS", hook.url)
        monkeypatch.setenv("TIDEMARK_DIGEST_URLS", digest.url)
        monkeypatch.setenv("TIDEMARK_DIGEST_EVERY", "soon")
        evaluate(notify, lake, instance)
        message = evaluate(notify, lake, instance).skip_reason.skip_message
    assert message.startswith(
        "delivered 0; TIDEMARK_DIGEST_EVERY: a duration is wanted, e.g. 90s, 5m"
    )
    assert (len(hook.received), digest.received) == (1, [])
    waiting = [row for row in lake.read(NOTIFICATIONS).to_pylist() if row["status"] == "PENDING"]
    (row,) = waiting
    assert row["channel"].startswith("digest-json-")
    assert row["next_attempt_at"].strftime("%H:%M:%S") == "00:00:00"


def test_incidents_in_quiet_hours_wait_for_the_digest(lake, instance, monkeypatch, tmp_path):
    (tmp_path / "rules.yaml").write_text(
        "rules:\n  - {name: late, kind: collection_late, threshold: 5m, "
        'quiet_hours: {from: "00:00", to: "00:00"}}\n'
    )
    stopped(lake)
    evaluate(watch, lake, instance, tmp_path)
    with serve() as hook:
        monkeypatch.setenv("TIDEMARK_NOTIFY_URLS", hook.url)
        monkeypatch.setenv("TIDEMARK_DIGEST_URLS", hook.url)
        evaluate(notify, lake, instance, tmp_path)
    rows = lake.read(NOTIFICATIONS).to_pylist()
    assert {row["channel"].split("-")[0]: row["last_error"] for row in rows} == {
        "log": "in quiet hours",
        "json": "in quiet hours",
        "digest": None,
    }


@pytest.mark.parametrize("name", ["tick", "maintain", "audit"])
def test_runs_that_fail_are_found_until_one_succeeds(name, lake, instance):
    job = dg.JobDefinition(name=name, graph_def=dg.GraphDefinition(name=name))
    for status in (dg.DagsterRunStatus.SUCCESS, *[dg.DagsterRunStatus.FAILURE] * 2):
        instance.create_run_for_job(job, status=status, tags=job_tags(name))
    evaluate(watch, lake, instance)
    (row,) = lake.read(INCIDENTS).to_pylist()
    assert (row["rule"], row["subject"]) == ("runs-failing", name)
    assert (row["state"], row["last_value"]) == ("FIRING", 2)
    instance.create_run_for_job(job, status=dg.DagsterRunStatus.SUCCESS, tags=job_tags(name))
    evaluate(watch, lake, instance)
    (row,) = lake.read(INCIDENTS).to_pylist()
    assert row["state"] == "RESOLVED"


def test_a_history_that_is_gone_resolves_nothing(lake, instance):
    """Somebody removed Dagster's storage: that no failure is known is no success."""
    job = dg.JobDefinition(name=TICK.name, graph_def=dg.GraphDefinition(name=TICK.name))
    for _ in range(2):
        instance.create_run_for_job(
            job, status=dg.DagsterRunStatus.FAILURE, tags=job_tags(TICK.name)
        )
    evaluate(watch, lake, instance)
    with dg.DagsterInstance.ephemeral() as new:
        for _ in range(2):
            evaluate(watch, lake, new)
            (row,) = lake.read(INCIDENTS).to_pylist()
            assert (row["rule"], row["state"]) == ("runs-failing", "FIRING")
            new.create_run_for_job(
                job, status=dg.DagsterRunStatus.FAILURE, tags=job_tags(TICK.name)
            )
        new.create_run_for_job(job, status=dg.DagsterRunStatus.SUCCESS, tags=job_tags(TICK.name))
        evaluate(watch, lake, new)
    (row,) = lake.read(INCIDENTS).to_pylist()
    assert row["state"] == "RESOLVED"


def test_a_wrong_rule_is_reported_and_resolves_no_incident(lake, instance, tmp_path):
    stopped(lake)
    evaluate(watch, lake, instance)
    (tmp_path / "rules.yaml").write_text("rules:\n  - {name: collection-late, kind: late}\n")
    message = evaluate(watch, lake, instance, tmp_path / "rules.yaml").skip_message
    assert "rules.yaml:2: rules[0].kind: unknown kind 'late'" in message
    (row,) = lake.read(INCIDENTS).to_pylist()
    assert row["state"] == "FIRING"


def test_a_group_without_an_objective_burns_no_budget(lake, instance, tmp_path):
    """Its burn rate is unknown from then on, which would keep the incident open for ever."""
    burning = replace(
        incident(("FIRING", 0)), rule="budget-burning", kind="burn_rate", incident_id="burning"
    )
    save(lake, [], [burning, incident(("FIRING", 0))])
    file = tmp_path / "objectives.yaml"
    entry = (
        "objectives:\n- {{name: on-time, match: {{consumer_group: {group}}}, delay: 30s, "
        "target: 99%, window: 30d}}\n"
    )

    def states():
        evaluate(watch, lake, instance, objectives=file)
        return {row["kind"]: row["state"] for row in lake.read(INCIDENTS).to_pylist()}

    file.write_text(entry.format(group="billing"))
    assert states() == {"burn_rate": "FIRING", "lag": "FIRING"}
    file.write_text("objectives: [{name: on-time}]\n")
    assert states() == {"burn_rate": "FIRING", "lag": "FIRING"}, "a mistake withdraws nothing"
    file.write_text(entry.format(group="audit"))
    assert states() == {"burn_rate": "RESOLVED", "lag": "FIRING"}
    (row,) = [row for row in lake.read(INCIDENTS).to_pylist() if row["kind"] == "burn_rate"]
    assert json.loads(row["evidence"])["closed"] == OBJECTIVE_REMOVED


def test_an_idle_evaluation_reads_no_whole_table(lake, instance, monkeypatch):
    stopped(lake)
    evaluate(watch, lake, instance)
    evaluate(notify, lake, instance)
    names, read = [], Lake.read

    def counted(self, table, where=None, *options, **named):
        if where is None:
            names.append(table.name)
        return read(self, table, where, *options, **named)

    monkeypatch.setattr(Lake, "read", counted)
    for _ in range(3):
        assert "delivered 0" in evaluate(notify, lake, instance).skip_reason.skip_message
    assert names == []
    lake.upsert(NOTIFICATIONS, lake.read(NOTIFICATIONS))
    names.clear()
    evaluate(notify, lake, instance)
    assert names == [NOTIFICATIONS.name], "another process has written"


@pytest.mark.parametrize("name", ["tick", "maintain", "audit"])
def test_runs_of_other_pipelines_of_that_name_are_left_alone(name, lake, instance, heart):
    job = dg.JobDefinition(name=name, graph_def=dg.GraphDefinition(name=name))
    for _ in range(2):
        instance.create_run_for_job(job, status=dg.DagsterRunStatus.FAILURE)
    evaluate(watch, lake, instance)
    assert lake.read(INCIDENTS).num_rows == 0
    evaluate(notify, lake, instance)
    assert heart == ["/s3cret-uuid"], "of the delivery; no tick of ours has failed"


@pytest.fixture
def heart(monkeypatch):
    with heartbeats() as (url, called):
        monkeypatch.setenv("TIDEMARK_HEARTBEAT_URL", url)
        yield called


def ended(instance, status: dg.DagsterRunStatus) -> str:
    """A tick that ended; return its id."""
    run = dg.DagsterRun(
        job_name=TICK.name, run_id=str(uuid4()), status=status, tags=job_tags(TICK.name)
    )
    instance.add_run(run)
    return run.run_id


def test_deliveries_send_heartbeats_of_success_and_failure(lake, instance, monkeypatch, heart):
    evaluate(notify, lake, instance)
    assert heart == ["/s3cret-uuid"]
    stopped(lake)
    evaluate(watch, lake, instance)
    with serve() as hook:
        hook.status = 500
        monkeypatch.setenv("TIDEMARK_NOTIFY_URLS", hook.url)
        evaluate(notify, lake, instance)
    assert heart[1:] == ["/s3cret-uuid/fail"]


def test_a_file_that_cannot_be_read_is_a_failure(lake, instance, heart, tmp_path):
    """It may hold the routes, so everybody is notified until somebody mends it."""
    (tmp_path / "routes.yaml").write_text("routes: {receiver: default\n")
    result = evaluate(notify, lake, instance, rules=tmp_path)
    assert "routes.yaml:2: not YAML" in result.skip_reason.skip_message
    assert heart == ["/s3cret-uuid/fail"]


def test_a_delivery_that_raises_sends_a_sign_of_failure(lake, instance, monkeypatch, heart):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the catalog is locked")

    monkeypatch.setattr("orchestration.sensors.deliver", broken)
    with pytest.raises(RuntimeError):
        evaluate(notify, lake, instance)
    assert heart == ["/s3cret-uuid/fail"]


def test_every_tick_that_ended_sends_its_sign(lake, instance, heart):
    run_id = ended(instance, dg.DagsterRunStatus.SUCCESS)
    evaluate(notify, lake, instance)
    assert heart == ["/s3cret-uuid"] * 2, "the tick and the delivery"
    evaluate(notify, lake, instance, cursor=run_id)
    assert heart == ["/s3cret-uuid"] * 3, "the same tick only once"
    ended(instance, dg.DagsterRunStatus.FAILURE)
    evaluate(notify, lake, instance, cursor=run_id)
    assert heart[3:] == ["/s3cret-uuid/fail", "/s3cret-uuid"]


def test_nobody_who_listens_stops_no_delivery(lake, instance, monkeypatch):
    monkeypatch.setenv("TIDEMARK_HEARTBEAT_URL", "http://127.0.0.1:9/s3cret")
    result = evaluate(notify, lake, instance).skip_reason.skip_message
    assert "TIDEMARK_HEARTBEAT_URL: no connection: ConnectionError" in result
    assert "s3cret" not in result


@pytest.mark.parametrize(
    ("cursor", "since"),
    [
        ("2026-11-19T08:00:00+00:00", datetime(2026, 11, 19, 8, tzinfo=UTC)),
        ("2026-11-19T08:00", datetime(2026, 11, 19, 8, tzinfo=UTC)),
        ("2999-01-01T00:00+00:00", None),
        ("yesterday", None),
    ],
)
def test_a_cursor_that_a_person_edits_stops_no_watch(lake, instance, cursor, since):
    """The Dagster UI lets people write anything into it."""
    before = datetime.now(UTC)
    resources = {
        "lake": LakeResource(home=str(lake.home.path)),
        "alert_rules": RulesResource(path=str(DEFAULT_RULES)),
        "collector": CollectorResource(),
        "quality_settings": QualityResource(path=""),
        "objectives": ObjectivesResource(path="none"),
    }
    with dg.build_sensor_context(
        instance=instance, resources=with_own_keys(resources), cursor=cursor
    ) as context:
        watch(context)
        kept = datetime.fromisoformat(context.cursor)
    assert kept == since if since else before <= kept <= datetime.now(UTC)
