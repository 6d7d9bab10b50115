"""Few rows of ``raw.queue_offsets``, two in each of five hours, for parts of a window."""

from datetime import UTC, datetime

from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.tables import raw

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = Window(START, START + 24 * HOUR)


def hours(first: int, end: int) -> Window:
    """The hours of `DAY` from one to before another."""
    return Window(START + first * HOUR, START + end * HOUR)


def append_hours(lake: Lake) -> None:
    """Two rows of each of the first five hours of `DAY`."""
    for hour in range(5):
        at = START + hour * HOUR
        row = {"broker": "a", "topic": "t", "observed_at": at, "cluster": "c"}
        rows = [row | {"queue_id": number, "snapshot_id": f"s{hour}"} for number in range(2)]
        lake.append(raw.QUEUE_OFFSETS, rows)
