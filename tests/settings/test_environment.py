"""The settings of the environment: their types, names, and the line of a wrong value."""

import ast
import inspect
import os
from datetime import timedelta

import dagster as dg
import pytest

from orchestration.resources import resources
from tidemark.settings import environment
from tidemark.settings.basics import NAMES, OLD_NAMES, BasicSettings, SettingsError, warnings_of
from tidemark.settings.environment import Settings, variable_of
from tidemark.settings.owners import Sizing


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch):
    for name in [*os.environ]:
        if name.startswith("TIDEMARK_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(("text", "number"), [(None, 10), ("", 10), ("1", 1), (" 30 ", 30)])
def test_a_whole_number_from_one_on(monkeypatch, text, number):
    if text is not None:
        monkeypatch.setenv("TIDEMARK_GAP_MINUTES", text)
    assert Settings.read().gap_minutes == number
    assert Settings.read().history.longest_gap == timedelta(minutes=number)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "ten", "1e3"])
def test_anything_else_is_one_line(monkeypatch, text):
    monkeypatch.setenv("TIDEMARK_GAP_MINUTES", text)
    with pytest.raises(SettingsError) as ended:
        Settings.read()
    expected = f"TIDEMARK_GAP_MINUTES is {text!r}: it takes a whole number from 1 on"
    assert str(ended.value) == expected


@pytest.mark.parametrize("name", ["TIDEMARK_DAGSTER_URL", "TIDEMARK_BOARD_URL"])
def test_a_linked_address_is_no_script(monkeypatch, name):
    monkeypatch.setenv(name, "javascript:alert(1)")
    with pytest.raises(SettingsError, match=f"{name} takes http://HOST:PORT or"):
        Settings.read()


@pytest.mark.parametrize(
    ("name", "text", "takes"),
    [
        ("SCHEDULE", "perhaps", "on or off"),
        ("DRIVER_MEMORY", "much", "a number with k, m, g or t, like 2g"),
        ("DRIVER_MEMORY", "0g", "a number with k, m, g or t, like 2g"),
        ("CLIENT_CORES", "nan", "a number above 0"),
    ],
)
def test_a_wrong_value_names_what_its_variable_takes(monkeypatch, name, text, takes):
    monkeypatch.setenv(f"TIDEMARK_{name}", text)
    with pytest.raises(SettingsError) as ended:
        Settings.read()
    assert str(ended.value) == f"TIDEMARK_{name} is {text!r}: it takes {takes}"


@pytest.mark.parametrize(
    "parameters",
    [";token=s3cret", ";use_ssl=true;Authorization=Bearer%20s3cret", "/;%74oken=s3cret"],
)
def test_an_address_of_spark_that_holds_a_secret_is_refused(monkeypatch, parameters):
    monkeypatch.setenv("TIDEMARK_SPARK_REMOTE", f"sc://localhost:15002{parameters}")
    with pytest.raises(SettingsError) as ended:
        Settings.read()
    assert "set SPARK_CONNECT_AUTHENTICATE_TOKEN" in str(ended.value)
    assert "s3cret" not in str(ended.value)


def test_other_parameters_of_an_address_of_spark_are_kept(monkeypatch):
    remote = "sc://spark.example.org:15002/;use_ssl=true;user_id=tidemark"
    monkeypatch.setenv("TIDEMARK_SPARK_REMOTE", remote)
    assert Settings.read().spark.remote == remote


def test_all_wrong_values_are_named_at_once(monkeypatch):
    monkeypatch.setenv("TIDEMARK_RAW_DAYS", "x")
    monkeypatch.setenv("TIDEMARK_SAMPLE_MINUTES", "0")
    with pytest.raises(SettingsError) as ended:
        Settings.read()
    assert len(ended.value.mistakes) == 2


def test_an_old_name_works_without_the_new_one(monkeypatch):
    monkeypatch.setenv("TIDEMARK_HOLE_MINUTES", "20")
    assert Settings.read().gap_minutes == 20
    monkeypatch.setenv("TIDEMARK_GAP_MINUTES", "30")
    assert Settings.read().gap_minutes == 30
    assert warnings_of(os.environ) == [
        "TIDEMARK_HOLE_MINUTES is the old name of TIDEMARK_GAP_MINUTES"
    ]


def test_the_names_are_those_of_the_model():
    assert sorted(NAMES) == sorted(variable_of(field) for field in Settings.model_fields)
    assert set(OLD_NAMES.values()) <= set(NAMES)


def test_each_section_has_its_defaults_without_variables():
    settings = Settings.read()
    sections = (
        *(settings.history, settings.spark, settings.catalog),
        *(settings.metrics, settings.notifications),
    )
    assert sections == tuple(type(section)() for section in sections)


def test_no_default_of_a_section_is_written_again():
    """A literal in the model would change alone."""
    model = next(
        node
        for node in ast.parse(inspect.getsource(environment)).body
        if isinstance(node, ast.ClassDef) and node.name == "Settings"
    )
    defaults = {
        ast.unparse(node.target): node.value.args[0]
        for node in model.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call) and node.value.args
    }
    prefixes = ("gap", "rate", "sample", "timeline", "thin", "history", "driver_memory", "metrics")
    written = [
        name
        for name, default in defaults.items()
        if name.startswith((*prefixes, "digest_every", "s3_region", "s3_path_style"))
        and isinstance(default, ast.Constant)
    ]
    assert written == []


