"""The dashboards under ``deploy/grafana`` are those of the code, and use exported metrics."""

import json
import re

import pytest

from docs.generate.grafana import FOLDER, dashboards, expressions
from tidemark.board.metrics.endpoint import SOURCES
from tidemark.board.metrics.exposition import metrics_of

MADE = dashboards()
LABELS = {metric.name: set(source.labels) for source, metric in metrics_of(SOURCES)}


def test_the_committed_files_are_what_the_code_makes() -> None:
    """`python -m docs.generate.grafana` writes them."""
    assert {file.name: file.read_text() for file in FOLDER.glob("*.json")} == MADE


@pytest.mark.parametrize("text", MADE.values(), ids=MADE)
def test_every_expression_names_an_exported_metric(text: str) -> None:
    texts = expressions(text)
    assert texts
    for expression in texts:
        names = re.findall(r"\b(?:rocketmq|tidemark)_\w+", expression)
        assert names and set(names) <= set(LABELS), expression


@pytest.mark.parametrize("text", MADE.values(), ids=MADE)
def test_every_selected_label_is_one_of_its_metric(text: str) -> None:
    for expression in expressions(text):
        for name, selector in re.findall(r"\b((?:rocketmq|tidemark)_\w+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)=~?\"", selector)) <= LABELS[name], expression


@pytest.mark.parametrize("text", MADE.values(), ids=MADE)
def test_panels_do_not_overlap(text: str) -> None:
    panels = json.loads(text)["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(places) == len(set(places)) > 4
