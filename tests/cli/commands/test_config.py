"""`tidemark config`: values, where they come from, and that no secret is shown."""

import json

import pytest

from tests.support.commands import output_of
from tidemark.cli.commands.doctor import setting_rows
from tidemark.settings.environment import Settings, variable_of
from tidemark.settings.home import Home


@pytest.fixture
def home(tmp_path) -> Home:
    return Home.of(tmp_path)


def test_every_setting_has_a_row(home):
    rows = {row["name"]: row for row in json.loads(output_of(home, "config", "--format", "json"))}
    assert list(rows) == [variable_of(name) for name in Settings.model_fields]
    assert rows["TIDEMARK_HOME"]["value"] == str(home.path)
    assert rows["TIDEMARK_HOME"]["source"] == "environment"
    days = rows["TIDEMARK_RAW_DAYS"]
    assert (days["value"], days["unit"], days["source"]) == (7, "days", "default")
    assert rows["TIDEMARK_SCHEDULE"]["value"] == "off"


def test_files_of_the_home_are_sources_of_settings(home):
    def clusters(settings):
        rows = {row["name"]: row for row in setting_rows(settings)}
        return rows["TIDEMARK_CLUSTERS"]["value"], rows["TIDEMARK_CLUSTERS"]["source"]

    settings = Settings(home=home)
    assert clusters(settings) == (None, "default")
    file = home.path / "clusters.yaml"
    file.write_text("clusters: []\n")
    assert clusters(settings) == (str(file), "home file")
    assert clusters(Settings(home=home, clusters="x.yaml")) == ("x.yaml", "environment")


def test_secrets_are_masked(home, monkeypatch):
    secrets = {
        "TIDEMARK_NOTIFY_URLS",
        "TIDEMARK_DIGEST_URLS",
        "TIDEMARK_CATALOG_URI",
        "TIDEMARK_SERVE_TOKEN",
        "TIDEMARK_SERVE_READ_TOKEN",
    }
    secrets |= {"TIDEMARK_HEARTBEAT_URL", "TIDEMARK_STATE_URI"}
    secrets |= {"TIDEMARK_CATALOG_CREDENTIAL", "TIDEMARK_CATALOG_TOKEN"}
    for name in secrets:
        monkeypatch.setenv(name, "json://me:s3cret@host")
    rows = setting_rows(Settings.read())
    assert {row["name"] for row in rows if row["secret"]} == secrets
    assert {row["value"] for row in rows if row["secret"]} == {"***"}
    assert "s3cret" not in json.dumps(rows, default=str)


def test_the_table_names_values_and_descriptions(home):
    table = output_of(home, "config")
    assert "TIDEMARK_GAP_MINUTES" in table and "minutes" in table
