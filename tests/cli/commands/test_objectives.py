"""`tidemark objectives` prints the statement of a month."""

import json
from unittest import mock

import pytest

from tests.support.commands import output_of
from tests.support.objective_hours import whole_month
from tests.support.table_rows import arrow
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress


@pytest.mark.slow
def test_a_statement_states_what_is_unknown(lake: Lake) -> None:
    rows = whole_month(h5="+" * 50 + "-" * 8 + "??", h6="")
    other = [row | {"consumer_group": "audit", "good": 0, "bad": 60} for row in rows[:8]]
    lake.append(progress.OBJECTIVES, arrow(progress.OBJECTIVES, [*rows, *other]))
    month = ("objectives", "--month", "2026-10")
    missed, met = json.loads(output_of(lake.home, *month, "--format", "json"))
    assert (missed["consumer_group"], missed["met"], missed["bad"]) == ("audit", False, 480)
    assert (met["bad"], met["unknown"], met["met"]) == (8, 62, True)
    text = output_of(lake.home, *month)
    assert "≥ 8" in text and "longest breach" in text and " yes " in text
    empty = output_of(lake.home, "objectives", "--month", "2026-09")
    assert "No minute of an objective is counted in 2026-09. None is declared in" in empty


def test_a_wrong_month_is_bad_usage(lake: Lake) -> None:
    line = output_of(lake.home, "objectives", "--month", "October", code=2)
    assert "a month is wanted, e.g. 2026-10" in line


@pytest.mark.slow
def test_mistakes_of_the_file_are_named_beside_the_statement(lake: Lake) -> None:
    lake.append(progress.OBJECTIVES, arrow(progress.OBJECTIVES, whole_month(h0="-" * 60)))
    (lake.home.path / "objectives.yaml").write_text("objectives:\n- macth: {}\n")
    with mock.patch("tidemark.cli.commands.report.echo") as echo:
        text = output_of(lake.home, "objectives", "--month", "2026-10")
    assert "longest breach" in text
    lines = [call.args[0] for call in echo.call_args_list]
    mistake = "objectives.yaml:2: objectives[0].macth: unknown field, did you mean 'match'?"
    assert any(line.endswith(mistake) for line in lines)
    assert all(call.kwargs == {"err": True} for call in echo.call_args_list)
