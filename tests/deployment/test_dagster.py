"""Tidemark in a Dagster of the operator: daemon, gRPC code server, instance file of theirs."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import dagster as dg
import pytest

from assets.partitions import partition_key
from tests.support.dagster_processes import ended_backfill, process, until
from tests.support.homes import ROOT, environment, run, warmed
from tests.support.servers import free_port, listens
from tidemark.lake.retention import remember_observed_since
from tidemark.lake.tables import raw
from tidemark.settings.home import Home

CONFIG = """\
# Of the operator, and of nobody else.
run_coordinator:
  module: dagster.core.run_coordinator
  class: QueuedRunCoordinator
concurrency:
  pools: {granularity: run, default_limit: 1}
run_monitoring: {enabled: true}
telemetry: {enabled: false}
"""

LOADED = """
import sys
import orchestration.definitions as found
found.defs
assert "tidemark.embedded.dagster_private" not in sys.modules
assert "tidemark.embedded.event_log" not in sys.modules
assert "tidemark.embedded.launcher" not in sys.modules
"""


@pytest.fixture
def operator(tmp_path):
    """A home of Dagster with an instance file of its own."""
    folder = tmp_path / "dagster"
    folder.mkdir()
    (folder / "dagster.yaml").write_text(CONFIG)
    return folder


@pytest.mark.slow
def test_the_code_location_needs_no_private_module_of_dagster(tmp_path):
    env = environment(Home.of(tmp_path))
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.spark
@pytest.mark.deployment
@pytest.mark.kills
def test_a_scheduled_tick_succeeds_in_an_operators_dagster(tmp_path, operator, spark_engine):
    home, port = Home.of(tmp_path / "home"), free_port()
    home.make()
    (tmp_path / "workspace.yaml").write_text(
        f"load_from: [{{grpc_server: {{host: 127.0.0.1, port: {port}, location_name: tidemark}}}}]"
    )
    with warmed(home, spark_engine) as warm:
        env = environment(
            home,
            DAGSTER_HOME=str(operator),
            TIDEMARK_SCHEDULE="on",
            TIDEMARK_NAMESRV="127.0.0.1:1",
            TIDEMARK_CLUSTER="lab",
        )
        code = ["dagster", "api", "grpc", "-m", "orchestration.definitions"]
        code += ["-h", "127.0.0.1", "-p", str(port)]
        logs = tmp_path / "code.log", tmp_path / "daemon.log"
        with (
            process(code, logs[0], env) as server,
            dg.DagsterInstance.from_config(str(operator)) as instance,
        ):
            until(lambda: listens(port), {server: logs[0]})
            ticks = dg.RunsFilter(job_name="tick", statuses=[dg.DagsterRunStatus.SUCCESS])
            daemon = ["dagster-daemon", "run", "-w", "workspace.yaml"]
            with process(daemon, logs[1], env) as runs:
                both = {server: logs[0], runs: logs[1]}
                (tick, *_) = until(lambda: instance.get_runs(ticks), both)
        rows = warm.lake.read(raw.SNAPSHOTS, columns=("cluster", "status")).to_pylist()
        assert {"cluster": "lab", "status": "FAILED"} in rows
        assert "dagster/max_runtime" in tick.tags
        # The command line records its runs there too.
        before = _runs(operator)
        done = run(home, ["tick", "--no-collect"], 300, DAGSTER_HOME=str(operator))
        assert done.returncode == 0, done.stderr
        assert _runs(operator) == before + 1
    assert (operator / "dagster.yaml").read_text() == CONFIG
    assert not home.dagster.exists()


def _runs(operator):
    with dg.DagsterInstance.from_config(str(operator)) as instance:
        return instance.get_runs_count(dg.RunsFilter(job_name="tick"))


@pytest.mark.spark
@pytest.mark.deployment
@pytest.mark.kills
def test_ticks_and_a_backfill_from_the_ui_take_turns_under_dagster_dev(tmp_path, spark_engine):
    """As the README starts it: daemon and UI share the code server that they are given."""
    home, log = Home.of(tmp_path / "home"), tmp_path / "dev.log"
    home.make()
    with warmed(home, spark_engine) as warm:
        warm.tick()  # which makes the instance file
        remember_observed_since(warm.lake, datetime.now(UTC) - timedelta(days=2))
        env = environment(
            home,
            DAGSTER_HOME=str(home.dagster),
            TIDEMARK_SCHEDULE="on",
            TIDEMARK_NAMESRV="127.0.0.1:1",
            TIDEMARK_CLUSTER="lab",
            TIDEMARK_BACKFILL_HOURS="2",
        )
        port = free_port()
        command = ["dagster", "dev", "-w", str(ROOT / "workspace.yaml"), "-p", str(port)]
        with (
            process(command, log, env) as dev,
            dg.DagsterInstance.from_config(str(home.dagster)) as instance,
        ):
            until(lambda: instance.get_runs(SCHEDULED), {dev: log})
            now = datetime.now(UTC)
            backfill = ended_backfill(
                instance,
                port,
                {dev: log},
                assets=["progress/queues", "progress/groups"],
                partitions=[partition_key(now - timedelta(hours=ago)) for ago in range(24)],
            )
            assert_ticks_have_their_turn(instance, backfill, hours=24)
        rows = warm.lake.read(raw.SNAPSHOTS, columns=("cluster", "status")).to_pylist()
        assert {"cluster": "lab", "status": "FAILED"} in rows


SCHEDULED = dg.RunsFilter(
    job_name="tick",
    statuses=[dg.DagsterRunStatus.SUCCESS],
    tags={"dagster/schedule_name": "every_minute"},
)


def assert_ticks_have_their_turn(instance, backfill, hours):
    """Check that runs of two hours followed each other, with a tick between two of them."""
    assert backfill.status.value == "COMPLETED_SUCCESS"
    parts = instance.get_run_records(dg.RunsFilter(tags={"dagster/backfill": backfill.backfill_id}))
    spans = sorted((part.start_time, part.end_time) for part in parts)
    assert len(spans) == hours / 2
    assert all(ended <= started for (_, ended), (started, _) in pairwise(spans))
    ticks = [tick.end_time for tick in instance.get_run_records(SCHEDULED)]
    assert any(spans[0][0] < ended < spans[-1][1] for ended in ticks), (spans, ticks)


@pytest.mark.slow
def test_an_instance_file_that_a_person_wrote_stays(tmp_path, monkeypatch):
    from orchestration.instance.dagster_home import CONFIG as OURS
    from orchestration.instance.dagster_home import prepare

    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    home = Home.of(tmp_path / "home")
    file = prepare(home) / "dagster.yaml"
    assert file.read_text().startswith(OURS[:20])
    file.write_text(CONFIG)
    assert prepare(home) == home.dagster and os.environ["DAGSTER_HOME"] == str(home.dagster)
    assert file.read_text() == CONFIG
