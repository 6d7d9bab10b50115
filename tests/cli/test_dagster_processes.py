"""Dagster's processes: forked with the modules of their parent, and ended by their ids."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidemark.cli.dagster_processes import CHECKS, DagsterProcesses, stop
from tidemark.cli.invocation import CommandError
from tidemark.settings.home import Home


def test_a_process_that_has_the_id_of_an_ended_one_is_left_alone() -> None:
    ended, other = subprocess.Popen(["true"]), subprocess.Popen(["sleep", "600"])
    try:
        ended.wait()
        ended.pid = other.pid  # as the system may give it again
        stop([ended])
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.fixture
def processes(tmp_path, monkeypatch):
    home = Home.of(tmp_path)
    home.dagster.mkdir(parents=True)
    monkeypatch.setenv("LEFT_OUT", "yes")
    made = DagsterProcesses(home=home, environment={"GIVEN": "yes"})
    yield made
    stop(made.running.values())


def ended(processes, name):
    until = time.monotonic() + 60
    while (code := processes.running[name].poll()) is None and time.monotonic() < until:
        time.sleep(0.02)
    return code


def test_a_forked_program_has_its_own_session_name_folder_streams_and_environment(processes):
    def program() -> None:
        name = Path("/proc/self/comm").read_text().strip()
        known = sorted({"GIVEN", "LEFT_OUT", *CHECKS} & os.environ.keys())
        lines = (name, os.getpid() == os.getsid(0), Path.cwd(), sys.argv, known, os.read(0, 1))
        os.write(1, repr(lines).encode())  # pytest has another `sys.stdout`

    processes._fork("webserver", program, "--port", "1")
    assert ended(processes, "webserver") == 0
    arguments, known = ["webserver", "--port", "1"], sorted({"GIVEN", *CHECKS})
    expected = ("webserver", True, processes.home.path, arguments, known, b"")
    assert processes.log("webserver").read_text() == repr(expected)


def test_nothing_of_the_supervisor_happens_when_a_forked_program_ends(processes, tmp_path):
    def fails() -> None:
        raise ValueError("no such place")

    supervisor, mark = os.getpid(), tmp_path / "ended"
    try:
        processes._fork("code-server", fails)
        processes._fork("dagster-daemon", lambda: sys.exit(3))
    finally:
        if os.getpid() != supervisor:
            mark.touch()
    assert ended(processes, "code-server") == 1
    assert ended(processes, "dagster-daemon") == 3
    assert not mark.exists()
    with pytest.raises(CommandError, match=r"code-server ended with 1; see .*code-server\.log"):
        processes.check()


def test_a_forked_program_is_stopped(processes):
    processes._fork("dagster-daemon", lambda: time.sleep(600))
    processes.check()
    stop(processes.running.values())
    assert processes.running["dagster-daemon"].poll() is not None
