"""The wheel works outside the checkout: package data, definitions and the command line."""

import re
import shutil
import sys
import sysconfig
import tarfile
import tomllib
import zipfile

import pytest

from tests.support.checkout import ROOMS, ROOT, tracked
from tests.support.environments import environment
from tests.support.wheel import built_packages, installed_wheel, run

pytestmark = pytest.mark.wheel

PLACES = ("RECORD", "direct_url.json")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return installed_wheel(tmp_path_factory)


def test_the_wheel_has_the_files_of_its_rooms_and_no_other(tmp_path_factory):
    """A name at the top that is not ours could hide a package of another project."""
    rooms = set(ROOMS) - {"bench"}
    source, wheel = built_packages(tmp_path_factory)
    names = {it for it in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in it}
    tracked_names = {path.relative_to(ROOT).as_posix() for path in tracked()}
    assert names == {it for it in tracked_names if it.split("/")[0] in rooms}
    folder = source.name.removesuffix(".tar.gz")
    with tarfile.open(source) as archive:
        members = {it.name.removeprefix(f"{folder}/") for it in archive if it.isfile()}
    made = {it for it in members if it.startswith("tidemark.egg-info/")} | {"PKG-INFO", "setup.cfg"}
    beside = {
        "CHANGELOG.md",
        "LICENSE",
        "MANIFEST.in",
        "README.md",
        "pyproject.toml",
        "requirements/runtime.txt",
    }
    assert members - made == names | beside


def test_what_the_image_installs_is_equal_in_every_build(tmp_path_factory, tmp_path):
    """Instants, random orders or paths of a build would make each image another one."""
    source, _ = built_packages(tmp_path_factory)
    program = [sys.executable, "-m", "pip"]
    builds = []
    for number in range(2):
        variables = {"SOURCE_DATE_EPOCH": "315532800", "PYTHONHASHSEED": str(number + 1)}
        folder = tmp_path / f"build-{number}"
        build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source]
        done = run(*program, *build, folder=tmp_path, **variables)
        assert done.returncode == 0, done.stderr
        (wheel,) = folder.iterdir()
        # The same place in every build, as in the image: compiled modules name their source.
        environment = tmp_path / "environment"
        done = run(sys.executable, "-m", "venv", "--without-pip", environment, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        install = ["--python", environment / "bin" / "python", "install", "--no-deps", "--no-index"]
        done = run(*program, *install, wheel, folder=tmp_path, **variables)
        assert done.returncode == 0, done.stderr
        (site,) = (environment / "lib").glob("python*/site-packages")
        files = {it.relative_to(site): it.read_bytes() for it in site.rglob("*") if it.is_file()}
        builds.append({"wheel": wheel.read_bytes()} | files)
        shutil.rmtree(environment)
    first, second = builds
    assert any(str(name).endswith(".pyc") for name in first)
    differing = {str(name) for name in first | second if first.get(name) != second.get(name)}
    # These name the folder that the wheel was in, which is one place in the image.
    assert differing == {f"{wheel.name.rsplit('-', 3)[0]}.dist-info/{it}" for it in PLACES}


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


def test_uv_installs_the_command_and_no_other(tmp_path, tmp_path_factory):
    """The wheel alone, beside the locked packages: that they satisfy it is the image's test."""
    _, wheel = built_packages(tmp_path_factory)
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (it for it in archive.namelist() if it.endswith(".dist-info/METADATA"))
        needed = re.findall(r"(?m)^Requires-Dist: ([\w.-]+)", archive.read(name).decode())
    overrides = tmp_path / "none.txt"  # a marker that is never true takes a package out
    overrides.write_text("".join(f"{it}; sys_platform == 'never'\n" for it in needed))
    command = ["tool", "install", "--offline", "--python", sys.executable, "--overrides", overrides]
    folders = {f"UV_{name}_DIR": str(tmp_path / name) for name in ("TOOL", "TOOL_BIN", "CACHE")}
    done = run(environment("uv==0.13.9") / "uv", *command, wheel, folder=tmp_path, **folders)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "TOOL_BIN").iterdir()] == ["tidemark"]
    (site,) = (tmp_path / "TOOL" / "tidemark").glob("lib/python*/site-packages")
    (site / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    home = str(tmp_path / "home")
    check = ("rules", "check")
    checked = run(tmp_path / "TOOL_BIN/tidemark", *check, folder=tmp_path, TIDEMARK_HOME=home)
    assert checked.returncode == 0, checked.stdout + checked.stderr
