"""The dashboards under ``deploy/grafana`` are those of the code, and use exported metrics."""

import json
import re
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from docs.generate.grafana import DEFAULT_BOARD, FOLDER, dashboards, expressions
from tests.support.board_routes import parameters_of_pages
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


LEVELS = ("tidemark-overview", "tidemark-cluster", "tidemark-group", "tidemark-queues")


def links(panel: dict[str, Any]) -> list[tuple[str, dict[str, list[str]]]]:
    """Path and query of each link of a panel's rows or series."""
    made = panel.get("fieldConfig", {}).get("defaults", {}).get("links", ())
    return [(urlsplit(it["url"]).path, parse_qs(urlsplit(it["url"]).query)) for it in made]


def labels_of(expression: str) -> set[str]:
    """The labels of an expression's samples: those that it sums by, or all of its metric."""
    summed = re.search(r"\bby \(([^)]*)\)", expression)
    if summed:
        return set(summed[1].split(", "))
    (name,) = re.findall(r"\b(?:rocketmq|tidemark)_\w+", expression)
    return LABELS[name]


def variables(text: str) -> set[str]:
    return {it["name"] for it in json.loads(text)["templating"]["list"]}


@pytest.mark.parametrize("text", MADE.values(), ids=MADE)
def test_links_set_variables_and_parameters_by_labels_that_there_are(text: str) -> None:
    for panel in json.loads(text)["panels"]:
        present = [labels_of(it["expr"]) for it in panel.get("targets", ())]
        for path, query in links(panel):
            set_by = {
                name.removeprefix("var-"): re.fullmatch(r"\$\{__\w+\.\w+\.(\w+)\}", values[0])
                for name, values in query.items()
                if "__url" not in name and ":queryparam" not in name
            }
            assert set_by and all(set_by.values()), query
            labels = {it[1] for it in set_by.values() if it}
            assert present and all(labels <= it for it in present), panel["title"]
            if path.startswith("/d/"):
                assert set_by.keys() <= variables(MADE[f"{path.split('/')[2]}.json"])
            else:
                assert set_by.keys() <= parameters_of_pages()[path.removeprefix("${board:raw}")]


def test_each_level_leads_to_the_next_and_all_to_the_board() -> None:
    for level, below in pairwise(LEVELS):
        paths = [
            path
            for panel in json.loads(MADE[f"{level}.json"])["panels"]
            for path, _ in links(panel)
        ]
        assert f"/d/{below}" in paths, level
    for name, text in MADE.items():
        content = json.loads(text)
        (url,) = (it["url"] for it in content["links"] if it["type"] == "link")
        address = urlsplit(url.replace("${board:raw}", DEFAULT_BOARD))
        assert set(parse_qs(address.query)) <= parameters_of_pages()[address.path], name
        used = set(re.findall(r"\$\{(\w+):percentencode\}", url))
        assert used | {"board"} <= variables(text), name


@pytest.mark.parametrize("text", MADE.values(), ids=MADE)
def test_charts_are_marked_where_numbers_are_old(text: str) -> None:
    marks = json.loads(text)["annotations"]["list"]
    assert "Numbers are old" in [it["name"] for it in marks]
    assert all(it["titleFormat"] for it in marks)
