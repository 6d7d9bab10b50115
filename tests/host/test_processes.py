"""A process is known by id and start; the command to paste is one that the shell there finds."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tidemark.host.processes import (
    elsewhere,
    find,
    here,
    identity,
    is_of_this_host,
    named,
    pasteable,
    start_of,
)


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


SCRIPT = Path(sys.executable).with_name("tidemark")


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{SCRIPT.parent}:/usr/bin")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "lag"])
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)


def test_its_name_is_enough_where_it_is_on_path(on_path: None) -> None:
    assert (here(), elsewhere()) == ("tidemark", "tidemark")


def test_an_active_environment_is_not_active_in_other_shells(
    on_path: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(SCRIPT.parent.parent))
    assert (here(), elsewhere()) == ("tidemark", str(SCRIPT))


def test_it_is_the_path_that_was_typed_where_it_is_not_on_path(
    on_path: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setattr(sys, "argv", [".venv/bin/tidemark", "lag"])
    assert (here(), elsewhere()) == (".venv/bin/tidemark", str(SCRIPT))


def test_another_command_of_that_name_on_path_is_not_it(
    on_path: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "tidemark"
    other.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (here(), elsewhere()) == (str(SCRIPT), str(SCRIPT))


def test_only_calls_of_the_command_change() -> None:
    text = "see tidemark doctor (tidemark lag), tidemark: x, .venv/bin/tidemark tick, my-tidemark a"
    assert pasteable(text, "./t") == (
        "see ./t doctor (./t lag), tidemark: x, .venv/bin/tidemark tick, my-tidemark a"
    )
