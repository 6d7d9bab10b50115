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
    assert first.startswith("setup: installing 1 packages: 1 GB to download, 2.4 GB on disk")
    assert "usually" in first
    assert last.startswith("setup: [") and last.endswith("done")
    assert done.returncode == 0


def test_a_failure_of_pip_is_one(tmp_path: Path) -> None:
    done = installed(tmp_path, "idna==0.0.0")
    assert done.returncode == 1
    assert "ERROR: No matching distribution found for idna==0.0.0" in done.stdout
    assert not done.stdout.endswith("done\n")
