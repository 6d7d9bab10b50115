"""Rules for every tracked file: no registry address, no path of one machine, a described room."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOMS, ROOT, tracked
from tidemark.settings.basics import NAMES


def room_folders() -> list[Path]:
    """Return the folder of each room: top-level packages, and those below `tidemark`."""
    below = sorted(path.parent for path in (ROOT / "tidemark").glob("*/__init__.py"))
    return [*(ROOT / room for room in ROOMS), *below]


def test_every_code_folder_has_an_import_contract():
    folders = {path.relative_to(ROOT).parts[0] for path in tracked() if path.suffix == ".py"}
    assert sorted(folders - {"docs", "tests"}) == ROOMS


def test_no_test_module_imports_from_another():
    """Helpers that several tests share are in `tests.support`."""
    imported = re.compile(r"from (?:tests\.[\w.]*|\.*)test_\w+ import|import tests\.[\w.]*test_")
    modules = (path for path in tracked() if path.parts[len(ROOT.parts)] == "tests")
    assert [
        path.relative_to(ROOT)
        for path in modules
        if path.suffix == ".py" and imported.search(path.read_text())
    ] == [Path("tests/alerting/delivery/test_digests.py")], "its program runs its own helpers"


def test_every_room_states_what_belongs_there():
    for room in room_folders():
        text = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
        assert "belong" in text, room
        assert re.search(r"\b(not|nothing)\b", text.lower()), room


def test_every_folder_of_a_room_has_a_docstring():
    for room in ROOMS:
        for path in (ROOT / room).rglob("__init__.py"):
            assert ast.get_docstring(ast.parse(path.read_text())), path


READS_VARIABLE = re.compile(
    r"""(?:environ(?:\.get)?[\[(]|getenv\()\s*["']TIDEMARK_\w+["'](?!\]\s*=)"""
)


def test_only_settings_read_our_variables():
    """The lab is started without Tidemark, and so reads the one variable of its own."""
    rooms = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if "settings" not in path.parts and READS_VARIABLE.search(path.read_text())
    }
    assert rooms == {"tidemark/lab/jars.py"}


def test_every_variable_is_set_in_a_test():
    """A test that passes the setting itself does not prove that the variable is read."""
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    named = set(re.findall(r"TIDEMARK_\w+", "\n".join(path.read_text() for path in tests)))
    assert [name for name in NAMES if name not in named] == []


@pytest.mark.slow
def test_no_module_stops_at_a_wrong_setting():
    """The command reports it in one line; an import would end in a traceback."""
    modules = [
        "tidemark.settings.environment",
        "tidemark.lake.catalog",
        "tidemark.alerting.delivery.channels",
        "tidemark.cli.main",
    ]
    wrong = {"TIDEMARK_RAW_DAYS": "many", "TIDEMARK_DIGEST_EVERY": "often", "TIDEMARK_RULES": "/no"}
    subprocess.run(
        [sys.executable, "-c", f"import {', '.join(modules)}"],
        cwd=ROOT,
        env={**os.environ, **wrong},
        check=True,
    )


REGISTRY = re.compile(
    r"pythonhosted|pypi\.|index-url|find-links|artifactory|npmjs|repo1\.|maven\.org|://[^/\s]*nexus",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|Users/\w+|home/\w+|mnt/\w+)/")
PREEXEC = re.compile(r"\bpreexec_fn=")
"""It runs Python in a fork: where the parent has used gRPC, threads of gRPC start in the fork too,
lose their descriptors and end it before the command begins, now and then."""


@pytest.mark.parametrize(
    "what, pattern",
    [
        ("a registry's address", REGISTRY),
        ("a path of one machine", MACHINE_PATH),
        ("a function between fork and exec", PREEXEC),
    ],
    ids=["registry", "path", "preexec"],
)
def test_no_tracked_file_holds(what, pattern):
    entries = []
    for path in tracked():
        if path == Path(__file__):
            continue
        text = path.read_bytes().decode("utf-8", errors="replace")
        lines = [text[: match.start()].count("\n") + 1 for match in pattern.finditer(text)]
        if str(ROOT) in text:
            lines.append(text[: text.index(str(ROOT))].count("\n") + 1)
        entries += [f"{path.relative_to(ROOT)}:{line}" for line in lines]
    assert entries == [], what


def test_the_lock_holds_hashes_and_no_address():
    text = (ROOT / "requirements" / "lock.txt").read_text()
    assert "--hash=sha256:" in text
    assert "://" not in text
