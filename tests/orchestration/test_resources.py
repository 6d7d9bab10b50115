"""What the environment configures."""

import pytest

from assets.resources import ClientMachineResource, RulesResource
from orchestration.resources import resources
from settings.environment import Settings
from settings.errors import SettingsError
from settings.home import Home
from settings.machines import Machine


def test_machines_of_consumers_come_from_variables_and_file(tmp_path):
    file = tmp_path / "machines.yaml"
    file.write_text("capacity:\n- match: {consumer_group: batch}\n  cores: 8\n")
    settings = Settings(
        home=Home.of(tmp_path), client_cores="4", client_compute_ms="2.5", capacity=str(file)
    )
    found = resources(settings)["client_machine"]
    assert isinstance(found, ClientMachineResource)
    assert found.machine() == Machine(4.0, 2.5)
    (batch,), mistakes = found.overrides()
    assert (batch.machine, mistakes) == (Machine(cores=8), [])


def test_unset_machines_are_unknown(tmp_path):
    found = resources(Settings(home=Home.of(tmp_path)))["client_machine"]
    assert isinstance(found, ClientMachineResource)
    assert found.machine() == Machine()
    assert found.overrides() == ([], [])


@pytest.mark.parametrize("text", ["many", "0", "-1", "inf", "nan"])
def test_what_is_no_number_is_named(monkeypatch, text):
    monkeypatch.setenv("TIDEMARK_CLIENT_CORES", text)
    with pytest.raises(SettingsError, match=f"TIDEMARK_CLIENT_CORES is '{text}': .* above 0"):
        resources(Settings.read())


def test_configured_site_reaches_the_rules(tmp_path):
    site = "https://docs.example.org"
    found = resources(Settings(home=Home.of(tmp_path), docs_url=site))["alert_rules"]
    assert isinstance(found, RulesResource)
    rules, _ = found.rules()
    assert {rule.runbook for rule in rules} == {
        f"{site}/runbooks/{rule.name}.html" for rule in rules
    }
