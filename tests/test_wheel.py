"""The wheel works outside the checkout: package data, definitions and the command line."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from tests.test_repository import ROOT, tracked

pytestmark = pytest.mark.wheel


def run(*command: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without the checkout on its path."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and not name.startswith(("TIDEMARK_", "DAGSTER_"))
    }
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return the bin folder of a new environment that holds the wheel and sees the locked rest."""
    folder = tmp_path_factory.mktemp("wheel")
    for path in tracked():
        copy = folder / "source" / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", folder, folder / "source"]
    built = run(sys.executable, *build, folder=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    shutil.rmtree(folder / "source")
    (wheel,) = folder.glob("tidemark-*.whl")
    environment = folder / "environment"
    made = run(sys.executable, "-m", "venv", "--without-pip", environment, folder=folder)
    assert made.returncode == 0, made.stderr
    python = environment / "bin" / "python"
    install = ["-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel]
    got = run(sys.executable, *install, folder=folder)
    assert got.returncode == 0, got.stderr
    (site,) = (environment / "lib").glob("python*/site-packages")
    # A plain path: files like the one of an editable install are not followed from there.
    (site / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment / "bin"


def test_the_version_is_that_of_the_project(installed, tmp_path):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    printed = run(installed / "tidemark", "--version", folder=tmp_path)
    assert printed.stdout.strip() == f"tidemark {version}", printed.stderr


def test_every_room_comes_from_the_wheel(installed, tmp_path):
    code = "import lab, orchestration; print(lab.__file__, orchestration.__file__)"
    printed = run(installed / "python", "-c", code, folder=tmp_path)
    assert printed.stdout.count(str(installed.parent)) == 2, printed.stderr


def test_the_workload_is_shipped(installed, tmp_path):
    code = "from lab.compiling import _SOURCES; print(*sorted(p.name for p in _SOURCES.iterdir()))"
    printed = run(installed / "python", "-c", code, folder=tmp_path)
    sources = sorted(path.name for path in (ROOT / "lab" / "workload").glob("*.java"))
    assert sources
    assert [name for name in printed.stdout.split() if name.endswith(".java")] == sources


def test_the_ready_made_rules_are_checked(installed, tmp_path):
    home = str(tmp_path / "home")
    checked = run(installed / "tidemark", "rules", "check", folder=tmp_path, TIDEMARK_HOME=home)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_doctor_finds_what_it_needs(installed, tmp_path):
    home = str(tmp_path / "home")
    doctor = run(installed / "tidemark", "doctor", folder=tmp_path, TIDEMARK_HOME=home)
    assert "Traceback" not in doctor.stderr
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr


def test_dagster_validates_the_shipped_workspace(installed, tmp_path):
    code = "import orchestration.definitions, tidemark.demo; print(tidemark.demo.WORKSPACE)"
    workspace = run(installed / "python", "-c", code, folder=tmp_path).stdout.split()[-1]
    assert workspace.startswith(str(installed.parent))
    command = ["-m", "dagster", "definitions", "validate", "-w", workspace]
    home = str(tmp_path / "home")
    validated = run(installed / "python", *command, folder=tmp_path, TIDEMARK_HOME=home)
    assert validated.returncode == 0, validated.stdout + validated.stderr


def test_the_shipped_workspace_is_that_of_the_checkout():
    shipped = ROOT / "orchestration" / "workspace.yaml"
    assert shipped.read_text() == (ROOT / "workspace.yaml").read_text()
