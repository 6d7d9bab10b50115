"""Column lineage in Dagster is what Spark's plans of a tick show."""

import subprocess
import sys
from pathlib import Path

import pytest

from assets.metadata import PLANNED_LINEAGE
from tests.support.homes import ROOT


@pytest.mark.slow
@pytest.mark.spark
def test_shipped_lineage_is_that_of_the_plans(tmp_path: Path) -> None:
    made = tmp_path / PLANNED_LINEAGE.name
    command = [sys.executable, "-m", "tests.support.column_lineage", str(made)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert made.read_text() == PLANNED_LINEAGE.read_text(), f"{' '.join(command[1:3])} makes it"
