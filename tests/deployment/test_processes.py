"""The processes of the compose file, started from the wheel by a user without rights.

PostgreSQL and the object store are real, brokers are a stand-in. Each process has a home of its
own, as on a host of its own: they share PostgreSQL and the bucket. The user may write to that home
and to /tmp only, as in a container whose root file system is read-only.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from bench import standin
from tests.support.cluster_history import COMPUTED, rows
from tests.support.command_lines import DEPLOY
from tests.support.homes import warmed
from tests.support.image_host import BOARD_TOKEN, PREFIX, TOKEN, Host, host, ready
from tests.support.servers import PASSWORD, Bucket, postgresql
from tests.support.wheel import installed_wheel
from tidemark.lab.large import Large
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.tables.progress import SNAPSHOTS
from tidemark.settings.home import Home
from tidemark.settings.sections import CatalogSettings, ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.wheel, pytest.mark.deployment]

LARGE = Large(topics=2, queues=2, groups=2, topics_per_group=2)


@pytest.fixture(scope="module")
def started(tmp_path_factory, store):
    """All processes of the compose file, started and ready."""
    programs = installed_wheel(tmp_path_factory)
    with (
        postgresql(tmp_path_factory.mktemp("postgresql") / "server") as uri,
        standin.serve(LARGE, brokers=1) as namesrv,
        host(programs, uri, namesrv, store) as made,
    ):
        make_dagsters_database(uri)
        jars = made.folder / "jars"
        fetched = subprocess.run(
            [programs / "tidemark", "engine", "jars", jars], capture_output=True, text=True
        )
        assert fetched.returncode == 0, fetched.stderr
        made.start("collector", "engine", "code", "board")
        ready(made, "code", lambda: made.run("dagster", "api", "grpc-health-check", "-p", "4000"))
        made.start("daemon", "webserver")
        yield made


def make_dagsters_database(uri: str) -> None:
    import psycopg2

    connection = psycopg2.connect(uri)
    connection.autocommit = True
    connection.cursor().execute("CREATE DATABASE dagster")
    connection.close()


def get(address: str, **headers: str) -> bytes:
    request = urllib.request.Request(address, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.read()


def queried(made: Host, query: str) -> dict:
    """The response of Dagster's web server."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{made.ports['3000']}/graphql",
        data=json.dumps({"query": query}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())["data"]


def runs_of(made: Host) -> list[dict]:
    return queried(made, "{runsOrError(limit: 50) {... on Runs {results {jobName status}}}}")[
        "runsOrError"
    ]["results"]


def test_the_web_server_shows_the_code_servers_definitions(started):
    port = started.ports["3000"]
    ready(started, "webserver", lambda: get(f"http://127.0.0.1:{port}/server_info"))
    query = "{repositoriesOrError {... on RepositoryConnection {nodes {jobs {name}}}}}"
    (repository,) = queried(started, query)["repositoriesOrError"]["nodes"]
    assert {"tick", "collect"} <= {job["name"] for job in repository["jobs"]}


def test_the_code_server_responds_to_the_probe_of_a_platform(started):
    import grpc
    from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
    from grpc_health.v1.health_pb2_grpc import HealthStub

    chart = (DEPLOY / "helm" / "tidemark" / "templates" / "code.yaml").read_text()
    assert "service: DagsterApi" in chart
    with grpc.insecure_channel(f"127.0.0.1:{started.ports['4000']}") as channel:
        check = HealthStub(channel).Check(HealthCheckRequest(service="DagsterApi"), timeout=10)
    assert check.status == HealthCheckResponse.SERVING


def test_the_board_serves_whoever_has_the_token(started):
    board = f"http://127.0.0.1:{started.ports['8080']}"
    ready(started, "board", lambda: get(f"{board}/healthz"))
    with pytest.raises(urllib.error.HTTPError, match="401"):
        get(f"{board}/api/v1/clusters")
    assert get(f"{board}/api/v1/clusters", Authorization=f"Bearer {BOARD_TOKEN}")


