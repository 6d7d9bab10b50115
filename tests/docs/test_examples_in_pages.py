"""YAML examples of the pages are files that Tidemark reads without a mistake."""

import re
from collections.abc import Callable
from pathlib import Path
from types import NoneType

import pytest
import yaml

from expectations import brought_suites, tolerances
from orchestration.mounting import TidemarkComponent
from tidemark.alerting.rules.files import load_rules
from tidemark.settings import health, objectives, owners
from tidemark.settings.clusters import AclSettings, ClusterSettings, TlsSettings, load_clusters
from tidemark.settings.environment import Settings
from tidemark.settings.owners import read_machines

ROOT = Path(__file__).parents[2]

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def examples() -> list[tuple[str, str]]:
    """Return page and text of each YAML example."""
    return [
        (page.relative_to(ROOT).as_posix(), block)
        for page in PAGES
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    ]


def mistakes_of_entries(read: Callable[[Path], tuple[object, list[str]]]) -> Callable[[Path], None]:
    def check(file: Path) -> None:
        entries, mistakes = read(file)
        assert entries
        assert mistakes == []

    return check


def component(file: Path) -> None:
    """Resolve a component as `dg` does."""
    content = yaml.safe_load(file.read_text())
    assert content["type"] == f"{TidemarkComponent.__module__}.{TidemarkComponent.__name__}"
    resolved = TidemarkComponent.resolve_from_yaml(yaml.safe_dump(content["attributes"]))
    assert resolved.settings.keys() <= Settings.model_fields.keys()


READERS: dict[str, Callable[[Path], object]] = {
    "clusters": load_clusters,
    "rules": load_rules,
    "inhibit": load_rules,
    "receivers": load_rules,
    "health": mistakes_of_entries(health.read),
    "capacity": mistakes_of_entries(read_machines),
    "quality": mistakes_of_entries(tolerances.read),
    "objectives": mistakes_of_entries(objectives.read),
    "owners": mistakes_of_entries(owners.read),
    "type": component,
}
"""First key of a file to its reader, which raises or fails for a mistake."""


@pytest.mark.parametrize(("page", "text"), examples(), ids=[page for page, _ in examples()])
def test_example_is_read_without_a_mistake(tmp_path: Path, page: str, text: str) -> None:
    file = tmp_path / "example.yaml"
    file.write_text(text)
    READERS[text.split(":", 1)[0]](file)


@pytest.mark.slow
def test_the_suite_of_the_page_has_no_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "data-quality.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(example, {})

    brought_expectations, mistakes = brought_suites.read(
        tmp_path / "quality" / "gx" / "expectations"
    )

    assert mistakes == []
    assert [
        brought_expectation.name for brought_expectation in brought_expectations["progress.groups"]
    ] == [
        "lag_is_small",
        "expect_column_values_to_match_regex_consumer_group",
    ]


def test_every_kind_of_file_has_an_example() -> None:
    assert {text.split(":", 1)[0] for _, text in examples()} == READERS.keys()


def test_operations_names_every_field_of_a_cluster() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    for model in (ClusterSettings, AclSettings, TlsSettings):
        offered = [name for name, it in model.model_fields.items() if it.annotation is not NoneType]
        missing = [name for name in offered if not re.search(rf"\b{name}\b", text)]
        assert missing == []
