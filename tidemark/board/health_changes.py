"""Changes of health of groups: the last hours from memory, the time before from copies.

A month of ``progress.groups`` holds a thousand rows for each change, so a page cannot search it.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.board.copies import Copies, digest, write
from tidemark.board.data_files import DataFiles, one_thread, session
from tidemark.board.past import of_whole_clusters
from tidemark.host.failures import DamagedError, one_line
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.tables import progress
from tidemark.planning.history import loaded_snapshots, remembered

KEY = ("cluster", "consumer_group", "topic")

SCHEMA = pa.schema(
    [("observed_at", pa.timestamp("us", "UTC"))]
    + [(name, pa.string()) for name in (*KEY, "health", "was")]
)
"""Columns of a change: the first observation of a state, the state, and the one before it."""

CHANGES = f"""
    WITH changing AS (SELECT {", ".join(KEY)} FROM states GROUP BY ALL
        HAVING min(health) <> max(health)),
    steps AS (
        SELECT states.*, lag(health) OVER (
            PARTITION BY {", ".join(KEY)} ORDER BY observed_at) AS was
        FROM states JOIN changing USING ({", ".join(KEY)}))
    SELECT {", ".join(SCHEMA.names)} FROM steps WHERE was <> health"""
"""Changes within the rows of ``states``."""

FORM = "1"
"""Part of the name of a copy: copies of a program that chose other rows are not read."""


_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class HealthChanges:
    """Changes of health of groups.

    Attributes:
        window: when they happened.
        rows: of `SCHEMA`, the newest first.
        missing: the parts of the window of which they are not known yet.
    """

    window: Window
    rows: pa.Table = field(default_factory=SCHEMA.empty_table)
    missing: list[Window] = field(default_factory=list)

    def newest(self, most: int | None = None) -> list[dict[str, Any]]:
        """Return the newest changes, or all."""
        return self.rows.slice(0, most).to_pylist()


class ChangeCopies(Copies):
    """Copies of the changes of health of each past hour and day.

    The state before an hour is the last one of the hour before it, so a change that happened
    while nothing was observed for more than an hour is none.
    """

    def __init__(self, lake: Lake, files: DataFiles) -> None:
        """Nothing is read or written before the first copy."""
        super().__init__(lake, "health-")
        self._files = files

    def _names(self) -> Mapping[int, str]:
        hours = self._files.by_hour(progress.GROUPS) or {}
        return {
            hour: digest((FORM, *paths, "after", *hours.get(hour - 1, ())))
            for hour, paths in hours.items()
        }

    def _write_hour(self, window: Window, target: Path) -> None:
        reach = Window(window.start - HOUR, window.end)
        names = ("snapshot_id", "observed_at", *KEY, "health")
        rows = self._lake.read(progress.GROUPS, reach, columns=names)
        known = loaded_snapshots(self._lake, remembered(reach))
        with one_thread() as reading:
            reading.register("states", of_whole_clusters(rows, known))
            text = f"SELECT * FROM ({CHANGES}) WHERE observed_at >= ? ORDER BY observed_at"
            write(reading, text, [window.start], target)

    def _write_day(self, hours: list[Path], target: Path) -> None:
        with one_thread() as reading:
            text = "SELECT * FROM read_parquet(?) ORDER BY observed_at"
            write(reading, text, [[str(path) for path in hours]], target)

    def changes(
        self, window: Window, recent: HealthChanges | None, equal: Mapping[str, str]
    ) -> HealthChanges:
        """Return the changes of a window.

        Args:
            window: the window.
            recent: the changes of the last hours; None where they could not be read.
            equal: column to value.
        """

        def reader(paths: list[str]) -> pa.Table:
            where = "".join(f" AND {name} = ?" for name in equal)
            text = (
                f"SELECT {', '.join(SCHEMA.names)} FROM read_parquet(?) "
                f"WHERE observed_at >= ? AND observed_at < ?{where}"
            )
            values = [paths, window.start, window.end, *equal.values()]
            with session() as reading:
                return reading.sql(text, params=values).to_arrow_table().cast(SCHEMA)

        try:
            parts, missing = self.read(window, reader, reader)
        # A page without old changes is better than none, and says so.
        except DamagedError as error:
            _log.warning("changes of health cannot be read: %s", one_line(error))
            parts, missing = [], [window]
        unread = missing
        if recent is not None:
            parts += [_selected(recent.rows, gap, equal) for gap in missing]
            unread = [part for gap in missing for part in _without(gap, recent.window)]
        rows = pa.concat_tables([SCHEMA.empty_table(), *parts])
        rows = rows.sort_by([("observed_at", "descending")])
        return HealthChanges(window=window, rows=rows, missing=unread)


def _without(window: Window, other: Window) -> list[Window]:
    """Return the parts of a window before and after another one."""
    ends = (
        (window.start, min(window.end, other.start)),
        (max(window.start, other.end), window.end),
    )
    return [Window(start, end) for start, end in ends if start < end]


def _selected(changes: pa.Table, window: Window, equal: Mapping[str, str]) -> pa.Table:
    instant = pc.field("observed_at")
    condition = (instant >= pa.scalar(window.start)) & (instant < pa.scalar(window.end))
    for name, value in equal.items():
        condition &= pc.field(name) == value
    return changes.filter(condition)