@pytest.mark.parametrize(
    ("variable", "field", "text"),
    [
        ("TIDEMARK_RULES", "rules", "mine.yaml"),
        ("TIDEMARK_DOCS_URL", "docs_url", "https://docs.example.org"),
        ("TIDEMARK_DAGSTER_URL", "dagster_url", "https://dagster.example.org"),
        ("TIDEMARK_BOARD_URL", "board_url", "https://board.example.org"),
        ("TIDEMARK_DRIVER_MEMORY", "driver_memory", "3g"),
        ("TIDEMARK_S3_REGION", "s3_region", "eu-west-1"),
    ],
)
def test_a_variable_sets_its_field(monkeypatch, variable, field, text):
    monkeypatch.setenv(variable, text)
    assert getattr(Settings.read(), field) == text


@pytest.mark.parametrize(
    ("variable", "field"),
    [
        ("TIDEMARK_METRICS_NATIVE", "metrics_native"),
        ("TIDEMARK_METRICS_EXPORTER", "metrics_exporter"),
        ("TIDEMARK_METRICS_OWN", "metrics_own"),
        ("TIDEMARK_METRICS_QUEUES", "metrics_queues"),
    ],
)
def test_a_switch_takes_on_and_off(monkeypatch, variable, field):
    for text, value in {"on": True, "off": False}.items():
        monkeypatch.setenv(variable, text)
        assert getattr(Settings.read(), field) is value


def test_every_setting_is_described():
    for name, field in Settings.model_fields.items():
        assert field.description and field.description.endswith("."), name


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("TIDEMARK_NAMSRV", "did you mean TIDEMARK_NAMESRV?"),
        ("TIDEMARK_RAW_DAY", "did you mean TIDEMARK_RAW_DAYS?"),
        ("TIDEMARK_XQZJ", "tidemark config lists all settings"),
    ],
)
def test_an_unknown_name_is_warned_of(name, warning):
    assert warnings_of([name, "PATH"]) == [f"{name} is not a setting; {warning}"]


def test_known_names_give_no_warning():
    assert warnings_of([*NAMES, "TIDEMARK_TEST_VERSION", "HOME", "NOT_TIDEMARK_X"]) == []


def test_no_secret_is_shown(monkeypatch):
    for name in ("NOTIFY_URLS", "DIGEST_URLS", "HEARTBEAT_URL", "CATALOG_URI"):
        monkeypatch.setenv(f"TIDEMARK_{name}", "json://user:s3cret@host")
    settings = Settings.read()
    shown = repr((settings, settings.notifications, settings.catalog))
    assert "s3cret" not in shown
    assert "s3cret" in settings.notifications.urls
    assert "s3cret" in settings.notifications.digest_urls
    assert "s3cret" in settings.catalog.uri


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"TIDEMARK_HOME": "elsewhere", "TIDEMARK_NAMESRV": "a:1;b:2", "TIDEMARK_CLUSTER": "c"},
        {"TIDEMARK_CLUSTERS": "x.yaml", "TIDEMARK_DEBUG": "1", "TIDEMARK_CATALOG_TYPE": "sql"},
        {"TIDEMARK_DEBUG": "off", "TIDEMARK_HOME": ""},
    ],
)
def test_the_basic_settings_are_those_of_the_model(monkeypatch, environment):
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    assert BasicSettings.read() == Settings.read().basics


@pytest.mark.parametrize(
    ("name", "text"),
    [("SPARK_REMOTE", "http://localhost:15002"), ("SPARK_MASTER", "sprk://127.0.0.1:7077")],
)
def test_an_address_that_spark_does_not_know_is_refused(monkeypatch, name, text):
    monkeypatch.setenv(f"TIDEMARK_{name}", text)
    with pytest.raises(SettingsError, match=f"TIDEMARK_{name} takes "):
        Settings.read()


@pytest.mark.parametrize("text", ["local[2]", "spark://a:7077,b:7077", "yarn", "k8s://https://a"])
def test_every_master_of_spark_is_taken(monkeypatch, text):
    monkeypatch.setenv("TIDEMARK_SPARK_MASTER", text)
    assert Settings.read().spark_master == text


def test_how_members_are_counted_follows_the_variables(monkeypatch):
    monkeypatch.setenv("TIDEMARK_CLIENT_USE_PERCENT", "60")
    monkeypatch.setenv("TIDEMARK_CLIENT_MESSAGES", "100")
    with dg.build_resources({"machine": resources(Settings.read())["client_machine"]}) as built:
        assert built.machine.sizing() == Sizing(most_used=0.6, fewest_messages=100)


@pytest.mark.parametrize("percent", ["0", "101", "80%"])
def test_a_use_is_a_percentage(monkeypatch, percent):
    monkeypatch.setenv("TIDEMARK_CLIENT_USE_PERCENT", percent)
    with pytest.raises(SettingsError) as ended:
        Settings.read()
    assert str(ended.value).startswith(f"TIDEMARK_CLIENT_USE_PERCENT is {percent!r}: it takes a")
