"""Fixed costs of a tick: each query, job and commit takes hundredths of a second.

Seconds depend on the machine; these counts do not. An engineer who adds a query changes a number
here, and every tick of every installation pays for it.
"""

import json
import subprocess
import sys

import pytest

from tests.support.homes import ROOT, environment
from tidemark.settings.home import Home

pytestmark = [pytest.mark.spark, pytest.mark.kills]

MOST_OF_TICKS = (
    {"queries": 14, "jobs": 14, "commits": 16},
    {"queries": 25, "jobs": 25, "commits": 30},
    {"queries": 15, "jobs": 15, "commits": 18},
)
"""Most queries, jobs and commits of the first tick, of one with client reports, of a later one."""


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
    ticks = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ticks) == len(MOST_OF_TICKS)
    for counted, most in zip(ticks, MOST_OF_TICKS, strict=True):
        assert {name: number for name, number in counted.items() if number > most[name]} == {}
