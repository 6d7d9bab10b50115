"""The secrets that each process needs, and values that are no secrets."""

import re

import pytest
from pydantic import SecretStr

from tests.support.checkout import ROOT
from tidemark.settings.basics import SettingsError
from tidemark.settings.clusters import Account, read_credentials
from tidemark.settings.environment import Settings, variable_of
from tidemark.settings.secrets import PURPOSES, SHORTEST_TOKEN, Process, purposes_of

OURS = "a-token-of-our-own-with-32-chars"


def test_every_secret_setting_has_one_purpose():
    secret = {
        variable_of(name)
        for name, field in Settings.model_fields.items()
        if field.annotation is SecretStr
    }
    named = [variable for purpose in PURPOSES for variable in purpose.variables]
    assert len(named) == len(set(named))
    assert {name for name in named if name.startswith("TIDEMARK_")} == secret


def test_dagsters_pages_and_daemon_reach_only_dagsters_database():
    for process in (Process.WEBSERVER, Process.DAEMON):
        assert [purpose.name for purpose in purposes_of(process)] == ["dagster"]


@pytest.mark.parametrize("value", ["CHANGE_ME", "changeme", "Change-Me-Please", "<token>", "..."])
@pytest.mark.parametrize(
    "name", [variable for purpose in PURPOSES for variable in purpose.variables]
)
def test_a_placeholder_is_refused_with_one_line_that_does_not_show_it(monkeypatch, name, value):
    value = f"postgresql://u:{value}@h/d" if name.endswith(("_URI", "PG_URL")) else value
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refusing:
        Settings.read()
    (line,) = refusing.value.mistakes
    assert line.startswith(f"{name} holds a placeholder") and value not in line


@pytest.mark.parametrize(
    "name", [variable for purpose in PURPOSES if purpose.is_token for variable in purpose.variables]
)
def test_a_short_token_is_refused(monkeypatch, name):
    monkeypatch.setenv(name, "x" * (SHORTEST_TOKEN - 1))
    with pytest.raises(SettingsError, match=f"{name} has 15 characters"):
        Settings.read()
    monkeypatch.setenv(name, OURS)
    Settings.read()


@pytest.mark.parametrize("name", ["TIDEMARK_CATALOG_URI", "TIDEMARK_STATE_URI", "DAGSTER_PG_URL"])
def test_an_empty_password_is_refused_and_none_is_not(monkeypatch, name):
    monkeypatch.setenv(name, "postgresql://tidemark:@db/iceberg")
    with pytest.raises(SettingsError, match=f"{name} has an empty password"):
        Settings.read()
    monkeypatch.setenv(name, "postgresql://tidemark@db/iceberg")
    Settings.read()


def test_a_placeholder_of_a_broker_account_is_refused(tmp_path):
    account = Account(place="clusters.yaml:3: acl", access_key_env="KEY", secret_key_env="SECRET")
    with pytest.raises(SettingsError, match="secret_key_env: this variable holds a placeholder"):
        account.credentials({"KEY": "reader", "SECRET": "CHANGE_ME"})
    assert account.credentials({"KEY": "reader", "SECRET": "s"}).secret_key == "s"
    file = tmp_path / "tools.yml"
    file.write_text("accessKey: reader\nsecretKey: changeme\n")
    with pytest.raises(SettingsError, match="secretKey is a placeholder"):
        read_credentials(file, "clusters.yaml:3: acl")


def test_the_page_of_deployments_has_the_table():
    page = (ROOT / "docs" / "deployment" / "artefacts.md").read_text()
    rows = re.findall(r"(?m)^\| `(\w+)\.env` \| (.*?) \| (.*?) \|$", page)
    words = {Process.CODE: "code server", Process.WEBSERVER: "web server"}
    assert [(name, processes) for name, _, processes in rows] == [
        (purpose.name, ", ".join(words.get(process, process) for process in purpose.processes))
        for purpose in PURPOSES
    ]
    for (_, variables, _), purpose in zip(rows, PURPOSES, strict=True):
        assert tuple(re.findall(r"`([A-Z_0-9]{6,})`", variables)) == purpose.variables
