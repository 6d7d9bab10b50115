"""The Python examples of reading tables run as they stand, on tables with rows."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.board_home import add_snapshots, group
from tidemark.lake.catalog import Lake

PAGE = Path(__file__).parents[2] / "docs" / "reading-tables.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES, ids=["pyiceberg", "duckdb"])
def test_an_example_prints_the_rows(example: str, lake: Lake) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    add_snapshots(lake, {now: [group("mailer", lag=7), group("billing", lag=1234)]})
    done = subprocess.run(
        [sys.executable, "-c", example],
        env=os.environ | {"TIDEMARK_HOME": str(lake.home.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("billing") < done.stdout.index("mailer")
    assert "1234" in done.stdout


def test_another_name_of_the_catalog_shows_nothing(lake: Lake) -> None:
    """The page therefore states the name."""
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{lake.home.catalog}"
    assert SqlCatalog("default", uri=uri).list_namespaces() == []
    assert ("progress",) in SqlCatalog("tidemark", uri=uri).list_namespaces()
