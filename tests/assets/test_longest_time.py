"""A run whose longest time is over ends by itself, prints why and frees its lease."""

import os
import signal
import subprocess
import sys
import time

import pytest
from filelock import FileLock

from tests.support.homes import ROOT, environment

RUN = """
import signal, sys, time
import dagster as dg
from assets.resources import LakeResource

@dg.op
def step(lake: LakeResource) -> None:
    lake.alone()
    {body}

@dg.job(resource_defs={{"lake": LakeResource(home=sys.argv[1])}})
def job() -> None:
    step()

with dg.DagsterInstance.ephemeral() as instance:
    job.execute_in_process(instance=instance, tags={{"dagster/max_runtime": "6"}})
"""

WAITS = """
    print("at work", flush=True)
    time.sleep(600)
"""

STUCK = """
    while True:
        try:
            print("at work", flush=True)
            time.sleep(600)
        except BaseException:
            pass  # as a library that waits for what never comes
"""


def started(home, body):
    process = subprocess.Popen(
        [sys.executable, "-c", RUN.format(body=body), str(home.path)],
        cwd=ROOT,
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "at work\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("body", [WAITS, STUCK], ids=["waits", "is stuck"])
@pytest.mark.parametrize("starved", [False, True], ids=["", "starved"])
def test_a_run_ends_after_its_longest_time(lake, body, starved):
    process = started(lake.home, body)
    if starved:
        # On a machine that has no time for it: it goes on when its time has long been over.
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(8)
        os.kill(process.pid, signal.SIGCONT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "tidemark: the run has taken longer than 6 s (TIDEMARK_RUN_MINUTES)" in errors
    if body == STUCK:
        assert errors.splitlines()[-1].startswith("tidemark: it did not end within 20 s")
    with FileLock(lake.home.path / "run.lock", timeout=0):
        pass  # nobody holds it
