"""A real Prometheus scrapes a board; rules, dashboards and expressions are run through it."""

import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.generate.metrics import EXPRESSIONS
from tests.support import board_home, metrics_home
from tests.support.prometheus import DEPLOY, Prometheus, installed, scraping, until
from tests.support.served import served
from tidemark.board.application import application
from tidemark.board.metrics.endpoint import SOURCES
from tidemark.board.metrics.exposition import metrics_of
from tidemark.board.store import Store
from tidemark.lake.catalog import CatalogConfig, Lake
from tidemark.settings.home import Home
from tidemark.settings.sections import MetricsSettings, OtlpSettings

HERE = DEPLOY / "prometheus"
KNOWN = yaml.safe_load(EXPRESSIONS.read_text())
WHERE = f'Cluster="{board_home.CLUSTER}",Env="production"'
NAMES = {metric.name for _, metric in metrics_of(SOURCES)}


pytestmark = pytest.mark.slow


def names_in(expression: str) -> set[str]:
    """The metrics that an expression is about."""
    return set(re.findall(r"\b(?:rocketmq|tidemark)_\w+", expression))


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a board whose home has a value for every metric."""
    home = Home.of(tmp_path_factory.mktemp("metrics") / "home")
    lake = Lake(home, CatalogConfig.of(home))
    metrics_home.fill(lake, board_home.now())
    # Nobody listens there: a failed export counts.
    otlp = OtlpSettings(endpoint="http://127.0.0.1:9", seconds=3600)
    with served(application(Store(lake), MetricsSettings(queues=True), otlp=otlp)) as address:
        yield address


@pytest.fixture(scope="module")
def prometheus(board: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    with scraping(board, board_home.CLUSTER, folder) as result:
        until(lambda: result.query("count_over_time(tidemark_build_info[5m]) >= 2"), "two scrapes")
        yield result


def run(*command: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=120, cwd=HERE
    )


def test_every_metric_has_a_sample(prometheus: Prometheus) -> None:
    missing = [name for name in sorted(NAMES) if not prometheus.query(name)]
    assert not missing


def test_the_scrape_is_without_fault(prometheus: Prometheus) -> None:
    target = prometheus.target()
    assert (target["health"], target["lastError"]) == ("up", "")


def test_promtool_finds_fault_only_with_names_of_others(board: str) -> None:
    """Names of the exporter and of brokers are theirs; our own follow Prometheus' conventions."""
    with urllib.request.urlopen(f"http://{board}/metrics", timeout=60) as response:
        page = response.read().decode()
    process = run(installed("promtool"), "check", "metrics", text=page)
    faults = [line for line in (process.stdout + process.stderr).splitlines() if line.strip()]
    others = {
        m.name for source, m in metrics_of(SOURCES) if source.family in ("native", "exporter")
    }
    assert not [line for line in faults if line.split(" ")[0] not in others]


def test_the_configuration_and_rules_are_valid() -> None:
    promtool = installed("promtool")
    assert run(promtool, "check", "config", "prometheus.yml").returncode == 0
    tested = run(promtool, "test", "rules", "tidemark-tests.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def rules() -> list[dict[str, Any]]:
    files = [HERE / "tidemark-recording.yml", HERE / "tidemark-alerts.yml"]
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"]]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("record") or rule["alert"])
def test_rules_name_metrics_that_there_are(rule: dict[str, Any]) -> None:
    assert names_in(rule["expr"]) <= NAMES
    runbook = rule.get("annotations", {}).get("runbook")
    assert runbook is None or (DEPLOY.parent / "docs" / runbook).is_file()


def test_recorded_series_have_values(prometheus: Prometheus) -> None:
    for rule in rules():
        if "record" in rule:
            until(lambda name=rule["record"]: prometheus.query(name), rule["record"])


def known(kind: str) -> list[Any]:
    return [
        pytest.param(expression, id=f"{item['from']}: {expression}")
        for item in KNOWN
        for expression in item.get(kind, ())
    ]


@pytest.mark.parametrize("expression", known("answered"))
def test_known_expressions_are_answered(prometheus: Prometheus, expression: str) -> None:
    rows = prometheus.query(expression.replace("$where", WHERE))
    assert rows
    assert not [row for row in rows if row["value"][1] == "NaN"]


@pytest.mark.parametrize("expression", known("unanswered"))
def test_what_is_not_answered_is_of_metrics_we_lack(expression: str) -> None:
    assert not names_in(expression) & NAMES
