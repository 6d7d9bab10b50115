"""The compose file: its commands, variables and health checks are real, its secrets elsewhere."""

import json
import os
import re
import subprocess
from urllib.parse import urlsplit

import psycopg2
import pytest
import yaml
from jsonschema import Draft7Validator

from tests.support import go_tools
from tests.support.checkout import ROOT
from tests.support.command_lines import DEPLOY, GUARDED, SETTINGS, mistake
from tests.support.servers import PASSWORD, postgresql
from tidemark.settings.secrets import PURPOSES, Process, purposes_of, refused

LOADER = ("github.com/compose-spec/compose-go/v2", "v2.4.9")
FILE = DEPLOY / "compose.yaml"
COMPOSE = yaml.safe_load(FILE.read_text())
SERVICES = COMPOSE["services"]
OURS = {name: it for name, it in SERVICES.items() if str(it["image"]).startswith("tidemark:")}
SECRET = re.compile(r"PASSWORD|TOKEN|SECRET|CREDENTIAL|CATALOG_URI|PG_URL|NOTIFY")


def variables(file: str) -> dict[str, str]:
    lines = (DEPLOY / f"{file}.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.slow
@pytest.mark.skipif(not go_tools.GO, reason="no go here to fetch the schema")
def test_the_file_meets_the_schema_of_compose():
    """The one that `docker compose config` checks, of the loader of Compose."""
    text = (go_tools.module(*LOADER) / "schema" / "compose-spec.json").read_text()
    schema = Draft7Validator(json.loads(text))
    assert [error.message for error in schema.iter_errors(COMPOSE)] == []
    misspelt = COMPOSE | {"services": {"board": SERVICES["board"] | {"port": ["8080:8080"]}}}
    assert not schema.is_valid(misspelt)


def test_all_processes_are_there():
    assert OURS.keys() == {"collector", "code", "engine", "daemon", "webserver", "board"}
    assert SERVICES.keys() - OURS.keys() == {"postgres", "s3"}


def test_every_command_is_taken_by_its_program():
    for name, service in OURS.items():
        assert mistake(service["command"]) is None, name


def test_health_checks_call_programs_of_the_image():
    for name, service in OURS.items():
        kind, *command = service["healthcheck"]["test"]
        if kind == "CMD" and command[0].startswith("dagster"):
            assert mistake(command) is None, name
        else:
            assert kind == "CMD-SHELL" or command[0] in ("python3", "bash"), name


def test_every_variable_is_a_setting():
    known = set(re.findall(r"\bTIDEMARK_\w+", FILE.read_text()))
    assert known <= SETTINGS
    given = {it for purpose in PURPOSES for it in variables(f"compose/{purpose.name}.env")}
    assert {it for it in given if it.startswith("TIDE")} <= SETTINGS


def test_no_secret_stands_in_the_file():
    for name, service in SERVICES.items():
        assert not [it for it in service.get("environment", {}) if SECRET.search(it)], name
        for file in service["env_file"]:
            assert (DEPLOY / f"{file}.example").exists()
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert "deploy/compose/*.env" in ignored


def test_the_file_systems_of_our_processes_are_read_only():
    for name, service in OURS.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        written = [it for it in service["volumes"] if not it.endswith(":ro")]
        assert written == ["/var/lib/tidemark"], name


def test_our_processes_share_no_disk():
    """They share PostgreSQL and the bucket; a volume without a name is one container's own."""
    for name, service in OURS.items():
        for volume in service["volumes"]:
            assert ":" not in volume or volume.endswith(":ro"), name
        environment = service["environment"]
        assert environment["TIDEMARK_CATALOG_TYPE"] == "sql", name
        for place in ("TIDEMARK_WAREHOUSE", "TIDEMARK_LANDING"):
            assert environment[place].startswith("s3://tidemark/"), name


def test_ports_are_published_on_loopback_only():
    published = [port for it in SERVICES.values() for port in it.get("ports", ())]
    assert sorted(published) == ["127.0.0.1:3000:3000", "127.0.0.1:8080:8080"]


def test_who_depends_on_whom_exists():
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in SERVICES, name
            healthy = how["condition"] == "service_healthy"
            assert not healthy or "healthcheck" in SERVICES[other], name
    assert SERVICES["engine"]["network_mode"] == "service:code"
    volumes = {it for s in SERVICES.values() for it in s.get("volumes", ()) if ":" in it}
    mounts = {it.split(":")[0] for it in volumes}
    named = {it for it in mounts if not it.startswith(".")}
    assert named == COMPOSE["volumes"].keys()
    for path in mounts - named:
        assert any((DEPLOY / f"{path}{end}").exists() for end in ("", ".example")), path


def test_the_engine_is_where_runs_seek_it():
    command = OURS["engine"]["command"]
    remote = OURS["code"]["environment"]["TIDEMARK_SPARK_REMOTE"]
    assert remote == f"sc://localhost:{command[command.index('--port') + 1]}"
    assert "SPARK_CONNECT_AUTHENTICATE_TOKEN" in variables("compose/spark.env")


@pytest.mark.parametrize("process", Process)
def test_a_process_has_the_secrets_that_it_needs_and_no_other(process):
    files = [file.removeprefix("compose/") for file in OURS[process]["env_file"]]
    assert sorted(files) == sorted(f"{purpose.name}.env" for purpose in purposes_of(process))
    for purpose in PURPOSES:
        assert variables(f"compose/{purpose.name}.env").keys() <= set(purpose.variables)


def test_no_example_of_a_secret_is_taken_for_one():
    for folder in ("compose", "systemd"):
        given = {
            name: value
            for purpose in PURPOSES
            for name, value in variables(f"{folder}/{purpose.name}.env").items()
        }
        placeholders = {name for name, value in given.items() if "CHANGE_ME" in value}
        assert {line.split()[0] for line in refused(given)} == placeholders and placeholders


@pytest.mark.slow
def test_users_of_the_database_are_no_superusers_and_enter_one_database(tmp_path):
    """The real script, on a real PostgreSQL whose superuser is another."""
    passwords = {"POSTGRES_PASSWORD": PASSWORD, "ICEBERG_PASSWORD": "i9", "DAGSTER_PASSWORD": "d9"}
    script = DEPLOY / "compose" / "databases.sh"
    with postgresql(tmp_path / "server") as uri:
        at = urlsplit(uri)
        environment = {
            "PATH": os.environ["PATH"],
            "PGHOST": str(at.hostname),
            "PGPORT": str(at.port),
            "PGPASSWORD": PASSWORD,
            "POSTGRES_USER": str(at.username),
        }
        drop = ["psql", "-U", str(at.username), "-d", "postgres", "-c", "DROP DATABASE iceberg"]
        subprocess.run(drop, env=environment, check=True, capture_output=True)
        done = subprocess.run([script], env=environment | passwords, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        place = f"{at.hostname}:{at.port}"
        for user, own, other, password in (
            ("tidemark", "iceberg", "dagster", "i9"),
            ("dagster", "dagster", "iceberg", "d9"),
        ):
            connection = psycopg2.connect(f"postgresql://{user}:{password}@{place}/{own}")
            cursor = connection.cursor()
            cursor.execute("SELECT usesuper, usecreatedb FROM pg_user WHERE usename = current_user")
            assert cursor.fetchall() == [(False, False)]
            cursor.execute("CREATE TABLE made (it int)")
            connection.close()
            with pytest.raises(psycopg2.OperationalError, match="permission denied"):
                psycopg2.connect(f"postgresql://{user}:{password}@{place}/{other}")
    wrong = environment | passwords | {"DAGSTER_PASSWORD": "CHANGE_ME"}
    refusing = subprocess.run([script], env=wrong, capture_output=True, text=True)
    assert refusing.returncode == 1 and "CHANGE_ME" in refusing.stderr


def test_dagsters_pages_are_guarded_and_change_nothing():
    service = OURS["webserver"]
    assert service["command"][:2] == GUARDED
    assert service["environment"]["DAGSTER_WEBSERVER_READ_ONLY"] == "true"
