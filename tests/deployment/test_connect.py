"""A Connect server elsewhere with a token, a REST catalog, and Dagster's storage in PostgreSQL."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg2
import pytest
from sqlalchemy.engine import make_url

from spark.session.packages import packages_of
from spark.session.reaching import UnreachableError, reach
from tests.deployment.conftest import HALVES, START
from tests.support.cluster_history import computed, put
from tests.support.deployments import catalog_in, variables_of
from tests.support.homes import ROOT, TIDEMARK, declare_objectives, environment
from tests.support.jars import jars
from tests.support.rest_catalog import rest_catalog
from tests.support.servers import PASSWORD, Bucket, create_database, driver_uri, postgresql_binaries
from tests.support.spark_cluster import Standalone, connect_server
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.tables import quality
from tidemark.settings.home import Home

pytestmark = [pytest.mark.spark, pytest.mark.deployment]

TOKEN = "marked-spark-token"
OTHER_SECRETS = {
    "TIDEMARK_NOTIFY_URLS": "json://user:marked-notify-secret@127.0.0.1:1/",
    "TIDEMARK_DIGEST_URLS": "json://user:marked-digest-secret@127.0.0.1:1/",
    "TIDEMARK_HEARTBEAT_URL": "http://127.0.0.1:1/marked-heartbeat-secret",
    "TIDEMARK_SERVE_TOKEN": "marked-serve-token-of-more-than-thirty-two-characters",
}


@dataclass(kw_only=True)
class Deployment:
    """Commands of a host that has nothing but settings.

    Attributes:
        settings: its variables.
        folder: with a folder for each part of the deployment.
        storage: the address of Dagster's database.
        printed: everything that commands printed.
    """

    home: Home
    lake: Lake
    settings: dict[str, str]
    folder: Path
    storage: str
    printed: list[str] = field(default_factory=list)

    def run(self, *command: str, timeout: float = 900, **other: str):
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(self.home, **self.settings | other),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        self.printed += [done.stdout, done.stderr]
        return done

    def tidemark(self, *arguments: str, **other: str):
        return self.run(str(TIDEMARK), *arguments, **other)

    def query(self, statement: str) -> list[tuple]:
        """Rows of Dagster's database."""
        url = make_url(self.storage)
        with (
            psycopg2.connect(
                host=url.host,
                port=url.port,
                user=url.username,
                password=url.password,
                dbname=url.database,
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
            return cursor.fetchall()


@pytest.fixture(scope="module")
def deployment(tmp_path_factory, database: str, store: Bucket, cluster: Standalone):
    folder = tmp_path_factory.mktemp("connect")
    home, dagster = Home.of(folder / "home"), folder / "dagster"
    home.path.mkdir()
    declare_objectives(home.path)
    dagster.mkdir()
    shutil.copy(ROOT / "deploy" / "dagster" / "dagster.yaml", dagster)
    storage, tables = create_database(database, "dagster"), create_database(database, "rest")
    with rest_catalog(folder / "rest", tables, store, "s3://lake/connect/warehouse") as address:
        catalog = catalog_in(address, store, "connect/", kind="rest")
        settings = variables_of(catalog, store) | OTHER_SECRETS
        settings |= {
            "DAGSTER_HOME": str(dagster),
            "DAGSTER_PG_URL": driver_uri(storage).render_as_string(hide_password=False),
        }
        lake = Lake(home, CatalogConfig.of(home, catalog))
        made = Deployment(home=home, lake=lake, settings=settings, folder=folder, storage=storage)
        with _server(made, cluster, store) as remote:
            settings |= {"TIDEMARK_SPARK_REMOTE": remote, "SPARK_CONNECT_AUTHENTICATE_TOKEN": TOKEN}
            yield made


def _server(deployment: Deployment, cluster: Standalone, store: Bucket):
    """A Connect server with the properties that `tidemark engine properties` prints."""
    printed = deployment.tidemark(
        "engine",
        "properties",
        TIDEMARK_SPARK_MASTER=cluster.master,
        TIDEMARK_DRIVER_HOST="127.0.0.1",
        TIDEMARK_DRIVER_MEMORY="1g",
        TIDEMARK_SPARK_JARS=str(jars("spark-s3-1.12.0", *packages_of(["s3"]))),
    )
    assert printed.returncode == 0, printed.stderr
    properties = dict(line.split(" ", 1) for line in printed.stdout.splitlines())
    needed = store.credentials | {"PYSPARK_PYTHON": sys.executable}
    return connect_server(deployment.folder / "server", properties, needed, TOKEN)


@pytest.fixture(scope="module")
def ticked(deployment):
    """The deployment after two ticks and an audit."""
    for minutes in HALVES:
        put(deployment.lake.landing, START, minutes)
        done = deployment.tidemark("tick", "--no-collect")
        assert done.returncode == 0, done.stderr
    config = deployment.folder / "audit.yaml"
    config.write_text(f'ops: {{validate_hour: {{config: {{hour: "{START.isoformat()}"}}}}}}\n')
    dagster = Path(sys.executable).with_name("dagster")
    job = ("-m", "orchestration.definitions", "-j", "audit", "--config", str(config))
    done = deployment.run(str(dagster), "job", "execute", *job)
    assert done.returncode == 0, done.stderr[-3000:]
    return deployment


def test_rows_are_those_of_a_home_without_servers(ticked, embedded_rows):
    mapping = computed(ticked.lake)
    assert mapping.keys() == embedded_rows.keys()
    for table, rows in embedded_rows.items():
        assert mapping[table] == rows, table


def test_every_worker_computed(ticked, cluster):
    assert cluster.tasks("connect").keys() == {"worker-0", "worker-1"}
    assert min(cluster.tasks("connect").values()) > 0


def test_runs_are_kept_in_the_storage_of_the_operator(ticked):
    runs = ticked.query("select pipeline_name, status from runs order by create_timestamp")
    assert runs == [("tick", "SUCCESS"), ("tick", "SUCCESS"), ("audit", "SUCCESS")]
    assert not ticked.home.dagster.exists()
    ours = (ROOT / "deploy" / "dagster" / "dagster.yaml").read_bytes()
    assert (ticked.folder / "dagster" / "dagster.yaml").read_bytes() == ours


def test_an_audit_judges_what_the_cluster_computed(ticked):
    results = ticked.lake.read(quality.RESULTS).to_pylist()
    audited = {row["table"] for row in results if row["run_id"] == _audit_run(ticked)}
    assert "progress.groups" in audited and "raw.queue_offsets" in audited


def _audit_run(deployment: Deployment) -> str:
    ((run_id,),) = deployment.query("select run_id from runs where pipeline_name = 'audit'")
    return run_id


def test_doctor_writes_and_reads_every_backend(ticked):
    done = ticked.tidemark("doctor")
    lines = {line.split()[1]: line for line in done.stdout.splitlines()}
    for name in ("catalog", "landing", "spark", "dagster"):
        assert lines[name].startswith("ok"), done.stdout
    assert "PostgresRunStorage" in lines["dagster"]
    assert "s3://lake/connect/landing" in lines["landing"]
    assert ticked.settings["TIDEMARK_SPARK_REMOTE"] in lines["spark"]
    left = [name for _, name in ticked.lake.catalog.list_tables("quality") if "doctor" in name]
    assert not left
    assert ticked.query("select count(*) from runs where pipeline_name = 'doctor'") == [(0,)]


WRONG = {
    "TIDEMARK_CATALOG_URI": "http://127.0.0.1:1",
    "TIDEMARK_LANDING": "s3://nowhere/landing",
    "SPARK_CONNECT_AUTHENTICATE_TOKEN": "another-token-of-the-tests",
    "DAGSTER_PG_URL": "postgresql+psycopg2://lake:another-password@127.0.0.1:1/dagster",
}


def test_doctor_reports_in_one_line_what_to_do_about_each(ticked):
    done = ticked.tidemark("doctor", **WRONG)
    assert done.returncode == 1
    lines = {line.split()[1]: line for line in done.stdout.splitlines()}
    for name, advice in {
        "catalog": "start it, or mend TIDEMARK_CATALOG_URI",
        "landing": "create the bucket, or mend TIDEMARK_WAREHOUSE and TIDEMARK_LANDING",
        "spark": "refused the token: set SPARK_CONNECT_AUTHENTICATE_TOKEN",
        "dagster": f"mend {ticked.folder}/dagster/dagster.yaml, or the variables that it names",
    }.items():
        assert lines[name].startswith("FAIL") and advice in lines[name], done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_token_goes_to_no_other_host_in_the_clear(ticked, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", TOKEN)
    remote = ticked.settings["TIDEMARK_SPARK_REMOTE"].replace("localhost", "127.0.0.1")
    with pytest.raises(UnreachableError, match="answers without TLS") as refused:
        reach(remote)
    assert TOKEN not in str(refused.value)


def test_no_secret_is_written_or_shown_anywhere(ticked, cluster):
    """Home, Dagster's folder and database, logs, work folders, command lines, what was printed."""
    secrets = [
        TOKEN,
        PASSWORD,
        "p%3Ass%5Cword",
        ticked.settings["AWS_SECRET_ACCESS_KEY"],
        "marked-notify-secret",
        "marked-digest-secret",
        "marked-heartbeat-secret",
        "marked-serve-token",
        "another-token",
        "another-password",
    ]
    searched = 0
    for place, content in _everything(ticked, cluster):
        searched += 1
        for secret in secrets:
            assert secret.encode() not in content, (secret, place)
    assert searched > 100


def _everything(deployment: Deployment, cluster: Standalone) -> Iterator[tuple[str, bytes]]:
    for folder in (deployment.folder, cluster.folder):
        for path in sorted(folder.rglob("*")):
            # Iceberg's REST fixture prints its own configuration; it is no part of Tidemark.
            if path.is_file() and path.suffix != ".jar" and path.parent.name != "rest":
                yield str(path), path.read_bytes()
    for number, text in enumerate(deployment.printed):
        yield f"output {number}", text.encode()
    for pid, command in _commands().items():
        yield f"process {pid}", command.encode()
    url = make_url(deployment.storage)
    for name in ("dagster", "rest"):
        dump = [str(postgresql_binaries() / "pg_dump"), "-h", str(url.host), "-p", str(url.port)]
        process = subprocess.run(
            [*dump, "-U", str(url.username), name],
            env=os.environ | {"PGPASSWORD": str(url.password)},
            capture_output=True,
            check=True,
        )
        assert len(process.stdout) > 10_000
        yield f"database {name}", process.stdout


def _commands() -> dict[int, str]:
    """The command lines of the servers and the executors, which are all children of the tests."""
    commands: dict[int, str] = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # one that has ended has none
            commands[process.pid] = " ".join(process.cmdline())
    assert any("SparkConnectServer" in command for command in commands.values())
    assert any("CoarseGrainedExecutorBackend" in command for command in commands.values())
    return commands
