"""The checkout that the tests run in: its root, its rooms, its tracked files."""

import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


ROOMS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "root_packages"
]


def tracked() -> list[Path]:
    """Return every tracked file."""
    process = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if process.returncode:
        pytest.skip("not a git checkout: which files are tracked is unknown")
    return [ROOT / name for name in process.stdout.split("\0") if name and (ROOT / name).is_file()]
