"""Old rows, files and logs of Dagster's history are removed; younger ones stay."""

import os
import shutil
import sqlite3
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from assets.dagster_names import process_tags, with_own_keys
from orchestration.instance import runs
from orchestration.instance.dagster_home import prepare
from orchestration.instance.runs import RunHistory, forget_runs, rotate_logs, shrink
from orchestration.resources import resources
from orchestration.sensors import sensors
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

LATER = timedelta(days=8)


@dg.asset(check_specs=[dg.AssetCheckSpec("whole", asset="table")])
def table():
    """A table with a check."""
    sys.stdout.write("written to the log of its step\n")
    yield dg.MaterializeResult(
        metadata={"rows": 1}, check_results=[dg.AssetCheckResult(passed=True)]
    )


JOB = dg.Definitions(
    assets=[table], jobs=[dg.define_asset_job("tick", executor_def=dg.in_process_executor)]
).resolve_job_def("tick")


@dg.asset
def text(context: dg.AssetExecutionContext):
    """A table of which one run can leave as much as twenty of others."""
    return dg.MaterializeResult(metadata={"text": "x" * int(context.run.tags["length"])})


TEXT = dg.Definitions(
    assets=[text], jobs=[dg.define_asset_job("text", executor_def=dg.in_process_executor)]
).resolve_job_def("text")


@pytest.fixture
def home(tmp_path, monkeypatch, dagster_databases):
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setenv("TIDEMARK_HOME", "")
    made = Home.of(tmp_path / "home")
    shutil.copytree(dagster_databases, prepare(made), dirs_exist_ok=True)
    return made


@pytest.fixture
def instance(home):
    with dg.DagsterInstance.get() as instance:
        yield instance


def ran(instance, job=JOB, **tags):
    done = job.execute_in_process(instance=instance, tags=tags)
    assert done.success
    return done.run_id


def files(home):
    """Files of Dagster's home, but for journals, by their path in it."""
    entries = (path for path in home.dagster.rglob("*") if path.is_file())
    names = (str(path.relative_to(home.dagster)) for path in entries)
    return {name for name in names if not name.endswith(("-wal", "-shm"))}


def rows(home, file="history/runs/index.db"):
    """How many rows every table has, but for those that grow with definitions only."""
    fixed = ("secondary_indexes", "alembic_version", "asset_keys", "snapshots", "kvs")
    with closing(sqlite3.connect(home.dagster / file)) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for (name,) in names
            if name not in fixed and not name.startswith("sqlite_")
        }


def test_a_removed_run_leaves_no_row_or_file(home, instance):
    table_rows = [rows(home, file) for file in ("history/runs/index.db", "history/runs.db")]
    before = files(home)
    run_ids = [ran(instance) for _ in range(3)]
    assert all(any(run_id in name for name in files(home)) for run_id in run_ids)
    assert rows(home)["asset_check_executions"] == 3
    assert forget_runs(instance, datetime.now(UTC) + LATER, most=10) == 3
    assert instance.get_runs() == []
    assert files(home) == before
    left = [rows(home, file) for file in ("history/runs/index.db", "history/runs.db")]
    assert left == table_rows


def test_the_oldest_runs_are_removed_first_in_batches(instance):
    run_ids = [ran(instance) for _ in range(3)]
    now = datetime.now(UTC)
    assert forget_runs(instance, now - LATER, most=10) == 0
    assert forget_runs(instance, now + LATER, most=2) == 2
    assert [run.run_id for run in instance.get_runs()] == run_ids[-1:]


def test_a_run_under_way_is_never_forgotten(instance):
    run = instance.create_run_for_job(JOB, status=dg.DagsterRunStatus.STARTED)
    assert forget_runs(instance, datetime.now(UTC) + LATER, most=10) == 0
    assert instance.get_run_by_id(run.run_id)


def test_events_of_no_run_are_forgotten_by_their_age(home, instance):
    instance.report_runless_asset_event(dg.AssetMaterialization("notifications"))
    assert rows(home)["event_logs"] == 1
    forget_runs(instance, datetime.now(UTC) - LATER, most=1)
    assert rows(home)["event_logs"] == 1
    forget_runs(instance, datetime.now(UTC) + LATER, most=1)
    assert rows(home)["event_logs"] == rows(home, "history/runs/.db")["event_logs"] == 0


def test_in_a_shared_instance_runs_of_others_stay(tmp_path, dagster_databases):
    shutil.copytree(dagster_databases, tmp_path, dirs_exist_ok=True)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as shared:
        others = [ran(shared), ran(shared)]
        ours = ran(shared, **process_tags("x"))
        # As many older runs of others as are searched at a time kept ours for ever.
        assert forget_runs(shared, datetime.now(UTC) + LATER, most=2) == 1
        assert sorted(run.run_id for run in shared.get_runs()) == sorted(others)
        assert ours not in others


def size_of(database):
    """Return the bytes of a database, with those of its log, where new pages are at first."""
    return sum(file.stat().st_size for file in database.parent.glob(f"{database.name}*"))


@pytest.mark.slow
def test_a_half_empty_database_is_vacuumed(home, instance, monkeypatch):
    ran(instance, TEXT, length="1000000")
    ran(instance, TEXT, length="1")  # Dagster keeps what the newest run recorded of a table
    path = home.dagster / "history" / "runs" / "index.db"
    assert shrink(home) == []
    forget_runs(instance, datetime.now(UTC) + LATER, most=2)
    assert shrink(home) == [], "there is not enough to win"
    monkeypatch.setattr(runs, "SPARE_BYTES", 0)
    size = size_of(path)
    assert path in shrink(home)
    assert size_of(path) < size
    ran(instance)
    assert len(instance.get_runs()) == 1, "connections that were open go on"


def test_a_log_rotates_while_its_process_writes(home, monkeypatch):
    monkeypatch.setattr(runs, "LOG_BYTES", 10)
    home.engine.mkdir(parents=True)
    small = home.engine / "engine.log"
    small.write_bytes(b"short")
    path = home.dagster / "runs.log"
    with path.open("ab", buffering=0) as log:
        log.write(b"the first line\n")
        assert rotate_logs(home) == [path]
        log.write(b"the next\n")
        assert path.read_bytes() == b"the next\n"
        assert path.with_name("runs.log.1").read_bytes() == b"the first line\n"
        log.write(b"and one more\n")
        assert rotate_logs(home) == [path]
    assert path.with_name("runs.log.1").read_bytes() == b"the next\nand one more\n"
    assert small.read_bytes() == b"short"
    assert rotate_logs(home) == []


@pytest.mark.slow
def test_a_sensor_forgets_what_is_older_than_the_setting(home, instance, monkeypatch):
    monkeypatch.setenv("TIDEMARK_RUN_HISTORY_DAYS", "3")
    made = resources(Settings.read())
    assert made["run_history"] == RunHistory(timedelta(days=3))
    ran(instance)

    *_, tidy = sensors(running=False)

    def reported(age):
        needed = with_own_keys({**made, "run_history": RunHistory(age)})
        needed = {key: needed[key] for key in tidy.required_resource_keys}
        with dg.build_sensor_context(instance=instance, resources=needed) as context:
            return tidy(context).skip_message

    assert reported(timedelta(days=3)) == "0 runs forgotten"
    time.sleep(1.1)  # Dagster compares whole seconds
    assert reported(timedelta(0)) == "1 runs forgotten"
    assert os.environ["TIDEMARK_HOME"] == str(home.path)
