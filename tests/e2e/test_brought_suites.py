"""A suite of Great Expectations that was written elsewhere, dropped into the folder."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import great_expectations as gx
import great_expectations.expectations as gxe
import pytest

from lake.window import HOUR, floor_hour
from settings.home import Home
from spark.session.engine import Engine
from tests.support.cluster_history import PAST, put, rows
from tests.support.homes import Warm, dagster_job, run, warmed

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
    found = root / "gx" / "expectations"
    (found / "raw.topics.json").write_text("{")
    return found


def checks(home: Home) -> dict[tuple[str, str], dg.AssetCheckEvaluation]:
    """The newest run's evaluations by table and check."""
    with dg.DagsterInstance.from_config(str(home.dagster)) as instance:
        (newest,) = instance.get_runs(limit=1)
        events = [entry.dagster_event for entry in instance.all_logs(newest.run_id)]
    found = [
        event.asset_check_evaluation_data
        for event in events
        if event and event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION
    ]
    return {(".".join(each.asset_key.path), each.check_name): each for each in found}


def test_tick_fails_the_check_of_a_brought_expectation(home: Warm, folder: Path) -> None:
    done = run(home.home, ["tick", "--no-collect"], TIDEMARK_EXPECTATIONS=str(folder))

    assert done.returncode == 0, done.stderr
    assert f"left out: {folder / 'raw.topics.json'}:1:2: is not JSON" in done.stderr
    found = checks(home.home)
    check = found["progress.queues", "lag_is_small"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    sample = check.metadata["sample"].value["lag_is_small"]
    assert sample and all(row["lag"] > 0 for row in sample)
    assert found["progress.queues", "consumer_offset_le_max_offset"].passed
    assert "lag_is_small" in found["progress.queues", "expectations"].metadata[
        "failed_expectations"
    ].value.split(", ")
    (stored,) = rows(home.lake, "quality.results", expectation="lag_is_small")
    computed = rows(home.lake, "progress.queues")
    lags = [row["lag"] for row in computed if row["lag"] is not None]
    assert (stored["table"], stored["success"]) == ("progress.queues", False)
    assert (stored["unexpected"], stored["elements"]) == (
        sum(lag > 0 for lag in lags),
        len(lags),
    )


def test_audit_shows_a_brought_expectation_in_data_docs(home: Warm, folder: Path) -> None:
    """Runs after the tick, whose rows it validates."""
    hour = {"config": {"hour": START.isoformat()}}

    settings = {"TIDEMARK_EXPECTATIONS": str(folder)}
    dagster_job(home.home, "audit", settings=settings, validate_hour=hour)

    found = checks(home.home)
    assert not found["progress.groups", "lag_is_small"].passed
    assert ("progress.queues", "lag_is_small") not in found, "ticks have its check"
    stored = rows(home.lake, "quality.results", expectation="lag_is_small")
    assert {(row["table"], row["success"]) for row in stored} == {
        ("progress.queues", False),
        ("progress.groups", False),
    }
    pages = home.home.path / "data_docs" / "uncommitted" / "data_docs" / "local_site"
    (page,) = pages.glob("validations/progress/groups/**/*.html")
    assert "values must be less than or equal to" in page.read_text()
