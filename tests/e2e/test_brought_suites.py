"""A suite of Great Expectations that was written elsewhere, dropped into the folder."""

import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import great_expectations as gx
import great_expectations.expectations as gxe
import pytest

from assets.partitions import partition_key
from spark.session.engine import Engine
from tests.support.browser import browser_page
from tests.support.cluster_history import PAST, put, rows
from tests.support.homes import DAGSTER, ROOT, Warm, dagster_job, environment, run, warmed
from tests.support.servers import free_port, listens, until
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.settings.home import Home

pytestmark = pytest.mark.spark

START = floor_hour(datetime.now(UTC)) - 2 * HOUR

SMALL = {"meta": {"name": "lag_is_small"}, "column": "lag", "max_value": 0}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, spark_engine: Engine) -> Iterator[Warm]:
    with warmed(Home.of(tmp_path_factory.mktemp("brought")), spark_engine) as made:
        put(made.home, START, PAST[:1])
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Suites as a file context writes them, and a file that is no suite."""
    root = tmp_path_factory.mktemp("elsewhere")
    context = gx.get_context(mode="file", project_root_dir=root)
    for table in ("progress.queues", "progress.groups"):
        suite = gx.ExpectationSuite(table)
        suite.add_expectation(gxe.ExpectColumnValuesToBeBetween(**SMALL))
        context.suites.add(suite)
    path = root / "gx" / "expectations"
    (path / "raw.topics.json").write_text("{")
    return path


def checks(home: Home) -> dict[tuple[str, str], dg.AssetCheckEvaluation]:
    """The newest run's evaluations by table and check."""
    with dg.DagsterInstance.from_config(str(home.dagster)) as instance:
        (newest,) = instance.get_runs(limit=1)
        events = [entry.dagster_event for entry in instance.all_logs(newest.run_id)]
    evaluations = [
        event.asset_check_evaluation_data
        for event in events
        if event and event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION
    ]
    return {
        (".".join(evaluation.asset_key.path), evaluation.check_name): evaluation
        for evaluation in evaluations
    }


def test_tick_fails_the_check_of_a_brought_expectation(home: Warm, folder: Path) -> None:
    done = run(home.home, ["tick", "--no-collect"], TIDEMARK_EXPECTATIONS=str(folder))

    assert done.returncode == 0, done.stderr
    assert f"left out: {folder / 'raw.topics.json'}:1:2: is not JSON" in done.stderr
    texts = checks(home.home)
    check = texts["progress.queues", "lag_is_small"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    sample = check.metadata["sample"].value["lag_is_small"]
    assert sample and all(row["lag"] > 0 for row in sample)
    assert texts["progress.queues", "consumer_offset_le_max_offset"].passed
    assert "lag_is_small" in texts["progress.queues", "expectations"].metadata[
        "failed_expectations"
    ].value.split(", ")
    (broken,) = rows(home.lake, "quality.results", expectation="suites_are_usable")
    assert (broken["success"], broken["unexpected"], broken["elements"]) == (False, 1, None)
    (stored,) = rows(home.lake, "quality.results", expectation="lag_is_small")
    computed = rows(home.lake, "progress.queues")
    lags = [row["lag"] for row in computed if row["lag"] is not None]
    assert (stored["table"], stored["success"]) == ("progress.queues", False)
    assert (stored["unexpected"], stored["elements"]) == (
        sum(lag > 0 for lag in lags),
        len(lags),
    )


@pytest.fixture
def dagster_ui(home: Warm, folder: Path, tmp_path: Path) -> Iterator[str]:
    """The address of Dagster's web server on that home."""
    port, log = free_port(), tmp_path / "webserver.log"
    command = [f"{DAGSTER}-webserver", "-m", "orchestration.definitions", "-p", str(port)]
    settings = {"DAGSTER_HOME": str(home.home.dagster), "TIDEMARK_EXPECTATIONS": str(folder)}
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, cwd=ROOT, env=environment(home.home, **settings), stdout=output, stderr=output
        )
    try:
        until(lambda: listens(port), server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)


def test_dagster_ui_shows_the_failed_check_by_its_name(dagster_ui: str) -> None:
    """Runs after the tick, which failed it."""
    with browser_page(base_url=dagster_ui) as page:
        page.goto("/assets/progress/queues?view=checks&checkDetail=lag_is_small")
        row = page.get_by_role("row", name=re.compile("^lag_is_small false [0-9]+ [0-9]+ warn "))
        row.wait_for()
        page.get_by_text("Succeeded").first.wait_for()
        shown = " ".join(page.locator("body").inner_text().split())
    assert " lag_is_small Failed " in shown
    assert " consumer_offset_le_max_offset Succeeded " in shown


def test_audit_shows_a_brought_expectation_in_data_docs(home: Warm, folder: Path) -> None:
    """Runs after the tick, whose rows it validates."""
    hour = {"config": {"hour": START.isoformat()}}

    settings = {"TIDEMARK_EXPECTATIONS": str(folder)}
    dagster_job(home.home, "audit", settings=settings, validate_hour=hour)

    texts = checks(home.home)
    assert not texts["progress.groups", "lag_is_small"].passed
    check = texts["quality.results", "hourly"]
    assert "suites_are_usable" in check.metadata["failed_expectations"].value
    assert ("progress.queues", "lag_is_small") not in texts, "ticks have its check"
    stored = rows(home.lake, "quality.results", expectation="lag_is_small")
    assert {(row["table"], row["success"]) for row in stored} == {
        ("progress.queues", False),
        ("progress.groups", False),
    }
    pages = home.home.path / "data_docs" / "uncommitted" / "data_docs" / "local_site"
    (page,) = pages.glob("validations/progress/groups/**/*.html")
    with browser_page(java_script_enabled=False, offline=True) as opened:
        opened.goto(page.as_uri())
        failed = opened.get_by_role("row").filter(has=opened.locator(".text-danger"))
        assert failed.count() == 1
        assert failed.inner_text().split()[:1] == ["lag_is_small:"]
        assert "(warn)" in failed.inner_text()


def test_materializing_an_old_hour_validates_that_hour(home: Warm) -> None:
    """By the hour of the partition, whatever the present hour; an hour without rows is skipped."""
    before = {row["run_id"] for row in rows(home.lake, "quality.results")}
    for hour in (START, START + HOUR):
        materialize(home.home, "progress/groups", hour)
    results = [row for row in rows(home.lake, "quality.results") if row["run_id"] not in before]
    windows = {(row["window_start"], row["window_end"]) for row in results}
    assert windows == {(START, START + HOUR), (START + HOUR, START + 2 * HOUR)}
    assert {row["judged_until"] for row in results} == {None}, "all of it was judged before"
    empty = [row for row in results if row["window_start"] > START]
    assert {(row["success"], row["unexpected"], row["elements"]) for row in empty} == {(None, 0, 0)}
    assert ("progress.groups", "hourly") not in checks(home.home), "of the empty hour"


def materialize(home: Home, asset: str, hour: datetime) -> None:
    """Materialize a partition of an asset as a person does, with the checks of the asset."""
    command = [str(DAGSTER), "asset", "materialize", "-m", "orchestration.definitions"]
    command += ["--select", asset, "--partition", partition_key(hour)]
    settings = {"DAGSTER_HOME": str(home.dagster)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment(home, **settings), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "emitted no result" not in done.stdout + done.stderr
