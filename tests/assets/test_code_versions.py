"""The code version of an asset changes with code that decides about its rows, and no other."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestration.definitions import build
from tests.support.checkout import ROOT
from tidemark.settings.environment import Settings

PACKAGES = ("assets", "expectations", "orchestration", "spark", "tidemark")

PRINT = """
from orchestration.definitions import build
from tidemark.settings.environment import Settings
graph = build(Settings()).resolve_asset_graph()
for key in sorted(graph.executable_asset_keys):
    print(".".join(key.path), graph.get(key).code_version)
"""


def versions(checkout: Path) -> dict[str, str]:
    """Versions by asset, of a process that imports a checkout."""
    done = subprocess.run(
        [sys.executable, "-c", PRINT], cwd=checkout, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("checkout")
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, place / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    return place


@pytest.fixture(scope="module")
def before(checkout: Path) -> dict[str, str]:
    return versions(checkout)


def test_every_asset_that_runs_make_has_one() -> None:
    graph = build(Settings()).resolve_asset_graph()
    without = {key for key in graph.executable_asset_keys if not graph.get(key).code_version}
    assert without == set()


@pytest.mark.slow
def test_it_is_the_same_in_every_process_and_place(before: dict[str, str]) -> None:
    assert before == versions(ROOT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "changed", "unchanged"),
    [
        pytest.param(
            "spark/progress/delay.py",
            {"progress.queues", "progress.groups"},
            {"progress.timeline", "progress.peaks", "raw.brokers", "landing"},
            id="a function that another module calls",
        ),
        pytest.param(
            "tidemark/rocketmq/collector.py",
            {"landing"},
            {"progress.groups", "raw.brokers"},
            id="the collector",
        ),
        pytest.param("tidemark/cli/main.py", set(), {"progress.groups", "landing"}, id="a command"),
    ],
)
def test_it_changes_with_the_code_that_decides(
    checkout: Path,
    before: dict[str, str],
    file: str,
    changed: set[str],
    unchanged: set[str],
) -> None:
    path = checkout / file
    text = path.read_text()
    path.write_text(f"{text}\n_ADDED = 1\n")
    try:
        after = versions(checkout)
    finally:
        path.write_text(text)
    differ = {name for name in before if before[name] != after[name]}
    assert changed <= differ
    assert not unchanged & differ


@pytest.mark.slow
def test_a_declaration_changes_the_version_of_its_table_alone(
    checkout: Path, before: dict[str, str]
) -> None:
    path = checkout / "tidemark/lake/tables/progress.py"
    text = path.read_text()
    path.write_text(text.replace('"start of the hour"', '"first instant of the hour"'))
    try:
        after = versions(checkout)
    finally:
        path.write_text(text)
    differ = {name for name in before if before[name] != after[name]}
    assert differ == {"progress.peaks", "progress.objectives"}
