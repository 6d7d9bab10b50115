"""A command that is interrupted leaves no process, and its line about that is checked."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from tidemark.cli.supervision import SIGNALS

COMMAND = """
import subprocess, sys, time
from tidemark.cli import supervision

supervision.TERM_SECONDS = 0.5

def start(program):
    command = ["sh", "-c", program]
    nothing = subprocess.DEVNULL
    subprocess.Popen(command, start_new_session=True, stdout=nothing, stderr=nothing)

code = supervision.supervise(lambda line: print(line, flush=True), is_endless=True)
if code is None:
    # In sessions of their own; the second one loses its parent, the third one ignores SIGTERM.
    start("sleep 600")
    start("sleep 600 & exit 0")
    start("trap '' TERM; while :; do sleep 1; done")
    print("begun", flush=True)
    try:
        time.sleep(600 if len(sys.argv) < 2 else 1)
    except BaseException as error:
        print(f"interrupted by {error!r}", flush=True)
    code = 7
sys.exit(code)
"""

NAME = "TEST_SUPERVISION"


def started(name: Path, *arguments: str, by: Sequence[str] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*by, sys.executable, "-c", COMMAND, *arguments],
        env=os.environ | {NAME: str(name)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def left(name: Path) -> list[psutil.Process]:
    """The processes that were started with a variable of the test."""
    result = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(NAME) == str(name):
                result.append(process)
        except psutil.Error:
            continue
    return result


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("times", [1, 10])
def test_a_signal_ends_whatever_was_started(number: int, times: int, tmp_path: Path) -> None:
    process = started(tmp_path)
    assert process.stdout
    assert process.stdout.readline() == "begun\n"
    for _ in range(times):
        if process.poll() is None:
            os.killpg(process.pid, number)
            time.sleep(0.02)
    lines = process.stdout.read().splitlines()
    assert lines == ["stopping, which takes seconds", "no process is left"]
    assert process.wait() == 0, "a work without an end succeeds when it is ended"
    assert left(tmp_path) == []


@pytest.mark.slow
def test_nothing_is_left_where_nobody_reads_the_report(tmp_path: Path) -> None:
    """As in ``demo | tee log``: Ctrl-C ends `tee` first."""
    process = started(tmp_path)
    assert process.stdout
    assert process.stdout.readline() == "begun\n"
    process.stdout.close()
    process.send_signal(signal.SIGINT)
    process.wait()
    assert left(tmp_path) == []


@pytest.mark.slow
def test_a_hangup_that_is_ignored_ends_nothing(tmp_path: Path) -> None:
    process = started(tmp_path, "soon", by=["nohup"])
    assert process.stdout
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGHUP)
    assert process.stdout.read().splitlines()[-1] == "no process is left"
    assert process.wait() == 7, "the work ended by itself"


@pytest.mark.slow
def test_work_that_ends_by_itself_keeps_its_code_and_leaves_nothing(tmp_path: Path) -> None:
    process = started(tmp_path, "soon")
    output, _ = process.communicate()
    assert output.splitlines()[-1] == "no process is left"
    assert process.returncode == 7
    assert left(tmp_path) == []


@pytest.mark.slow
def test_a_process_that_cannot_be_ended_is_named(tmp_path: Path) -> None:
    gives_up_at_once = COMMAND.replace("TERM_SECONDS = 0.5", "KILL_SECONDS = -100")
    process = subprocess.run(
        [sys.executable, "-c", gives_up_at_once, "soon"],
        env=os.environ | {NAME: str(tmp_path)},
        capture_output=True,
        timeout=60,
        text=True,
    )
    remaining = left(tmp_path)
    for it in remaining:
        it.kill()
    last = process.stdout.splitlines()[-1]
    assert last.startswith("these processes are left: ")
    assert remaining and all(str(it.pid) in last for it in remaining)
    assert process.returncode == 1
