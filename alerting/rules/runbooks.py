"""Links to runbooks: from the page that a rule names to an address that a reader can open."""

from collections.abc import Iterable

from alerting.rules.model import Rule

FOLDER = "docs"
"""Folder of the repository that holds the pages of the documentation."""


def runbook_link(runbook: str | None, docs_url: str = "") -> str | None:
    """Return where a runbook can be read.

    Args:
        runbook: an http(s) address, or a page of the documentation: ``runbooks/lag-high.md``.
        docs_url: address of the documentation site; empty when there is none.

    Returns:
        The address as it is, the address of the page on the site, or without a site the path of
        the page in the repository. None without a runbook.
    """
    if runbook is None or "://" in runbook:
        return runbook
    if docs_url:
        return f"{docs_url.rstrip('/')}/{runbook.removesuffix('.md')}.html"
    return f"{FOLDER}/{runbook}"


def with_links(rules: Iterable[Rule], docs_url: str = "") -> list[Rule]:
    """Return the rules with the link to the runbook in place of its page."""
    return [
        rule.model_copy(update={"runbook": runbook_link(rule.runbook, docs_url)}) for rule in rules
    ]
