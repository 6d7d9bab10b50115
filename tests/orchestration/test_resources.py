"""Resources as environment variables configure them."""

import os
from pathlib import Path

import dagster as dg
import pytest

from assets.dagster_names import PREFIX
from assets.resources import ClientMachineResource, RulesResource
from orchestration.definitions import build
from orchestration.resources import resources
from tidemark.settings.basics import SettingsError
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home
from tidemark.settings.owners import Machine


def made(settings: Settings, name: str):
    """Return a resource as a run gets it."""
    with dg.build_resources({name: resources(settings)[name]}) as built:
        return getattr(built, name)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("lake", {"home": "/tmp/elsewhere"}),
        ("lake", {"run_minutes": 1}),
        ("collector", {"namesrv": "elsewhere.example:9876"}),
        ("collector", {"clusters": "/tmp/clusters.yaml"}),
        ("alert_rules", {"path": "/tmp/rules"}),
        ("health", {"path": "/tmp/health.yaml"}),
        ("quality_settings", {"folder": "/tmp/suites"}),
        ("client_machine", {"path": "/tmp/capacity.yaml"}),
        ("objectives", {"path": "/tmp/objectives.yaml"}),
        ("spark", {"spark_config": {"spark.jars": "/tmp/evil.jar"}}),
    ],
)
def test_a_run_overrides_no_resource(tmp_path, name, config):
    job = build(Settings(home=Home.of(tmp_path))).resolve_job_def("tick")
    assert dg.validate_run_config(job, {})
    with pytest.raises(dg.DagsterInvalidConfigError, match=next(iter(config))):
        dg.validate_run_config(job, {"resources": {PREFIX + name: {"config": config}}})


def test_machines_of_consumers_come_from_variables_and_file(tmp_path):
    file = tmp_path / "machines.yaml"
    file.write_text("capacity:\n- match: {consumer_group: batch}\n  cores: 8\n")
    settings = Settings(
        home=Home.of(tmp_path), client_cores="4", client_compute_ms="2.5", capacity=str(file)
    )
    machines = made(settings, "client_machine")
    assert isinstance(machines, ClientMachineResource)
    assert machines.machine() == Machine(4.0, 2.5)
    (batch,), mistakes = machines.overrides()
    assert (batch.machine, mistakes) == (Machine(cores=8), [])


def test_unset_machines_are_unknown(tmp_path):
    machines = made(Settings(home=Home.of(tmp_path)), "client_machine")
    assert isinstance(machines, ClientMachineResource)
    assert machines.machine() == Machine()
    assert machines.overrides() == ([], [])


@pytest.mark.parametrize("text", ["many", "0", "-1", "inf", "nan"])
def test_what_is_no_number_is_named(monkeypatch, text):
    monkeypatch.setenv("TIDEMARK_CLIENT_CORES", text)
    with pytest.raises(SettingsError, match=f"TIDEMARK_CLIENT_CORES is '{text}': .* above 0"):
        resources(Settings.read())


def test_configured_site_reaches_the_rules(tmp_path):
    site = "https://docs.example.org"
    alert_rules = made(Settings(home=Home.of(tmp_path), docs_url=site), "alert_rules")
    assert isinstance(alert_rules, RulesResource)
    rules, _ = alert_rules.rules()
    assert {rule.runbook for rule in rules} == {
        f"{site}/runbooks/{rule.name}.html" for rule in rules
    }


def test_only_a_run_names_the_password_file_of_the_catalog(tmp_path, monkeypatch):
    monkeypatch.setenv("PGPASSFILE", "of the operator")
    for name, value in {
        "HOME": str(tmp_path),
        "CATALOG_TYPE": "sql",
        "CATALOG_URI": "postgresql://lake:wpRk3Jq@127.0.0.1:1/lake",
        "WAREHOUSE": f"file://{tmp_path}/warehouse",
    }.items():
        monkeypatch.setenv(f"TIDEMARK_{name}", value)
    settings = Settings.read()
    resources(settings)
    assert os.environ["PGPASSFILE"] == "of the operator"
    made(settings, "spark")
    file = Path(os.environ["PGPASSFILE"])
    assert file.is_relative_to(tmp_path)
    assert file.read_text() == "127.0.0.1:1:lake:lake:wpRk3Jq\n"


def test_evaluations_share_the_tables_and_each_run_has_its_own(tmp_path):
    definition = resources(Settings(home=Home.of(tmp_path)))["lake"]
    of_runs = []

    @dg.op(required_resource_keys={"lake"})
    def step(context: dg.OpExecutionContext) -> None:
        of_runs.append(context.resources.lake)

    @dg.job(resource_defs={"lake": definition})
    def job() -> None:
        step()

    def evaluated():
        with dg.build_resources({"lake": definition}) as built:
            return built.lake

    shared = evaluated()
    assert shared is evaluated() and shared.lake.catalog is evaluated().lake.catalog
    for _ in range(2):
        job.execute_in_process()
    first, second = of_runs
    assert first is not second and shared not in of_runs
