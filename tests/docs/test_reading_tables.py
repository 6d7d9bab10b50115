"""The Python examples of reading tables run as they stand, on tables with rows."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spark.session.packages import fetched_once, packages_of
from tests.support.board_home import add_snapshots, group
from tests.support.environments import environment
from tidemark.lake.catalog import Lake

PAGE = (Path(__file__).parents[2] / "docs" / "reading-tables.md").read_text()
EXAMPLES = {
    (section.split("\n")[0], number): example
    for section in PAGE.split("\n## ")
    for number, example in enumerate(re.findall(r"^```python\n(.*?)^```$", section, re.S | re.M))
}


def printed(program: Path | str, section: str, lake: Lake, number: int = 0) -> str:
    """Run an example on two groups; it is the only one of its section, or has a number."""
    now = datetime.now(UTC).replace(microsecond=0)
    add_snapshots(lake, {now: [group("mailer", lag=7), group("billing", lag=1234)]})
    done = subprocess.run(
        [program, "-c", EXAMPLES[section, number]],
        env=os.environ | {"TIDEMARK_HOME": str(lake.home.path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("billing") < done.stdout.index("mailer")
    assert "1234" in done.stdout
    return done.stdout


def test_every_example_is_run() -> None:
    assert EXAMPLES.keys() == {
        ("PyIceberg", 0),
        ("Polars", 0),
        ("DuckDB", 0),
        ("DuckDB", 1),
        ("Spark", 0),
    }


@pytest.mark.slow
@pytest.mark.parametrize("section", ["PyIceberg", "Polars", "DuckDB"])
def test_an_example_prints_the_rows(section: str, lake: Lake) -> None:
    printed(sys.executable, section, lake)


@pytest.mark.slow
def test_iceberg_scan_prints_the_rows(lake: Lake) -> None:
    """In an environment of the packages that the page installs: the newest DuckDB has no such."""
    (packages,) = re.findall(r"^pip install (duckdb==.*)$", PAGE, re.MULTILINE)
    printed(environment(*packages.split()) / "python", "DuckDB", lake, 1)


@pytest.mark.spark
def test_a_session_of_spark_prints_the_rows(lake: Lake) -> None:
    packages = packages_of(["sqlite"])
    assert all(f'"{it}"' in EXAMPLES["Spark", 0] for it in packages), "as the engine has them"
    with fetched_once(packages):
        printed(sys.executable, "Spark", lake)


def test_another_name_of_the_catalog_shows_nothing(lake: Lake) -> None:
    """The page therefore states the name."""
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{lake.home.catalog}"
    assert SqlCatalog("default", uri=uri).list_namespaces() == []
    assert ("progress",) in SqlCatalog("tidemark", uri=uri).list_namespaces()
