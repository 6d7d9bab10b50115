"""`tidemark show`: rows of a table as programs and people read them."""

import json
from datetime import UTC, datetime
from pathlib import Path

from tests.support.board_home import rows_of
from tests.support.commands import output_of
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import raw
from tidemark.settings.home import Home

CONFIG = {"fileReservedTime": "72", "brokerRole": "SYNC_MASTER"}


def test_maps_are_objects_of_json_and_named_values_of_tables(lake: Lake) -> None:
    row = {"broker_id": 0, "config": list(CONFIG.items())}
    lake.append(raw.BROKERS, rows_of(raw.BROKERS, datetime.now(UTC), [row]))
    (shown,) = json.loads(output_of(lake.home, "show", "raw.brokers", "--format", "json"))
    assert (shown["config"], shown["runtime"]) == (CONFIG, None)
    text = output_of(lake.home, "show", "raw.brokers")
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
