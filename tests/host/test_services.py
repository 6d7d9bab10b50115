"""Services start once and as a whole: a failed start leaves no process running."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tidemark.host.leases import FileLeases
from tidemark.host.services import NotStartedError, Service, bring_up
from tidemark.settings.home import Home

SLEEPS = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(60)"


@dataclass(frozen=True)
class Sleeper(Service):
    place: str

    def listens(self) -> bool:
        return Path(self.place).exists()


class Interrupted(Sleeper):
    def listens(self) -> bool:
        raise KeyboardInterrupt


@pytest.fixture
def start(tmp_path):
    """Starts a sleeper, and remembers them all."""
    started = []

    def one(kind=Sleeper, program=SLEEPS):
        place = tmp_path / "listens"
        process = subprocess.Popen([sys.executable, "-c", program, str(place)])
        started.append(psutil.Process(process.pid))
        created = started[-1].create_time()
        return kind(pid=process.pid, created=created, place=str(place))

    one.started = started
    yield one
    for process in started:
        if process.is_running():
            process.kill()


def up(start, tmp_path, kind=Sleeper, seconds=30.0, **how):
    state = tmp_path / "engine" / "sleeper.json"
    return bring_up(
        kind,
        FileLeases(Home.of(tmp_path)),
        state,
        lambda: start(kind, **how),
        lambda: state.unlink(missing_ok=True),
        seconds,
    )


def test_one_that_runs_is_found_again(start, tmp_path):
    first = up(start, tmp_path)
    assert first.process()
    assert up(start, tmp_path) == first
    assert len(start.started) == 1
    assert first.stop()
    assert up(start, tmp_path) != first


def test_one_that_another_process_started_is_gone_when_stopped(child_of_another):
    """As the engine of a demo that is stopped by hand."""
    created = child_of_another.create_time()
    service = Sleeper(pid=child_of_another.pid, created=created, place="")
    assert service.stop()
    assert service.process() is None
    assert not service.stop()


@pytest.mark.parametrize(
    ("kind", "how", "error"),
    [
        (Interrupted, {}, KeyboardInterrupt),
        (Sleeper, {"program": "import time; time.sleep(60)", "seconds": 0.3}, NotStartedError),
        (Sleeper, {"program": ""}, NotStartedError),
    ],
    ids=["interrupted", "too slow", "ended"],
)
def test_one_that_does_not_come_up_leaves_nothing(start, tmp_path, kind, how, error):
    with pytest.raises(error):
        up(start, tmp_path, kind, **how)
    (process,) = start.started
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    assert not (tmp_path / "engine" / "sleeper.json").exists()
