"""A forked run is as its client would have been: streams, folder, environment, and its end."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.support.homes import ROOT, environment
from tidemark.embedded import forking
from tidemark.embedded.forking import OWN_PACKAGES
from tidemark.settings.home import Home

pytestmark = pytest.mark.spark

PROGRAM = """
import sys
from tidemark.settings.home import Home
from tidemark.embedded import forking
sys.exit(forking.run(Home.of(sys.argv[1]), "tests.support.fork_probe", sys.argv[2:]))
"""


def run_program(home, *arguments, folder=ROOT, **settings):
    """A process that has a probe run in its place."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(home.path), *map(str, arguments)],
        cwd=folder,
        env=environment(home, **{"PYTHONPATH": str(ROOT)} | settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def waiting(home, path):
    """A client whose probe waits, and the probe's process."""
    client = run_program(home, "wait", path)
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text()):
        assert client.poll() is None and time.monotonic() < deadline, client.communicate()
        time.sleep(0.05)
    return client, psutil.Process(int(path.read_text()))


def test_it_has_the_streams_folder_environment_and_exit_code(warm_home, tmp_path):
    client = run_program(warm_home.home, "tell", 7, folder=tmp_path, PROBE="of the client")
    out, error = client.communicate("a word", timeout=30)
    assert client.returncode == 7
    assert out.splitlines() == ["to standard output", f"of the client|{tmp_path}|a word"]
    assert error.splitlines() == ["to standard error"]


def test_killed_clients_take_their_run_along(warm_home, tmp_path):
    client, probe = waiting(warm_home.home, tmp_path / "pid")
    client.kill()
    probe.wait(10)
    assert forking.running(warm_home.home)


def test_a_run_and_its_client_may_end_at_once(warm_home, tmp_path):
    """The server reads both ends together, and must keep serving the runs of others."""
    client, probe = waiting(warm_home.home, tmp_path / "pid")
    server = forking.running(warm_home.home)
    assert server
    os.kill(server.pid, signal.SIGSTOP)
    probe.kill()
    while probe.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    client.kill()
    client.wait(10)
    os.kill(server.pid, signal.SIGCONT)
    another = run_program(warm_home.home, "tell", 7, PROBE="x")
    assert another.communicate("a word", timeout=30)[1] == "to standard error\n"
    assert forking.running(warm_home.home) == server


def test_an_interrupt_reaches_the_run(warm_home, tmp_path):
    client, probe = waiting(warm_home.home, tmp_path / "pid")
    client.send_signal(signal.SIGINT)
    assert client.wait(10) == 42
    probe.wait(10)


def test_a_run_ended_by_a_signal_exits_as_shells(warm_home, tmp_path):
    client, probe = waiting(warm_home.home, tmp_path / "pid")
    probe.kill()
    assert client.wait(10) == 128 + signal.SIGKILL


def test_a_started_run_outlives_who_started_it(warm_home, tmp_path, monkeypatch):
    monkeypatch.setenv("PROBE", "told")
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "log"
    pid = forking.start(warm_home.home, "tests.support.fork_probe", ["tell", "0"], log)
    assert pid != os.getpid()
    with pytest.raises(psutil.NoSuchProcess):
        # It is the server's child: gone, not a zombie of ours.
        while True:
            psutil.Process(pid)
            time.sleep(0.05)
    assert f"told|{tmp_path}|" in log.read_text()


def test_a_run_finds_what_it_imports_imported(warm_home):
    client = run_program(warm_home.home, "modules", *OWN_PACKAGES)
    imported = set(client.communicate(timeout=30)[0].split())
    assert {"tidemark.cli.main", "orchestration.in_process", "expectations.gx_suite"} <= imported


def test_own_packages_are_all_that_a_server_imports(warm_home):
    """A change of a package that `installation` does not see would leave runs with old code."""
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    client = run_program(warm_home.home, "modules", *rooms)
    imported = client.communicate(timeout=30)[0].split()
    # The probe itself is imported by the run.
    assert {name.partition(".")[0] for name in imported} - {"tests"} == set(OWN_PACKAGES)


def test_the_installation_changes_with_a_source_file(tmp_path, monkeypatch):
    for package in OWN_PACKAGES:
        (tmp_path / package / "inner").mkdir(parents=True)
    monkeypatch.setattr(forking, "ROOT", tmp_path)
    source = tmp_path / "assets" / "inner" / "module.py"
    installations = {forking.installation()}
    source.write_text("VALUE = 1")
    installations.add(forking.installation())
    os.utime(source, ns=(1, 1))
    installations.add(forking.installation())
    assert len(installations) == 3
    (source.parent / "module.pyc").touch()
    assert forking.installation() in installations


def test_without_a_server_no_request_is_made(tmp_path):
    home = Home.of(tmp_path / "home")
    assert forking.run(home, "tests.support.fork_probe", []) is None
    assert forking.start(home, "tests.support.fork_probe", [], tmp_path / "log") is None


def test_a_server_restarts_when_the_installation_changed(tmp_path, monkeypatch):
    home, site = Home.of(tmp_path / "home"), tmp_path / "site"
    site.mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{site}")
    server = forking.up(home)
    try:

        def output():
            client = run_program(home, "tell", 7, PROBE="x", PYTHONPATH=f"{ROOT}:{site}")
            return client.communicate("a word", timeout=60)[0].splitlines()[:1]

        assert output() == ["to standard output"]
        (site / "library-2.0.dist-info").mkdir()
        assert output() == [], "the client does its own imports"
        deadline = time.monotonic() + 120
        while not output():
            assert time.monotonic() < deadline
            time.sleep(0.5)
        assert forking.running(home) == server
    finally:
        forking.down(home)
