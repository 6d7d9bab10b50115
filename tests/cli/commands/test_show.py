"""`tidemark show`: rows of a table as programs and people read them."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.board_home import rows_of
from tests.support.commands import output_of
from tidemark.cli.commands.show import CHOSEN
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import TABLES, raw
from tidemark.settings.home import Home

CONFIG = {"fileReservedTime": "72", "brokerRole": "SYNC_MASTER"}


def test_maps_are_objects_of_json_and_named_values_of_tables(lake: Lake) -> None:
    row = {"broker_id": 0, "config": list(CONFIG.items())}
    lake.append(raw.BROKERS, rows_of(raw.BROKERS, datetime.now(UTC), [row]))
    (shown,) = json.loads(output_of(lake.home, "show", "raw.brokers", "--format", "json"))
    assert (shown["config"], shown["runtime"]) == (CONFIG, None)
    text = output_of(lake.home, "show", "raw.brokers", "--wide")
    assert "fileReservedTime=72, brokerRole=SYNC_MASTER" in text


def test_a_limit_beyond_sql_is_bad_usage(lake: Lake) -> None:
    """It was reported as a damaged table, with the advice to restore a copy of its files."""
    assert "--limit" in output_of(lake.home, "show", "raw.brokers", "--limit", str(2**63), code=2)
    assert output_of(lake.home, "show", "raw.brokers", "--limit", str(2**63 - 1))


def test_a_home_that_cannot_be_used_is_no_damaged_table(tmp_path: Path) -> None:
    """The line advised to restore a copy of the table's files."""
    (tmp_path / "home").write_text("")
    line = output_of(Home.of(tmp_path / "home"), "show", "raw.brokers", code=1)
    assert line == f"tidemark: File exists ({tmp_path / 'home'})\n"


@pytest.mark.parametrize("name, columns", CHOSEN.items(), ids=CHOSEN)
def test_chosen_columns_are_columns(name: str, columns: Sequence[str]) -> None:
    assert set(columns) <= set(TABLES[name].column_names)


def test_a_table_shows_chosen_columns_and_names_the_way_to_others(lake: Lake) -> None:
    row = {"broker": "broker-a", "broker_id": 0, "config": list(CONFIG.items())}
    lake.append(raw.BROKERS, rows_of(raw.BROKERS, datetime.now(UTC), [row]))
    chosen = output_of(lake.home, "show", "raw.brokers")
    assert "broker-a" in chosen and "config" not in chosen
    assert f"{len(raw.BROKERS.column_names) - len(CHOSEN['raw.brokers'])} more columns" in chosen
    assert "--wide" in chosen
    named = output_of(lake.home, "show", "raw.brokers", "--columns", "config, broker")
    assert named.split()[:2] == ["config", "broker"] and "more columns" not in named
    text = output_of(lake.home, "show", "raw.brokers", "--columns", "broker", "--format", "json")
    assert json.loads(text) == [{"broker": "broker-a"}]
    mistake = output_of(lake.home, "show", "raw.brokers", "--columns", "brokr", code=2)
    assert "did you mean 'broker'?" in " ".join(mistake.split())


def test_rows_of_several_clusters_name_theirs(lake: Lake) -> None:
    at = datetime.now(UTC)
    for cluster in ("blue", "green"):
        lake.append(raw.BROKERS, rows_of(raw.BROKERS, at, [{"broker_id": 0}], cluster))
    several = output_of(lake.home, "show", "raw.brokers")
    assert "blue" in several and "green" in several
    one = output_of(lake.home, "show", "raw.brokers", "--where", "cluster = 'blue'")
    assert "blue" not in one


def test_no_rows_are_a_sentence(lake: Lake, tmp_path: Path) -> None:
    lake.append(raw.BROKERS, rows_of(raw.BROKERS, datetime.now(UTC), [{"broker_id": 0}]))
    none = output_of(lake.home, "show", "raw.brokers", "--where", "broker_id > 7")
    assert none == "raw.brokers has no row of that condition.\n"
    empty = Home.of(tmp_path / "empty")
    for arguments in (
        ("show", "raw.brokers"),
        ("incidents", "list"),
        ("incidents", "silences"),
        ("quarantine", "list"),
    ):
        text = output_of(empty, *arguments)
        assert text[0].isupper() or text.startswith("raw.brokers has no row."), text
        assert "─" not in text, "a header of nothing"
    untouched = Home.of(tmp_path / "untouched")
    assert "Nothing is computed in" in output_of(untouched, "incidents", "list")


def test_a_condition_that_ends_early_is_named_without_a_parenthesis_of_ours(lake: Lake) -> None:
    lake.append(raw.BROKERS, rows_of(raw.BROKERS, datetime.now(UTC), [{"broker_id": 0}]))
    line = output_of(lake.home, "show", "raw.brokers", "--where", "broker_id >", code=1)
    assert line.endswith("the condition is not complete\n")


@pytest.mark.parametrize(
    ("where", "advice"),
    [
        ('broker = "broker-a"', "no column 'broker-a'; a text is written in single quotes"),
        ("brokr_id > 1", "no column 'brokr_id', did you mean 'broker_id'?"),
        ("bro\"ker\"_id.x = 'a'", None),
    ],
)
def test_a_condition_on_no_column_comes_with_advice(
    lake: Lake, where: str, advice: str | None
) -> None:
    lake.append(raw.BROKERS, rows_of(raw.BROKERS, datetime.now(UTC), [{"broker_id": 0}]))
    line = output_of(lake.home, "show", "raw.brokers", "--where", where, code=1)
    assert line.count("\n") == 1
    assert advice is None or line == f"tidemark: --where {where!r} on raw.brokers: {advice}\n"
