"""The job of weekly reports: it starts where one is due, sends it, and is in nobody's way."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.dagster_names import PREFIX, job_tags, process_tags
from orchestration.definitions import build
from orchestration.jobs import REPORT, every_minute, is_at_work, meanwhile
from orchestration.resources import resources
from tests.support.board_home import group, rows_of
from tests.support.homes import environment
from tests.support.notification_servers import serve
from tidemark.alerting.delivery.reports import Sent, sent_reports
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress
from tidemark.settings.environment import Settings


@pytest.fixture
def instance(tmp_path: Path, dagster_databases: Path) -> Iterator[dg.DagsterInstance]:
    folder = tmp_path / "dagster"
    shutil.copytree(dagster_databases, folder)
    with dg.DagsterInstance.local_temp(str(folder)) as made:
        yield made


@pytest.fixture
def settings(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in environment(lake.home, TIDEMARK_RULES=str(tmp_path / "rules.yaml")).items():
        monkeypatch.setenv(name, value)
    return Settings.read()


def started(settings: Settings, instance: dg.DagsterInstance) -> bool:
    """Return whether the schedule starts the job."""
    schedule = build(settings).get_schedule_def("report_when_due")
    with dg.build_schedule_context(
        instance=instance,
        resources={PREFIX + name: resources(settings)[name] for name in ("lake", "alert_rules")},
        scheduled_execution_time=datetime.now(UTC),
    ) as context:
        return bool(schedule.evaluate_tick(context).run_requests)


@pytest.mark.slow
def test_a_report_is_sent_once_by_the_job(
    settings: Settings, lake: Lake, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    at = datetime.now(UTC) - timedelta(days=5)
    lake.append(progress.SNAPSHOTS, rows_of(progress.SNAPSHOTS, at, [{}]))
    lake.append(progress.GROUPS, rows_of(progress.GROUPS, at, [group("mailer")]))
    day = f"{datetime.now(UTC) - timedelta(days=1):%A}".lower()
    with serve() as hook:
        rules = tmp_path / "rules.yaml"
        rules.write_text("inhibit: []\n")
        assert not started(settings, instance), "no report is declared"
        rules.write_text(
            f"receivers:\n- {{name: chat, webhook: ['{hook.http}']}}\n"
            f"reports:\n- {{receiver: chat, at: '{day} 00:00'}}\n"
        )
        assert started(settings, instance), "it is new"
        job = build(settings).resolve_job_def(REPORT)
        assert job.execute_in_process(instance=instance).success
        assert hook.received == [] and not started(settings, instance), "it was due before"
        # As if the schedule had been written two days ago.
        (key,) = sent_reports(lake.shared.state)
        since = Sent(since=datetime.now(UTC) - timedelta(days=2))
        lake.shared.state.write("reports.json", _encoded({key: since}))
        assert started(settings, instance)
        assert job.execute_in_process(instance=instance).success
        assert not started(settings, instance)
        assert job.execute_in_process(instance=instance).success
        (document,) = hook.received
    assert list(document["report"]["unobserved_seconds"]) in ([], ["shop"])


def _encoded(sent: dict[str, Sent]) -> str:
    import msgspec

    return msgspec.json.encode(sent).decode()


def test_a_report_keeps_no_tick_waiting(instance: dg.DagsterInstance) -> None:
    made = dg.JobDefinition(name=REPORT, graph_def=dg.GraphDefinition(name=REPORT))
    run = instance.create_run_for_job(
        made, tags=job_tags(REPORT), status=dg.DagsterRunStatus.STARTED
    )
    instance.add_run_tags(run.run_id, process_tags(run.run_id))
    instance.report_dagster_event(
        dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, REPORT), run.run_id
    )
    assert not is_at_work(instance, datetime.now(UTC))
    at = datetime.now(UTC) + timedelta(minutes=1)
    with dg.build_schedule_context(instance=instance, scheduled_execution_time=at) as context:
        assert isinstance(every_minute(context), dg.RunRequest)
        assert isinstance(meanwhile(context), dg.SkipReason)
