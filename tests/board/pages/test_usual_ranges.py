"""Charts of a group show the usual range of each hour, with which rules of kind unusual compare."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import CLUSTER, add_snapshots, group, rows_of
from tests.support.page_texts import drawn, page, plain
from tidemark.board.pages.charts import USUAL_MOST, Line, Usual, chart
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, MICROSECOND, Window, floor_hour
from tidemark.lake.tables import progress

GROUP = f"/group?cluster={CLUSTER}&group=mailer&topic=orders&range="

TEXT = "usual at this hour of the week"


@pytest.fixture
def newest() -> datetime:
    return board_home.now() + timedelta(seconds=1)


def add_baselines(lake: Lake, hours: dict[datetime, dict[str, Any]]) -> None:
    for hour, columns in hours.items():
        row = {"hour": hour, "consumer_group": "mailer", "hour_of_week": 3, "weeks": 4}
        lake.append(progress.BASELINES, rows_of(progress.BASELINES, hour, [row | columns]))


def past(lake: Lake, newest: datetime) -> None:
    """Four hours of a group; the second hour has too few weeks, another group has others."""
    add_snapshots(
        lake,
        {
            newest - timedelta(minutes=back): [
                group("mailer", lag=100, delay_ms=30_000),
                group("billing"),
            ]
            for back in range(240, -1, -20)
        },
    )
    known = {"lag_low": 20.0, "lag_high": 140.0, "delay_ms_low": 2_000.0, "delay_ms_high": 5_000.0}
    first = floor_hour(newest - timedelta(hours=4))
    add_baselines(lake, {first + place * HOUR: known if place != 1 else {} for place in range(5)})
    other = {"consumer_group": "audit", "lag_low": 1.0, "lag_high": 2.0}
    add_baselines(lake, {floor_hour(newest): other})


@pytest.mark.slow
def test_each_hour_with_a_basis_has_its_range(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    text = page(client, GROUP + "6h")
    lag, delay, rates = drawn(text)
    first = floor_hour(newest - timedelta(hours=4))
    hours = [first + place * HOUR for place in (0, 2, 3, 4)]
    at = [(int(hour.timestamp()), int((hour + HOUR).timestamp())) for hour in hours]
    assert lag["usual"] == [[*ends, 20, 140, "20 – 140"] for ends in at]
    assert delay["usual"] == [[*ends, 2_000, 5_000, "2 s – 5 s"] for ends in at]
    assert rates["usual"] == []
    assert text.count('<rect class="usual"') == 8
    assert f"{TEXT} 20 – 140" in plain(text) and f"{TEXT} 2 s – 5 s" in plain(text)
    assert f"<title>{hours[0]:%Y-%m-%d %H:%M} {TEXT}: 2 s – 5 s</title>" in text
    assert "每周此时的通常范围 2 s – 5 s" in plain(page(client, GROUP + "6h", "zh"))


@pytest.mark.slow
def test_without_a_basis_nothing_is_drawn(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    # Nor over days, of which each hour would be read from a file of its own.
    text = page(client, GROUP + "7d")
    assert "30 s" in text and TEXT not in text and 'class="usual"' not in text
    assert TEXT not in page(client, GROUP.replace("mailer", "billing") + "6h")


START = datetime.fromisoformat("2026-11-23T10:00:00+00:00")


def made(values: list[float | None], low: float, high: float, hours: int = 1) -> Any:
    """Return a chart over two hours of which the first ones have a usual range."""
    window = Window(START, START + 2 * HOUR + MICROSECOND)
    instants = [START + HOUR + timedelta(minutes=place) for place in range(len(values))]
    usual = [Usual(hour=START + place * HOUR, low=low, high=high) for place in range(hours)]
    return chart("Lag", window, instants, [Line(name="lag", values=values)], usual=usual)


def heights(it: Any) -> list[float]:
    return [height for _, _, _, height, _, _ in it.usual]


@pytest.mark.parametrize(
    ("values", "low", "high", "top"),
    [
        pytest.param([100.0, 90.0], 20, 1e6, 100 * USUAL_MOST, id="a wide range squashes no line"),
        pytest.param([100.0, 90.0], 20, 120, 200, id="a little above the line"),
        pytest.param([1000.0, 90.0], 20, 120, 1000, id="far below the line"),
        pytest.param([0.0, 0.0], 20, 120, 200, id="a line at 0 leaves room for the range"),
    ],
)
def test_the_axis_is_of_the_line(
    values: list[float | None], low: float, high: float, top: float
) -> None:
    it = made(values, low, high)
    assert json.loads(it.data)["rows"][-1][0] == top
    ((left, above, width, height, hour, _),) = it.usual
    inside = (min(high, top) - low) / top
    assert height == pytest.approx(inside * (190 - 22 - 12), abs=0.2)
    assert above >= 12 and (left, hour) == (64, START) and width == pytest.approx(428, abs=0.2)


def test_a_range_above_the_axis_is_stated_and_not_drawn() -> None:
    it = made([1.0, 2.0], 50, 100, hours=2)
    assert it.usual == [] and it.usual_newest == "50 – 100"


def test_a_range_without_width_is_a_line_with_one_number() -> None:
    it = made([0.0, 0.0], 0, 0, hours=2)
    assert heights(it) == [1.0, 1.0] and it.usual_newest == "0"


def test_the_legend_of_an_hour_without_a_range_is_unknown() -> None:
    assert made([1.0, 2.0], 0, 1).usual_newest == "–"
