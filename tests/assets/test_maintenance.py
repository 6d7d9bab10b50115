"""Maintenance: which hours of the timeline are thinned, and to how many rows."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from assets.maintenance import thin
from assets.replacement import write_window
from assets.windows import read_window
from lake.catalog import Lake
from lake.tables import progress
from lake.window import HOUR, Window
from settings.environment import Settings
from settings.home import Home
from tests.support.table_rows import frame, minute

pytestmark = pytest.mark.spark


def step(start: datetime, number: int) -> dict[str, Any]:
    """A queue of one message a minute."""
    return {
        "topic": "t",
        "queue_id": 0,
        "max_offset": number + 1,
        "observed_at": start + timedelta(minutes=number),
        "previous_max_offset": number,
        "previous_at": start + timedelta(minutes=number - 1),
    }


def test_thinning_follows_the_variables(
    spark: SparkSession, session_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_THIN_AFTER_HOURS", "2")
    monkeypatch.setenv("TIDEMARK_THINNED_MINUTES", "20")
    lake, old, young = Lake(session_home), minute(0), minute(120)
    for start in (old, young):
        rows = [step(start, number) for number in range(60)]
        window = Window(start, start + HOUR)
        write_window(frame(spark, progress.TIMELINE, rows), progress.TIMELINE, window, lake)

    hours = thin(spark, lake, young + HOUR, Settings.read().history)

    assert hours == 1
    counts = [
        read_window(spark, progress.TIMELINE, Window(start, start + HOUR)).count()
        for start in (old, young)
    ]
    assert counts == [3, 60]