def test_the_collector_lands_and_shows_that_it_is_alive(started, store):
    ready(started, "collector", lambda: landed_ids(store))
    alive = started.scratch("collector") / "collected"
    assert time.time() - alive.stat().st_mtime < 300


def test_the_engine_serves_only_whoever_has_its_token(started):
    port = started.ports["15002"]
    ready(started, "engine", lambda: socket.create_connection(("127.0.0.1", port), 5))
    code = (
        "from pyspark.sql import SparkSession as S;"
        f"print(S.builder.remote('sc://localhost:{port}').getOrCreate().sql('select 41 + 1')"
        ".collect()[0][0])"
    )
    response = started.run("python", "-c", code)
    assert response.stdout.strip() == "42", response.stderr[-2000:]
    started.environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = "another"
    try:
        refused = started.run("python", "-c", code)
    finally:
        started.environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = TOKEN
    assert refused.returncode != 0
    assert "Invalid authentication token" in refused.stderr


def test_the_schedule_ticks_on_the_engine(started):
    def succeeded():
        runs = runs_of(started)
        assert "FAILURE" not in [run["status"] for run in runs], started.log("code")
        return [run for run in runs if run == {"jobName": "tick", "status": "SUCCESS"}]

    ready(started, "daemon", succeeded)
    shown = started.run("tidemark", "show", "progress.queues", "--limit", "1", "--format", "json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)


def test_the_daemon_is_alive_by_its_own_check(started):
    assert ready(started, "daemon", lambda: started.run("dagster-daemon", "liveness-check"))


def test_doctor_finds_nothing_wrong(started):
    doctor = started.run("tidemark", "doctor")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert "stand-in: 1 of 1 answered" in doctor.stdout


def test_no_secret_is_printed_or_kept_in_a_home(started):
    """But for the file of the catalog's password, which only its user reads."""
    marked = (PASSWORD, "p%3Ass%5Cword", TOKEN, BOARD_TOKEN)
    files = [*started.folder.glob("*.log"), *(started.folder / "scratch").rglob("*")]
    read = [path for path in files if path.is_file() and path.name != "pgpass"]
    assert len(read) > len(started.running)
    for path in read:
        content = path.read_bytes()
        assert not [secret for secret in marked if secret.encode() in content], path
    assert (started.scratch("engine") / "home" / "engine" / "pgpass").stat().st_mode & 0o077 == 0
    arguments = [" ".join(map(str, it.args)) for it in started.running.values()]
    assert not [text for text in arguments if "marked" in text]


def test_without_the_daemon_snapshots_land_and_nothing_runs(started, store):
    kill(started, "daemon")
    # Queued runs stay queued; runs that have started continue without the daemon.
    under_way = {"STARTING", "STARTED"}
    ready(
        started,
        "webserver",
        lambda: not any(run["status"] in under_way for run in runs_of(started)),
    )
    runs, before = runs_of(started), landed_ids(store)
    time.sleep(60)  # a whole interval of the schedule
    assert runs_of(started) == runs
    assert len(landed_ids(store) - before) > 1
    started.start("daemon")
    computes(started, landed_ids(store))


def test_without_the_code_server_snapshots_wait_for_it(started, store):
    """The run under way ends with it, if there is one."""
    kill(started, "code")
    query = "{repositoriesOrError {... on RepositoryConnection {nodes {name}}}}"
    ready(
        started,
        "webserver",
        lambda: not queried(started, query)["repositoriesOrError"].get("nodes"),
    )
    before = landed_ids(store)
    ready(started, "collector", lambda: landed_ids(store) - before)
    started.start("code")
    computes(started, landed_ids(store))


def test_without_pages_ticks_go_on(started, store):
    pages = {"webserver": ("3000", "server_info"), "board": ("8080", "healthz")}
    addresses = {
        name: f"http://127.0.0.1:{started.ports[port]}/{path}"
        for name, (port, path) in pages.items()
    }
    for name, address in addresses.items():
        assert get(address)
        kill(started, name)
        with pytest.raises(urllib.error.URLError):
            get(address)
    before = landed_ids(store)
    computes(started, ready(started, "collector", lambda: landed_ids(store) - before))
    started.start(*addresses)
    for name, address in addresses.items():
        assert ready(started, name, partial(get, address))


def test_processes_that_are_killed_lose_and_double_nothing(started, store):
    """All at once, as when a host loses power; then started as a platform does."""
    for name in started.running:
        kill(started, name)
    before = landed_ids(store)
    assert before
    started.start(*started.running)
    ready(started, "collector", lambda: landed_ids(store) - before)
    ready(started, "webserver", lambda: runs_of(started))
    computes(started, before)


def kill(made: Host, name: str) -> None:
    """Kill a service and what it has started."""
    process = made.running[name]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def computes(made: Host, snapshots: set[str]) -> None:
    """Wait until ticks have computed snapshots, each once."""

    def computed() -> bool:
        shown = made.run("tidemark", "show", "progress.snapshots", "--format", "json")
        assert shown.returncode == 0, shown.stderr
        content = [row["snapshot_id"] for row in json.loads(shown.stdout)]
        assert len(content) == len(set(content))
        return snapshots <= set(content)

    ready(made, "daemon", computed)


def test_rows_are_those_of_one_home(started, store, spark_engine, tmp_path):
    """Rows of collector, runs and board with homes of their own equal those of a single home."""
    for name in ("daemon", "collector"):
        ended = started.running.pop(name)
        ended.terminate()
        ended.wait(60)
    ticked = started.run("tidemark", "tick", "--no-collect")
    assert ticked.returncode == 0, ticked.stderr
    mapping = rows_of(lake_of(started, store, tmp_path))
    home = Home.of(tmp_path / "home")
    for folder in landed_folders(store):
        # Not the whole tree: a bucket keeps what a killed collector left unfinished.
        shutil.copytree(folder, home.landing / folder.relative_to(landing_of(store)))
    with warmed(home, spark_engine) as embedded:
        embedded.tick()
        expected = rows_of(embedded.lake)
    assert len(expected["progress.snapshots"]) == len(landed_ids(store)) > 2
    for table, of_table in expected.items():
        assert mapping[table] == of_table, table
    shown = get_groups(started)
    newest = max(row["observed_at"] for row in expected["progress.groups"])
    lags = {
        (row["consumer_group"], row["topic"]): row["lag"]
        for row in expected["progress.groups"]
        if row["observed_at"] == newest
    }
    assert {(row["consumer_group"], row["topic"]): row["lag"] for row in shown} == lags


def test_no_process_keeps_in_its_home_what_others_need(started):
    homes = [*(started.folder / "scratch").glob("*/home")]
    assert {"code", "engine", "board"} <= {home.parent.name for home in homes}
    for home in homes:
        left = {path.name for path in home.iterdir()}
        assert left <= {"engine", "board", "data_docs"}, home


def rows_of(lake: Lake) -> dict[str, list[dict]]:
    tables = [table for table in (*COMPUTED, SNAPSHOTS) if "cluster" in table.column_names]
    return {table.name: rows(lake, table.name, cluster="stand-in") for table in tables}


def lake_of(made: Host, store: Bucket, folder: Path) -> Lake:
    settings = CatalogSettings(
        type="sql",
        uri=made.environment["TIDEMARK_CATALOG_URI"],
        warehouse=made.environment["TIDEMARK_WAREHOUSE"],
        store=ObjectStore(store.endpoint, path_style=True),
        landing=made.environment["TIDEMARK_LANDING"],
    )
    home = Home.of(folder / "reader")
    return Lake(home, CatalogConfig.of(home, settings))


def get_groups(made: Host) -> list[dict]:
    address = f"http://127.0.0.1:{made.ports['8080']}/api/v1/groups"
    return json.loads(get(address, Authorization=f"Bearer {BOARD_TOKEN}"))["items"]


def landing_of(store: Bucket) -> Path:
    return store.folder / PREFIX / "landing"


def landed_folders(store: Bucket) -> list[Path]:
    return [path.parent for path in landing_of(store).rglob("snapshots.parquet")]


def landed_ids(store: Bucket) -> set[str]:
    return {folder.name for folder in landed_folders(store)}
