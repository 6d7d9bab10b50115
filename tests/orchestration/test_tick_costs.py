"""What a tick pays whatever its rows: each query, job and commit costs hundredths of a second.

Seconds depend on the machine; these counts do not. Who adds a query changes a number here, and
every tick of every installation pays for it.
"""

import json
import subprocess
import sys

import pytest

from settings.home import Home
from tests.support.homes import ROOT, environment

pytestmark = [pytest.mark.spark, pytest.mark.kills]

OF_TICKS = (
    {"queries": 13, "jobs": 30, "commits": 15},
    {"queries": 24, "jobs": 49, "commits": 29},
    {"queries": 14, "jobs": 33, "commits": 17},
)
"""Of the first tick, of one with what clients report, and of one after it."""


def test_a_tick_runs_no_more_queries_jobs_and_commits_than_before(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.tick_counts"],
        cwd=ROOT,
        env=environment(Home.of(tmp_path)),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert tuple(json.loads(line) for line in done.stdout.splitlines()) == OF_TICKS
