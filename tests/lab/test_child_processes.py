"""Processes are stopped by id and start time.

An id alone is not enough: after a reboot, or long enough, it belongs to another process.
"""

import os
import signal
import sys
import time

import psutil
import pytest

from tidemark.lab import child_processes
from tidemark.lab.child_processes import Process

# Prints that it started, then waits; `stubborn` ignores SIGTERM.
PATIENT = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + PATIENT


@pytest.fixture
def run(tmp_path):
    """Start Python code and return its process once it printed ``up``."""
    started = []

    def start(code: str) -> Process:
        log = tmp_path / f"{len(started)}.log"
        process = child_processes.start([sys.executable, "-c", code], log, os.environ)
        started.append(process)
        while "up" not in log.read_text():
            assert process.find() is not None, log.read_text()
            time.sleep(0.01)
        return process

    yield start
    child_processes.stop(started, graceful_seconds=0)


def test_a_reused_id_is_neither_found_nor_signalled(run):
    victim = run(PATIENT)
    reused = Process(pid=victim.pid, started_at=victim.started_at - 3600)
    assert reused.find() is None
    assert not reused.send(signal.SIGKILL)
    child_processes.stop([reused], graceful_seconds=0)
    assert victim.find() is not None


@pytest.mark.slow
def test_stop_ends_even_stubborn_and_stopped_processes(run):
    patient, stubborn, frozen = run(PATIENT), run(STUBBORN), run(PATIENT)
    frozen.send(signal.SIGSTOP)
    child_processes.stop([patient, stubborn, frozen], graceful_seconds=0.5)
    assert [process.find() for process in (patient, stubborn, frozen)] == [None] * 3
    # Gone for everybody, not only for us: no zombie is left.
    assert not any(psutil.pid_exists(process.pid) for process in (patient, stubborn, frozen))


@pytest.mark.slow
def test_a_frozen_process_works_no_more(run):
    """A signal is taken by one thread after another: a busy broker answered some requests yet."""
    busy = run(
        "import hashlib, threading;"
        "work = lambda: hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9);"
        "[threading.Thread(target=work).start() for _ in range(40)];"
        "print('up', flush=True)"
    )
    for _ in range(5):
        assert busy.freeze()
        threads = psutil.Process(busy.pid).threads()
        states = {psutil.Process(thread.id).status() for thread in threads}
        assert len(threads) > 40 and states == {psutil.STATUS_STOPPED}
        busy.send(signal.SIGCONT)
    child_processes.stop([busy], graceful_seconds=0)
    assert not busy.freeze()


def test_stopping_twice_does_nothing(run):
    process = run(PATIENT)
    child_processes.stop([process], graceful_seconds=5)
    child_processes.stop([process], graceful_seconds=5)
    assert process.find() is None


def test_a_process_has_a_session_of_its_own(run):
    process = run(PATIENT)
    assert os.getsid(process.pid) == process.pid != os.getsid(0)


def test_a_process_takes_terminations_that_its_parent_ignores(run):
    """As Dagster's code does in what a shell started in the background."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        process = run(PATIENT)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert process.send(signal.SIGTERM)
    assert psutil.Process(process.pid).wait(10) == -signal.SIGTERM


@pytest.mark.parametrize("graceful_seconds", [0, 600], ids=["killed", "asked to end"])
def test_what_another_process_started_is_gone_when_stopped(child_of_another, graceful_seconds):
    """As a broker of a demo that is killed by hand."""
    child = Process(pid=child_of_another.pid, started_at=child_of_another.create_time())
    child_processes.stop([child], graceful_seconds=graceful_seconds)
    assert child.find() is None


def test_a_process_runs_while_one_of_its_threads_does(run):
    """A thread that ends late keeps the ports open when the first one is a zombie already."""
    process = run(
        "import ctypes, threading, time;"
        "threading.Thread(target=time.sleep, args=[600]).start();"
        "print('up', flush=True);"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert process.find() is not None
    child_processes.stop([process], graceful_seconds=0)
    assert not psutil.pid_exists(process.pid)
