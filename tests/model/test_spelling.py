"""The word that was probably meant."""

import pytest

from tidemark.lake.tables import TABLES
from tidemark.model.spelling import did_you_mean


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        pytest.param("progres.groups", "progress.groups", id="a misspelt name"),
        pytest.param("groups", "progress.groups", id="the end of a name"),
        pytest.param("queue_offset", "raw.queue_offsets", id="a misspelt end"),
    ],
)
def test_the_nearest_table_is_suggested(given: str, meant: str) -> None:
    assert did_you_mean(given, TABLES) == f", did you mean {meant!r}?"


def test_nothing_is_suggested_for_what_is_near_to_nothing() -> None:
    assert did_you_mean("zzzz", TABLES) == ""
