"""Ctrl-C while the demo boots: nothing is left, whatever has been started by then."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench import interrupts
from tidemark.lab.layout import free_port_base

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

SIGNALS = 10

SECONDS = 300
"""Longest time for its end; else it goes on."""


@pytest.mark.parametrize("moment", ["engine", "namesrv", "broker-a"])
def test_an_interrupted_start_leaves_nothing(moment: str, tmp_path: Path) -> None:
    base = free_port_base()
    ports = ("--port", str(base), "--board-port", str(base + 1))
    process = subprocess.Popen(
        [Path(sys.executable).with_name("tidemark"), "demo", *ports],
        env=os.environ | {"TIDEMARK_HOME": str(tmp_path / "home"), interrupts.MARK: str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr
    try:
        for line in process.stderr:
            if moment in line:
                for _ in range(SIGNALS):
                    os.killpg(process.pid, signal.SIGINT)
                break
        _, rest = process.communicate(timeout=SECONDS)
        assert rest.splitlines()[-1] == "demo: no process is left"
        assert process.returncode == 0
        assert interrupts.marked(str(tmp_path)) == []
    finally:
        for it in interrupts.marked(str(tmp_path)):
            it.kill()
