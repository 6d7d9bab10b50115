"""Every ready-made alert rule has a runbook that can be followed."""

import re
from pathlib import Path

import pytest
import yaml

from tidemark.alerting.rules.files import DEFAULT_RULES, load_rules

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"

RULES = {rule.name: rule for rule in load_rules(DEFAULT_RULES)}


def test_rules_and_runbooks_match_one_to_one() -> None:
    assert {page.stem for page in RUNBOOKS.glob("*.md")} - {"index"} == RULES.keys()


@pytest.mark.parametrize("rule", RULES)
def test_page_has_meaning_checks_and_actions(rule: str) -> None:
    page = (RUNBOOKS / f"{rule}.md").read_text()
    title, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    assert title.startswith(f"# {rule}\n")
    headings = [part.split("\n", 1)[0] for part in parts]
    assert headings == ["What it means", "What to check", "What to do"]
    assert all(len(part.split()) > 20 for part in parts)


def test_index_lists_rules_with_their_severity() -> None:
    rows = re.findall(
        r"^\| \[(.+)\]\((.+)\.md\) \| (\w+) \|", (RUNBOOKS / "index.md").read_text(), re.MULTILINE
    )
    assert rows == [(name, name, rule.severity) for name, rule in RULES.items()]


def test_navigation_has_every_page() -> None:
    text = (RUNBOOKS.parents[1] / "mkdocs.yml").read_text()
    pages = set(re.findall(r"runbooks/([\w-]+)\.md", str(yaml.safe_load(text)["nav"])))
    assert pages == {*RULES, "index"}
