"""The page of mechanisms names places that exist: modules, columns and tests."""

import re
from pathlib import Path

import pytest

from tidemark.lake.tables import TABLES

ROOT = Path(__file__).parents[2]

PAGE = ROOT / "docs" / "mechanisms.md"


def rows() -> list[list[str]]:
    """Return the cells of each row: mechanism, computed, shown, tested."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize(("mechanism", "computed", "shown", "tested"), rows())
def test_each_mechanism_names_places_that_exist(
    mechanism: str, computed: str, shown: str, tested: str
) -> None:
    assert all((names(computed), names(shown), names(tested))), mechanism
    for path in (*names(computed), *names(tested)):
        assert (ROOT / path).is_file(), path
    assert all(path.startswith("tests/") for path in names(tested))
    for column in names(shown):
        table, name = column.rsplit(".", 1)
        assert name in TABLES[table].column_names, column


def test_every_mechanism_has_a_row() -> None:
    assert len(rows()) == 30
