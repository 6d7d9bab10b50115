"""The wheel works outside the checkout: package data, definitions and the command line."""

import tomllib

import pytest

from tests.support.checkout import ROOT
from tests.support.wheel import installed_wheel, run

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return installed_wheel(tmp_path_factory)


def test_the_version_is_that_of_the_project(installed, tmp_path):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    printed = run(installed / "tidemark", "--version", folder=tmp_path)
    assert printed.stdout.strip() == f"tidemark {version}", printed.stderr


def test_every_room_comes_from_the_wheel(installed, tmp_path):
    code = "import orchestration, tidemark; print(orchestration.__file__, tidemark.__file__)"
    printed = run(installed / "python", "-c", code, folder=tmp_path)
    assert printed.stdout.count(str(installed.parent)) == 2, printed.stderr


def test_the_workload_is_shipped(installed, tmp_path):
    folder = "Path(lab.__path__[0], 'workload')"
    names = f"sorted(path.name for path in {folder}.iterdir())"
    code = f"from tidemark import lab; from pathlib import Path; print(*{names})"
    printed = run(installed / "python", "-c", code, folder=tmp_path)
    sources = sorted(path.name for path in (ROOT / "tidemark" / "lab" / "workload").glob("*.java"))
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
    code = "import orchestration; print(orchestration.__path__[0] + '/workspace.yaml')"
    workspace = run(installed / "python", "-c", code, folder=tmp_path).stdout.split()[-1]
    assert workspace.startswith(str(installed.parent))
    command = ["-m", "dagster", "definitions", "validate", "-w", workspace]
    home = str(tmp_path / "home")
    validated = run(installed / "python", *command, folder=tmp_path, TIDEMARK_HOME=home)
    assert validated.returncode == 0, validated.stdout + validated.stderr


def test_the_shipped_workspace_is_that_of_the_checkout():
    shipped = ROOT / "orchestration" / "workspace.yaml"
    assert shipped.read_text() == (ROOT / "workspace.yaml").read_text()
