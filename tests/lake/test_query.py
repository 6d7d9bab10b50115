"""Conditions that a person writes select rows and have no access to the machine."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.support import board_home
from tests.support.lake_copies import copied
from tidemark.lake.catalog import Lake
from tidemark.lake.query import QueryError, select
from tidemark.lake.tables import progress, quality
from tidemark.settings.home import Home


@pytest.fixture(scope="module")
def filled(empty_lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = copied(empty_lake, Home.of(tmp_path_factory.mktemp("filled") / "home"))
    board_home.add_snapshot(lake, board_home.now())
    return lake


def test_a_condition_chooses_rows(filled: Lake) -> None:
    selected = select(filled, progress.GROUPS, "lag > 1000 AND consumer_group LIKE 'mail%'")
    assert selected["consumer_group"].to_pylist() == ["mailer"]


@pytest.mark.parametrize(
    "condition",
    [
        "consumer_group IN (SELECT content FROM read_text('{secret}'))",
        "consumer_group IN (SELECT column0 FROM read_csv('{secret}', header=false))",
        "EXISTS (FROM '{secret}')",
        "EXISTS (SELECT * FROM glob('{folder}/*'))",
        "true); COPY (SELECT 1) TO '{written}' --",
        "true) LIMIT 1; SET enable_external_access = true; COPY (SELECT 1) TO '{written}'; --",
        "true); ATTACH '{written}'; --",
        "true); INSTALL httpfs; --",
        "true) LIMIT 1; SELECT 1 --",
        "EXISTS (FROM scan)",
        "EXISTS (FROM lake)",
    ],
)
def test_a_condition_reaches_no_file(filled: Lake, tmp_path: Path, condition: str) -> None:
    secret, written = tmp_path / "secret.csv", tmp_path / "written"
    secret.write_text("billing\n")
    text = condition.format(secret=secret, written=written, folder=tmp_path)
    with pytest.raises(QueryError) as error:
        select(filled, progress.GROUPS, text)
    assert "\n" not in str(error.value)
    assert not written.exists()


def test_a_column_that_is_a_word_of_sql_is_written_in_quotes(filled: Lake, tmp_path: Path) -> None:
    lake = copied(filled, Home.of(tmp_path / "home"))
    row = {"table": "raw.topics", "expectation": "e", "success": False, "run_id": "r"}
    lake.append(quality.RESULTS, [row | {"observed_at": board_home.now()}])
    with pytest.raises(QueryError, match=r'in quotes: "table"$'):
        select(lake, quality.RESULTS, "table = 'raw.topics'")
    selected = select(lake, quality.RESULTS, "\"table\" = 'raw.topics'")
    assert selected["expectation"].to_pylist() == ["e"]


def test_what_is_new_is_read_first(lake: Lake, monkeypatch) -> None:
    """Hours of the past are read only where the newer ones do not hold enough rows."""
    newest = board_home.now()
    for hours in range(8):
        row = {"snapshot_id": f"s{hours}", "cluster": "shop"}
        instant = newest - timedelta(hours=hours)
        lake.append(progress.SNAPSHOTS, [row | {"observed_at": instant}])
    read, scanned = [], lake.scanned
    monkeypatch.setattr(lake, "scanned", lambda *given: read.append(given[1]) or scanned(*given))

    def ids(where: str, limit: int) -> tuple[list[str], int]:
        read.clear()
        rows = select(lake, progress.SNAPSHOTS, where, limit)["snapshot_id"].to_pylist()
        return rows, len(read)

    assert ids("", 1) == (["s0"], 1)
    assert ids("", 3) == (["s0", "s1", "s2"], 2)
    assert ids("snapshot_id IN ('s1', 's5')", 2) == (["s1", "s5"], 3)
    everything, _ = ids("", 1000)
    assert everything == [f"s{hours}" for hours in range(8)]
