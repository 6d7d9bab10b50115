"""The generated reference has an entry for everything that is declared."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generate.commands import commands, options
from docs.generate.modules import ROOMS
from docs.generate.pages import pages
from expectations.audit_suites import AUDIT_EXPECTATIONS
from tidemark.alerting.rules.files import DEFAULT_RULES, load_rules
from tidemark.alerting.rules.kinds import KINDS
from tidemark.board.metrics.endpoint import SOURCES
from tidemark.board.metrics.exposition import metrics_of
from tidemark.cli.main import COMMANDS
from tidemark.lake.schema import type_text
from tidemark.lake.tables import TABLES
from tidemark.settings.basics import NAMES
from tidemark.settings.environment import Settings, variable_of

ROOT = Path(__file__).parents[2]

NOT_DOCUMENTED = {"docs", "tests"}
"""Packages that are no part of the product."""


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    return {Path(path).stem: text for path, text in pages().items()}


def sections(page: str) -> dict[str, list[list[str]]]:
    """Return heading to the cells of each row below it."""
    texts: dict[str, list[list[str]]] = {}
    heading = ""
    for line in page.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("#").strip()
            texts[heading] = []
        elif line.startswith("| ") and heading:
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            texts[heading].append([cell.strip().replace("\\|", "|") for cell in cells])
    return texts


def test_every_column_of_every_table_has_its_row(reference: dict[str, str]) -> None:
    texts = sections(reference["tables"])
    for table in TABLES.values():
        rows = {row[0]: row for row in texts[table.name]}
        for column in table.columns:
            assert rows[f"`{column.name}`"] == [
                f"`{column.name}`",
                f"`{type_text(column.type)}`",
                "key" if column.name in table.key else "",
                " ".join(column.comment.split()),
            ]
        assert table.comment in reference["tables"]


def test_every_expectation_has_its_row(reference: dict[str, str]) -> None:
    texts = sections(reference["expectations"])
    for table, declared in AUDIT_EXPECTATIONS.items():
        rows = {row[0]: row[1] for row in texts[table]}
        assert {
            f"`{expectation.name}`": expectation.severity for expectation in declared
        }.items() <= rows.items()


def test_every_command_and_option_has_its_row(reference: dict[str, str]) -> None:
    texts = sections(reference["commands"])
    paths = dict(commands())
    assert {path.split()[0] for path in paths} == COMMANDS.keys()
    for path, command in paths.items():
        rows = " ".join(row[0] for row in texts[f"tidemark {path}"])
        for option in options(command):
            assert option.human_readable_name in rows or option.opts[0] in rows


def test_every_setting_has_its_row(reference: dict[str, str]) -> None:
    rows = {row[0].strip("`"): row for row in sections(reference["settings"])["Settings"][2:]}
    fields = {variable_of(name): field for name, field in Settings.model_fields.items()}
    assert rows.keys() == fields.keys() == set(NAMES)
    for variable, field in fields.items():
        _, kind, _, _, meaning = rows[variable]
        assert kind
        assert meaning == field.description


def test_every_rule_kind_has_its_section(reference: dict[str, str]) -> None:
    texts = sections(reference["rule-kinds"])
    for name, kind in KINDS.items():
        facts = dict(texts[name])
        assert facts.get("next step", "") == " ".join(kind.hint.split())
        assert facts["true"] == ("below the threshold" if kind.below else "above the threshold")


def test_every_ready_made_rule_has_its_row(reference: dict[str, str]) -> None:
    rows = sections(reference["rules"])["Ready-made rules"][2:]
    expected = [
        [f"[{rule.name}](../runbooks/{rule.name}.md)", f"`{rule.kind}`", rule.severity]
        for rule in load_rules(DEFAULT_RULES)
    ]
    assert [row[:3] for row in rows] == expected


def test_every_module_has_a_first_docstring_line(reference: dict[str, str]) -> None:
    texts = sections(reference["modules"])
    rows = {
        row[0].strip("`"): row[1] for room in ROOMS for row in texts[room.replace("/", ".")][2:]
    }
    modules = set(module_names()) - {"tidemark"}
    assert rows.keys() == modules
    assert [name for name, line in rows.items() if not line.endswith((".", "?"))] == []


def module_names() -> Iterator[str]:
    """Yield every module of every package at the top of the repository."""
    for package in ROOT.glob("*/__init__.py"):
        if package.parent.name not in NOT_DOCUMENTED:
            for file in package.parent.rglob("*.py"):
                parts = file.relative_to(ROOT).with_suffix("").parts
                yield ".".join(part for part in parts if part != "__init__")


def test_every_metric_has_its_row(reference: dict[str, str]) -> None:
    rows = {row[0]: row for rows in sections(reference["metrics"]).values() for row in rows}
    for source, metric in metrics_of(SOURCES):
        row = rows[f"`{metric.name}`"]
        assert metric.help in row and metric.kind in row
        assert all(f"`{label}`" in row[2] for label in source.labels)
