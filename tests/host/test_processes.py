"""A process is known by id and start, whatever the clock does meanwhile."""

import os
import subprocess
import sys

import psutil
import pytest

from tidemark.host.processes import find, identity, is_of_this_host, named, start_of


@pytest.mark.parametrize("step", [-1.0, 0.0, 1.0])
def test_a_clock_step_of_a_second_keeps_the_identity(monkeypatch, step):
    started_at = start_of()
    create_time = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: create_time(self) + step)
    process = find(os.getpid(), started_at)
    assert process and process.pid == os.getpid()


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_reused_id_is_another_process(seconds):
    assert find(os.getpid(), start_of() + seconds) is None


def test_a_zombie_has_ended():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started_at = start_of(process.pid)
    assert find(process.pid, started_at)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
    assert find(process.pid, started_at) is None
    process.communicate()
    assert find(process.pid, started_at) is None


def test_an_identity_names_the_process_and_its_host():
    mine = identity()
    process = named(mine)
    assert process and process.pid == os.getpid()
    assert is_of_this_host(mine)
    pid, started_at, host = mine.split("/")
    assert not is_of_this_host(f"{pid}/{started_at}/not-{host}")
    assert named(f"{pid}/1.0/{host}") is None
