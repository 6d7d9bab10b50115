"""`make setup` prints what it does and how far it is, and fails when pip does."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "requirements" / "install.sh"


def installed(tmp_path: Path, line: str) -> subprocess.CompletedProcess[str]:
    lock = tmp_path / "lock.txt"
    lock.write_text(f"{line} \\\n    --hash=sha256:{'0' * 64}\n")
    return subprocess.run(
        ["sh", str(SCRIPT), sys.executable, str(lock)],
        env=os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)},
        capture_output=True,
        text=True,
    )


def test_it_states_size_and_usual_time_first_and_ends_with_done(tmp_path: Path) -> None:
    done = installed(tmp_path, f"idna=={version('idna')}")
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("setup: installing 1 packages: about 1 GB to download, 2.4 GB on disk")
    assert "1 to 2 minutes" in first
    assert last.startswith("setup: [") and last.endswith("done")
    assert done.returncode == 0


def test_a_failure_of_pip_is_one(tmp_path: Path) -> None:
    done = installed(tmp_path, "idna==0.0.0")
    assert done.returncode == 1
    assert "ERROR: No matching distribution found for idna==0.0.0" in done.stdout
    assert not done.stdout.endswith("done\n")


def test_a_kill_of_pip_and_its_shell_is_a_failure(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -9 $PPID\n")
    python.chmod(0o755)
    lock = tmp_path / "lock.txt"
    lock.write_text("idna==1.0\n")
    done = subprocess.run(
        ["sh", str(SCRIPT), str(python), str(lock)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert not done.stdout.endswith("done\n")
