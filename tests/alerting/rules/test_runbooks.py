"""Runbooks of alert rules become links that a reader can open."""

from pathlib import Path

import pytest

from assets.resources import RulesResource
from tidemark.alerting.rules.files import DEFAULT_RULES, load_rules, runbook_link, with_links

ROOT = Path(__file__).parents[3]

SITE = "https://docs.example.org/tidemark"


@pytest.mark.parametrize(
    ("runbook", "docs_url", "link"),
    [
        ("https://wiki/lag", SITE, "https://wiki/lag"),
        ("runbooks/lag-high.md", SITE, f"{SITE}/runbooks/lag-high.html"),
        ("runbooks/lag-high.md", f"{SITE}/", f"{SITE}/runbooks/lag-high.html"),
        ("runbooks/lag-high.md", "", "docs/runbooks/lag-high.md"),
        (None, SITE, None),
    ],
)
def test_link_of_a_runbook(runbook: str | None, docs_url: str, link: str | None) -> None:
    assert runbook_link(runbook, docs_url) == link


def test_each_ready_made_rule_links_to_its_own_page() -> None:
    for rule in with_links(load_rules(DEFAULT_RULES)):
        assert rule.runbook == f"docs/runbooks/{rule.name}.md"
        assert (ROOT / rule.runbook).is_file()


def test_rules_of_a_run_link_to_the_configured_site() -> None:
    rules, _ = RulesResource(path=str(DEFAULT_RULES), docs_url=SITE).rules()
    assert {rule.runbook for rule in rules} == {
        f"{SITE}/runbooks/{rule.name}.html" for rule in rules
    }
