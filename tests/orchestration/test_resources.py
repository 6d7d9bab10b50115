"""What the environment configures."""

import pytest

from assets.resources import ClientMachineResource, RulesResource
from orchestration.resources import resources
from settings.environment import Settings
from settings.errors import SettingsError
from settings.home import Home
from spark.progress.capacity import Machine


def machine(tmp_path, **settings):
    found = resources(Settings(home=Home.of(tmp_path), **settings))["client_machine"]
    assert isinstance(found, ClientMachineResource)
    return found.machine()


def test_what_consumers_run_on_is_known_when_both_are_set(tmp_path):
    both = {"client_cores": "4", "client_compute_ms": "2.5"}
    assert machine(tmp_path, **both) == Machine(4.0, 2.5)
    assert machine(tmp_path) is None
    for name in both:
        assert machine(tmp_path, **{name: both[name]}) is None


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
