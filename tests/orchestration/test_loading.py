"""Dagster loads the definitions in many processes, which it leaves as they were."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.homes import ROOT

LOADED = """
import json, logging, os, sys, warnings
from dagster import BetaWarning
before = dict(os.environ)
from orchestration.definitions import defs
defs().get_repository_def().load_all_definitions()
changed = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
silenced = [kind for _, _, kind, _, _ in warnings.filters if kind is BetaWarning]
of_dagster = logging.getLogger("dagster._core.execution.plan.active").level
# The first takes half of the time, and every step of a project that mounts Tidemark loads this.
# DuckDB prints lines about leaks at the end of each process that is forked after its import.
heavy = [name for name in ("great_expectations", "scipy", "duckdb") if name in sys.modules]
print(json.dumps([sorted(changed), len(silenced), of_dagster, heavy]))
"""

PASSWORD = "wpRk3Jq"


def tree(folder: Path) -> list[str]:
    """Everything below a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("is_made", [False, True], ids=["absent", "read-only"])
@pytest.mark.parametrize(
    "catalog",
    [
        {},
        # Nothing listens there.
        {
            "TIDEMARK_CATALOG_TYPE": "sql",
            "TIDEMARK_CATALOG_URI": f"postgresql://lake:{PASSWORD}@127.0.0.1:1/lake",
            "TIDEMARK_WAREHOUSE": "s3://lake/warehouse",
            "TIDEMARK_S3_ENDPOINT": "http://127.0.0.1:1",
            "TIDEMARK_S3_ACCESS_KEY": "key",
            "TIDEMARK_S3_SECRET_KEY": PASSWORD,
        },
    ],
    ids=["of the home", "of a server"],
)
def test_loading_definitions_leaves_nothing_behind(tmp_path, is_made, catalog):
    person, home = tmp_path / "person", tmp_path / "home"
    if is_made:
        for folder in (person, home):
            folder.mkdir(mode=0o500)
    before = tree(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(person),
            "TIDEMARK_HOME": str(home),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(tmp_path),
            **catalog,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == [[], 0, 0, []]
    assert "Warning" not in done.stderr
    assert tree(tmp_path) == before
