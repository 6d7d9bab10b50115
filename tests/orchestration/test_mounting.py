"""A Dagster project of somebody else mounts Tidemark beside its own assets."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from assets.dagster_names import PREFIX
from assets.partitions import PARTITION, partition_key
from orchestration.definitions import build
from orchestration.mounting import tidemark_definitions
from spark.session.engine import Engine
from tests.support.cluster_history import PAST, put, rows
from tests.support.homes import DAGSTER, Warm, warmed
from tests.support.strange_project import MODULE, PROJECT, project_environment
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.settings.basics import SettingsError
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

START = floor_hour(datetime.now(UTC)) - 2 * HOUR

LOADED = """
import json
from dagster import AssetKey
from strange.definitions import defs
loaded = defs().get_repository_def()
loaded.load_all_definitions()
SLOW = AssetKey("slow_customers")
print(json.dumps({
    "jobs": loaded.job_names,
    "schedules": [one.name for one in loaded.schedule_defs],
    "sensors": [one.name for one in loaded.sensor_defs],
    "resources": sorted(loaded.get_top_level_resources()),
    "groups": sorted(set(loaded.asset_graph.all_group_names)),
    "assets": [key.to_user_string() for key in loaded.asset_graph.get_all_asset_keys()],
    "parents": [key.to_user_string() for key in loaded.asset_graph.get(SLOW).parent_keys],
}))
"""


def of_project(home: Home, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the project, whose Dagster is that of the home."""
    return subprocess.run(
        list(map(str, command)),
        cwd=PROJECT,
        env=project_environment(home),
        capture_output=True,
        text=True,
        timeout=1500,
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home.of(tmp_path / "home")
    made.make()
    made.dagster.mkdir(parents=True)
    return made


@pytest.mark.slow
def test_the_project_is_valid(home: Home) -> None:
    done = of_project(home, DAGSTER, "definitions", "validate", "-m", MODULE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation successful" in done.stdout + done.stderr


@pytest.mark.slow
def test_both_keep_their_names(home: Home) -> None:
    done = of_project(home, sys.executable, "-c", LOADED)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    own = build(Settings(home=home)).get_repository_def()
    for kind, ours in {
        "schedules": [one.name for one in own.schedule_defs],
        "sensors": [one.name for one in own.sensor_defs],
    }.items():
        assert {PREFIX + name for name in ours} < set(loaded[kind])
    assert {"tick", "audit", f"{PREFIX}tick", f"{PREFIX}audit"} < set(loaded["jobs"])
    assert {"every_minute", f"{PREFIX}every_minute"} < set(loaded["schedules"])
    assert {"watch", f"{PREFIX}watch"} < set(loaded["sensors"])
    assert {"lake", "spark", "run", f"{PREFIX}lake", f"{PREFIX}spark"} < set(loaded["resources"])
    assert {"raw", "progress", f"{PREFIX}raw", f"{PREFIX}progress"} < set(loaded["groups"])
    assert {"landing_pages", "groups", "progress/groups"} < set(loaded["assets"])
    assert loaded["parents"] == ["progress/groups"]


def test_everything_of_ours_has_the_prefix(home: Home) -> None:
    """One name without it would clash with a project that nobody here knows."""
    mounted = tidemark_definitions(home=home.path)
    loaded = mounted.get_repository_def()
    names = {
        *(job.name for job in loaded.get_all_jobs() if not job.name.startswith("__")),
        *(one.name for one in (*loaded.schedule_defs, *loaded.sensor_defs)),
        *loaded.get_top_level_resources(),
        *loaded.asset_graph.all_group_names,
        *(
            pool
            for job in loaded.get_all_jobs()
            for node in job.nodes
            for pool in node.definition.pools
        ),
    }
    assert {name for name in names if not name.startswith(PREFIX)} == set()
    assert (mounted.executor, mounted.loggers) == (None, None)
    assert {job.executor_def.name for job in loaded.get_all_jobs() if PREFIX in job.name} == {
        "in_process"
    }


def test_settings_of_the_project_win(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_HOME", "/nonexistent")
    monkeypatch.setenv("TIDEMARK_BACKFILL_HOURS", "9")
    for given, hours in (({}, 9), ({"backfill_hours": "2"}, 2)):
        graph = tidemark_definitions(home=home.path, settings=given).resolve_asset_graph()
        policy = graph.get(dg.AssetKey(["progress", "groups"])).backfill_policy
        assert policy == dg.BackfillPolicy.multi_run(hours)
    with pytest.raises(SettingsError, match="TIDEMARK_HISTORY is no setting"):
        tidemark_definitions(home=home.path, settings={"history": "7"})


def test_it_is_switched_on_by_the_project(home: Home) -> None:
    for schedule, status in (
        (False, dg.DefaultScheduleStatus.STOPPED),
        (True, dg.DefaultScheduleStatus.RUNNING),
    ):
        loaded = tidemark_definitions(home=home.path, schedule=schedule).get_repository_def()
        assert {one.default_status for one in loaded.schedule_defs} == {status}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory, spark_engine: Engine) -> Iterator[Warm]:
    with warmed(Home.of(tmp_path_factory.mktemp("mounted")), spark_engine) as made:
        put(made.home, START, PAST[:1])
        made.home.dagster.mkdir(parents=True, exist_ok=True)
        yield made


@pytest.mark.spark
def test_a_tick_of_the_project_materializes(warm: Warm) -> None:
    job = ["job", "execute", "-m", MODULE, "-j", f"{PREFIX}tick"]
    tags = json.dumps({PARTITION: partition_key(datetime.now(UTC))})
    done = of_project(warm.home, DAGSTER, *job, "--tags", tags)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {row["snapshot_id"] for row in rows(warm.lake, "progress.snapshots")}
    assert rows(warm.lake, "progress.groups")


@pytest.mark.spark
def test_a_partition_is_computed_again_by_the_executor_of_the_project(warm: Warm) -> None:
    """The project's executor gives each step a process of its own."""
    before = len(rows(warm.lake, "progress.groups"))
    done = of_project(
        warm.home,
        *(DAGSTER, "asset", "materialize", "-m", MODULE),
        *("--select", "progress/queues,progress/groups", "--partition", partition_key(START)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(rows(warm.lake, "progress.groups")) == before
    with dg.DagsterInstance.from_config(str(warm.home.dagster)) as instance:
        (newest,) = instance.get_runs(limit=1)
        done_of = instance.get_materialized_partitions(dg.AssetKey(["progress", "groups"]))
    assert newest.status == dg.DagsterRunStatus.SUCCESS
    assert partition_key(START) in done_of
