"""Every text of pages has Chinese words; names of commands, tables and columns stay."""

import ast
import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from string import Formatter

import pytest
import yaml
from jinja2 import Environment, nodes

from spark.alerts.group_features import GROUP_FEATURES
from spark.alerts.sources import SOURCES
from spark.progress import client_events, events, throughput
from spark.progress.subscriptions import DIFFERENCES
from tidemark import board
from tidemark.alerting.rules.kinds import KINDS
from tidemark.board.pages import brokers, groups, overview, tables
from tidemark.board.pages.wording import CHINESE, FILES, WHY_UNKNOWN, WORDS, why_unknown
from tidemark.board.views.clusters import TOPICS
from tidemark.board.views.incidents import SEVERITIES, SILENCE_STATES, STATES
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress, quality, raw
from tidemark.live.diagnosis import LOOKUP_WORDS, STACK_WORDS
from tidemark.model.consumption import LookupOutcome, StackOutcome
from tidemark.model.health import Health
from tidemark.model.incidents import ActionKind

ROOM = Path(board.__file__).parent
TEMPLATES = sorted((ROOM / "templates").glob("*.html"))
ROW_MACROS = ("rows_table", "facts")
SHOWN_TABLES = (
    progress.ASSIGNMENTS,
    progress.EVENTS,
    progress.GROUPS,
    progress.QUEUES,
    quality.RESULTS,
    raw.SNAPSHOTS,
    raw.TOPICS,
    TOPICS,
)


def translated(template: Path) -> Iterator[str]:
    """Yield the texts in a template that it translates."""
    tree = Environment().parse(template.read_text(encoding="utf-8"))
    for call in tree.find_all(nodes.Call):
        if not isinstance(call.node, nodes.Name):
            continue
        if call.node.name == "_" and call.args:
            yield from _constants(call.args[0])
        elif call.node.name in ROW_MACROS:
            yield from _constants(call.args[1])
    for loop in tree.find_all(nodes.For):
        variables = {value.name for value in [loop.target, *loop.target.find_all(nodes.Name)]
                     if isinstance(value, nodes.Name)}  # fmt: skip
        used = {
            call.args[0].name
            for call in loop.find_all(nodes.Call)
            if isinstance(call.node, nodes.Name)
            and call.node.name in ("_", "severity")
            and isinstance(call.args[0], nodes.Name)
        }
        if variables & used:
            yield from (
                constant for constant in _constants(loop.iter) if not constant.startswith("/")
            )


def _constants(node: nodes.Node) -> Iterator[str]:
    for value in [node, *node.find_all(nodes.Const)]:
        if isinstance(value, nodes.Const) and isinstance(value.value, str):
            yield value.value


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_texts_of_a_template(template: Path) -> None:
    texts = set(translated(template))
    assert texts or template.stem in ("problem", "charts_head")
    assert sorted(texts - CHINESE.keys()) == []


@pytest.mark.parametrize("name", KINDS)
def test_texts_of_a_kind_of_rule(name: str) -> None:
    kind = KINDS[name]
    units = {f"{{number}} {kind.unit}"} if kind.unit not in ("", "seconds", "share") else set()
    texts = {kind.hint, kind.words, kind.words_one, kind.words_uncounted} | units - {"", "{value}"}
    assert sorted(texts - CHINESE.keys() - {"", "{value}"}) == []


def test_columns_of_pages() -> None:
    tree = ast.parse(Path(tables.__file__).read_text(encoding="utf-8"))
    assigned = {
        name.value
        for item in ast.walk(tree)
        if isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == "columns"
        for name in ast.walk(item.value)
        if isinstance(name, ast.Constant)
    }
    assert "unreadable_messages" in assigned
    shown = {
        *groups.COLUMNS,
        *overview.LIVE_COLUMNS,
        *groups.FIGURES,
        *groups.FACTS,
        *groups.QUEUE_COLUMNS,
    }
    shown |= {*brokers.FIGURES, *brokers.FACTS, *brokers.KNOWN_FACTS}
    assert sorted((assigned | shown) - CHINESE.keys()) == []


def test_texts_that_no_template_holds() -> None:
    unknown = {why_unknown("lag", {"complete": False}), why_unknown("lag", {})}
    unknown.add(why_unknown("lag", {"consumer_offset": None}))
    texts = {*WHY_UNKNOWN.values(), *unknown, *(text for _, text in groups.SCALE)}
    outcomes = {*STACK_WORDS.values(), *LOOKUP_WORDS.values()}
    texts |= {*ActionKind}
    texts |= outcomes - {
        STACK_WORDS[StackOutcome.REPORTED],
        LOOKUP_WORDS[LookupOutcome.KNOWN],
    }
    assert sorted(texts - CHINESE.keys()) == []


def test_columns_of_evidence() -> None:
    names = {name for source in SOURCES.values() for name in source.evidence}
    names |= {name for feature in GROUP_FEATURES for name in feature.columns}
    # Evidence of rules about Tidemark's own work.
    names |= {"newest_at", "runs", "table", "expectation"}
    assert sorted(names - CHINESE.keys()) == []


@pytest.mark.parametrize(
    "table",
    SHOWN_TABLES,
    ids=lambda table: table.name,
)
def test_values_that_are_words(table: Table) -> None:
    """A declaration lists them: ``pull | pop (message by message); NULL = ...``."""
    listed = [
        word
        for column in table.columns
        if column.name in WORDS and "|" in column.comment
        for word in re.findall(r"(?:^|\| )(\w+)", column.comment)
    ]
    assert sorted(set(listed) - CHINESE.keys()) == []


def test_likely_causes() -> None:
    texts = {
        value
        for module in (events, client_events, throughput)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    causes = {text for text in texts if " " in text} | {events.REBALANCE}
    assert len(causes) == 19
    assert sorted(causes - CHINESE.keys()) == []


def test_states_and_titles_of_problems() -> None:
    problems = {
        HTTPStatus(int(status)).phrase
        for path in ROOM.rglob("*.py")
        for status in re.findall(r"ProblemError\(\s*(\d+)", path.read_text(encoding="utf-8"))
    }
    problems |= {"Method Not Allowed", "Internal Server Error", "Not Found"}
    (reason,) = [column for column in progress.IDLE_CLIENTS.columns if column.name == "reason"]
    reasons = re.findall(r"(?:^|\| )(\w+)", reason.comment)
    states = {*reasons, *DIFFERENCES, *Health, *STATES, *SEVERITIES, *SILENCE_STATES, "yes", "no"}
    assert sorted((states | problems) - CHINESE.keys()) == []


def test_the_same_values_are_filled_in() -> None:
    def fields(text: str) -> set[str | None]:
        return {name for _, name, _, _ in Formatter().parse(text) if name is not None}

    wrong = {text for text, words in CHINESE.items() if fields(text) != fields(words)}
    assert wrong == set()


def test_no_text_is_translated_twice() -> None:
    keys = [
        key.value
        for file in FILES
        for key, _ in yaml.compose(file.read_text(encoding="utf-8")).value
    ]
    assert len(keys) == len(set(keys))
