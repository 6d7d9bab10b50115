"""The image: its packages are locked, and it runs as an ordinary user."""

import re
import tomllib
from fnmatch import fnmatch
from importlib.metadata import distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.checkout import ROOT
from tests.support.command_lines import DEPLOY, SETTINGS

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TEXT = (DEPLOY / "Containerfile").read_text()
INSTRUCTIONS = [
    line.split(maxsplit=1)
    for line in re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", TEXT)).splitlines()
    if line.strip()
]


def locked(name: str) -> dict[str, str]:
    """Package to its entry in a lock, with its hashes."""
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements" / name).read_text().strip())
    return {entry.split("==")[0]: entry.strip() for entry in entries}


def needed() -> set[str]:
    """Every package that the project needs outside development, and what those need."""
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["postgres"], *extras["mcp"], *extras["otlp"]]
    todo, entries = [Requirement(text) for text in wanted], set()
    seen: set[tuple[str, str]] = set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        entries.add(name)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for text in distribution(name).requires or ():
                below = Requirement(text)
                if not below.marker or below.marker.evaluate({"extra": extra}):
                    todo.append(below)
    return entries


def test_both_locks_have_the_same_versions():
    everything = locked("lock.txt")
    for name in ("runtime.txt", "build.txt"):
        for package, entry in locked(name).items():
            assert entry == everything[package], package
    assert locked("build.txt").keys() == {"setuptools"}


def test_the_lock_of_the_image_is_minimal():
    assert locked("runtime.txt").keys() == needed()


def test_every_package_of_the_image_has_a_hash():
    installs = re.findall(r"pip install (.*?)(?:&&|$)", " && ".join(it[1] for it in INSTRUCTIONS))
    assert len(installs) == 3
    for arguments in installs:
        assert "--no-deps" in arguments
        assert "--require-hashes" in arguments or "--no-index" in arguments
    fetched = [it for it in INSTRUCTIONS if it[0] == "ADD" or re.search(r"curl|wget", it[1])]
    assert fetched == []


def test_the_image_runs_as_a_user_without_rights():
    users = [it[1] for it in INSTRUCTIONS if it[0] == "USER"]
    assert users == ["10001:10001"]
    last = [it[0] for it in INSTRUCTIONS]
    after = INSTRUCTIONS[last.index("USER") :]
    assert "RUN" not in [it[0] for it in after]
    assert ["ENTRYPOINT", '["tini", "--"]'] in after


def test_the_image_sets_settings_only():
    variables = set(re.findall(r"\bTIDEMARK_\w+", TEXT))
    assert variables
    assert variables <= SETTINGS


def test_the_image_has_every_room_of_the_wheel():
    ignored = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    rooms = [it.rstrip("*") for it in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]
    declared = (PROJECT["project"]["readme"], *PROJECT["project"]["license-files"])
    for needed_file in (*rooms, *declared, "deploy", "requirements", "pyproject.toml"):
        assert (ROOT / needed_file).exists(), needed_file
        assert not [it for it in ignored if fnmatch(needed_file, it)], needed_file
