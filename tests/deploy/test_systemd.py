"""The units of a plain host: systemd takes them, and their commands are real."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_lines import DEPLOY, GUARDED, SETTINGS, mistake
from tidemark.settings.secrets import PURPOSES, Process, purposes_of

UNITS = DEPLOY / "systemd"
COMMON = UNITS / "tidemark-.service.d" / "common.conf"
PROGRAMS = "/opt/tidemark/bin"

needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="no systemd-analyze here: apt-get install systemd"
)


@pytest.fixture
def units(tmp_path):
    """The units beside the programs of this environment."""
    folder = tmp_path / "units"
    shutil.copytree(UNITS, folder)
    for unit in folder.glob("*.service"):
        programs = str(Path(sys.executable).parent)
        unit.write_text(unit.read_text().replace(PROGRAMS, programs))
    return folder


def analyze(folder, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments],
        env={"SYSTEMD_UNIT_PATH": f"{folder}:", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )


def verified(folder) -> str:
    files = [
        str(path) for path in sorted(folder.iterdir()) if path.suffix in (".service", ".target")
    ]
    assert len(files) == 7
    done = analyze(folder, "verify", *files)
    return done.stdout + done.stderr


@needs_systemd
def test_systemd_finds_no_mistake(units):
    assert "tidemark" not in verified(units)


@needs_systemd
def test_systemd_would_find_one(units):
    board = units / "tidemark-board.service"
    board.write_text(board.read_text().replace("MemoryMax", "MemoryMaximum"))
    assert "MemoryMaximum" in verified(units)


@needs_systemd
def test_services_are_hardened(units):
    for unit in units.glob("*.service"):
        done = analyze(units, "security", "--offline=yes", "--threshold=25", str(unit))
        assert done.returncode == 0, done.stdout[-200:] + done.stderr


def test_commands_are_taken_by_their_programs():
    number = 0
    for unit in UNITS.glob("*.service"):
        (line,) = re.findall(r"(?m)^ExecStart=(.*)$", unit.read_text())
        program, *arguments = shlex.split(line)
        assert mistake([program.removeprefix(f"{PROGRAMS}/"), *arguments]) is None, unit.name
        number += 1
    assert number == 6


def test_variables_are_settings():
    text = "".join(path.read_text() for path in UNITS.rglob("*") if path.is_file())
    names = set(re.findall(r"\bTIDEMARK_\w+", text))
    assert len(names) > 5
    assert names <= SETTINGS


def test_the_page_makes_every_file_that_units_name():
    """Without clusters.yaml the collector ended again and again."""
    named = "".join(path.read_text() for path in UNITS.rglob("*") if path.is_file())
    files = set(re.findall(r"/etc/tidemark/([\w.]+\w)", named)) - {"workspace.yaml"}
    secrets = {f"{purpose.name}.env" for purpose in PURPOSES}
    assert files == {"tidemark.env", "clusters.yaml"} | secrets
    page = (DEPLOY.parent / "docs" / "deployment" / "artefacts.md").read_text()
    made = set(re.findall(r"(?m)^ *install .* /etc/tidemark/(\S+)$", page))
    (names,) = re.findall(r"(?m)^for name in (.*); do\n.*/etc/tidemark/\$name.env$", page)
    made = made - {"$name.env"} | {f"{name}.env" for name in names.split()}
    assert made == files and "cp deploy/dagster/*.yaml /etc/tidemark/" in page


def test_the_target_starts_every_service():
    wanted = re.findall(r"tidemark-\w+\.service", (UNITS / "tidemark.target").read_text())
    assert sorted(wanted) == sorted(path.name for path in UNITS.glob("*.service"))


@pytest.mark.parametrize("process", Process)
def test_a_process_has_the_secrets_that_it_needs_and_no_other(process):
    unit = (UNITS / f"tidemark-{process}.service").read_text()
    files = re.findall(r"(?m)^EnvironmentFile=-?/etc/tidemark/(\S+)$", unit)
    assert files == [f"{purpose.name}.env" for purpose in purposes_of(process)]
    assert re.findall(r"(?m)^EnvironmentFile=(.*)$", COMMON.read_text()) == [
        "/etc/tidemark/tidemark.env"
    ]


def test_secrets_stand_in_files_of_root():
    for path in (COMMON, *UNITS.glob("*.service"), UNITS / "tidemark.env.example"):
        assert not re.search(r"CHANGE_ME|PASSWORD|TOKEN=|_URI=", path.read_text()), path.name


def test_dagsters_pages_are_guarded_and_change_nothing():
    unit = (UNITS / "tidemark-webserver.service").read_text()
    assert f"ExecStart={PROGRAMS}/{' '.join(GUARDED)} " in unit
    assert "Environment=DAGSTER_WEBSERVER_READ_ONLY=true" in unit
