"""No page and no response shows a bound without its mark.

Every number of the rows is one that stands nowhere else, so a page is searched for the number
itself: wherever it stands, its mark stands before it.
"""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import CLUSTER, group, queue
from tests.support.lake_copies import copied
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lake.bounds import MARKED_BY, MARKS, MINIMA, SUMS
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress
from tidemark.settings.home import Home

HTML = {"Accept": "text/html"}
NUMBERS: dict[str, Any] = {
    "lag": 70_707,
    "readable_lag": 60_606,
    "lag_upper": 80_808,
    "max_queue_lag": 50_505,
    "delay_ms": 1_234_000,
    "ready_delay_ms": 611_000,
    "filtered_lag": 40_404,
    "drain_seconds": 933.0,
    "loss_in_seconds": 5_025.0,
}
TEXTS = ("70,707", "60,606", "50,505", "20 m 34 s", "0:20:34", "40,404", "15 m 33 s", "1 h 23 m")
ROW = NUMBERS | dict.fromkeys(MARKS, True)
GROUP = group("popped", consume_mode="pop", **ROW, worst_broker="broker-a", worst_queue_id=1)
PATHS = (
    *("/", "/groups", "/incidents", "/topics"),
    f"/group?cluster={CLUSTER}&group=popped",
    f"/topic?cluster={CLUSTER}&topic=orders",
)
RESPONSES = {
    "/api/v1/groups": "items",
    f"/api/v1/groups/{CLUSTER}/popped": "topics",
    f"/api/v1/topics/{CLUSTER}/orders": "groups",
}


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory, empty_lake: Lake) -> Iterator[TestClient]:
    """A board on one group of which every number is a bound."""
    lake = copied(empty_lake, Home.of(tmp_path_factory.mktemp("bounded") / "home"))
    at = board_home.now()
    of_queue = {"lag": 70_707, "readable_lag": 60_606, "delay_ms": 1_234_000}
    of_queue |= {"delay_source": "at_least", "lag_is_lower_bound": True, "delay_error_ms": None}
    for back in (2, 1, 0):
        board_home.add_snapshot(
            lake, at - timedelta(minutes=back), [GROUP], queues=[queue("popped", 1, **of_queue)]
        )
    evidence = {name: value for name, value in GROUP.items() if name != "health_reason"}
    board_home.add_incident(
        lake, at, group_name="popped", kind="stalled", last_value=60_606.0, peak_value=70_707.0,
        last_value_bound="lower", peak_value_bound="lower",
        evidence=json.dumps({"row": evidence | {"cluster": CLUSTER, "topic": "orders"}}),
    )  # fmt: skip
    store = Store(lake)
    store.refresh()
    with TestClient(application(store), base_url="http://127.0.0.1:8080") as client:
        yield client


def pages(client: TestClient) -> list[str]:
    (incident,) = client.get("/api/v1/incidents").json()["items"]
    return [*PATHS, f"/incident?id={incident['incident_id']}"]


def unmarked(text: str) -> list[str]:
    """Return the text before each number of a page that has no mark of a bound."""
    shown = re.sub(r'data-chart="[^"]*"', "", text)
    return [
        shown[max(0, place.start() - 60) : place.end()]
        for number in TEXTS
        for place in re.finditer(rf"(?<![\d,]){number}(?![\d,])", shown)
        if not re.search(r"[≥≤] (?:<[^>]*>)*$", shown[: place.start()])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_page_shows_a_bound_without_its_mark(bounded: TestClient, language: str) -> None:
    shown = 0
    for path in pages(bounded):
        text = bounded.get(path, headers=HTML | {"Accept-Language": language}).text
        assert unmarked(text) == [], path
        shown += sum(text.count(f"{mark} {number}") for number in TEXTS for mark in "≥≤")
    assert shown > 20, "the numbers are shown at all"


def test_a_chart_draws_bounds_dashed(bounded: TestClient) -> None:
    text = bounded.get(PATHS[-2], headers=HTML).text
    assert text.count('<path class="line bound a" d="M') == 2, "lag and delay"
    assert "lower bound</li>" in text
    (lag, *_) = [json.loads(match.replace("&#34;", '"')) for match in
                 re.findall(r'data-chart="([^"]*)"', text)]  # fmt: skip
    assert lag["bounds"] == [["≥", "≥", "≥"], ["≥", "≥", "≥"]]


def test_marks_stand_beside_the_numbers_of_every_response(bounded: TestClient) -> None:
    for path, name in RESPONSES.items():
        for row in bounded.get(path).json()[name]:
            assert {mark: row[mark] for mark in MARKS} == dict.fromkeys(MARKS, True), path
    (topic,) = bounded.get("/api/v1/topics").json()["items"]
    assert (topic["lag"], topic["lag_is_lower_bound"]) == (70_707, True)
    path = f"/api/v1/groups/{CLUSTER}/popped/orders/history"
    for columns in ("", "?columns=lag,delay_ms", "?columns=lag,delay_ms&step=1h"):
        (*_, point) = bounded.get(path + columns).json()["points"]
        for kind in ("last", "max"):
            assert point[kind]["lag_is_lower_bound"] is True
            assert point[kind]["delay_is_lower_bound"] is True
    (incident,) = bounded.get("/api/v1/incidents").json()["items"]
    assert (incident["last_value_bound"], incident["peak_value_bound"]) == ("lower", "lower")


def test_templates_show_numbers_of_rows_by_cells_only() -> None:
    """A filter on a column would show it without its mark."""
    bounded = "|".join(sorted(SUMS | MINIMA | MARKED_BY.keys() | {"last_value", "peak_value"}))
    bare = re.compile(rf"\{{\{{[^}}]*\.({bounded})\s*(\||\}}\}})")
    for template in (Path(__file__).parents[2] / "tidemark" / "board" / "templates").glob("*.html"):
        matches = [place[0] for place in bare.finditer(template.read_text())]
        assert [match for match in matches if ".clients " not in match] == [], template.name


def test_every_column_of_the_rows_is_declared() -> None:
    assert set(ROW) <= set(progress.GROUPS.column_names)


def test_a_group_that_pops_is_offered_no_plan(bounded: TestClient) -> None:
    text = bounded.get(PATHS[-2], headers=HTML).text
    assert 'action="/plan"' not in text
    assert "no ownership to plan" in text
    assert "<dt>consume mode</dt><dd>pop</dd>" in text
