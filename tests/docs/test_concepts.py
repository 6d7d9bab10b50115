"""The concept pages explain every state that a column can hold."""

import re
from pathlib import Path

import pytest

from tidemark.lake.schema import Table
from tidemark.lake.tables.progress import GROUPS, QUEUES

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts"


@pytest.mark.parametrize(
    ("table", "column", "page"),
    [
        (GROUPS, "health", "lag.md"),
        (GROUPS, "match_method", "lag.md"),
        (QUEUES, "condition", "offsets.md"),
        (QUEUES, "delay_source", "delay.md"),
    ],
)
def test_each_state_has_its_row(table: Table, column: str, page: str) -> None:
    (comment,) = (item.comment for item in table.columns if item.name == column)
    states = [state.strip() for state in comment.split("|")]
    rows = re.findall(r"^\| `(\w+)` \|", (CONCEPTS / page).read_text(), re.MULTILINE)
    assert len(states) > 2
    assert [row for row in rows if row in states] == states
