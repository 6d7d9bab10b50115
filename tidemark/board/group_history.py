"""History of groups: copies of ``progress.groups`` sorted by group, and of changes of health.

With them months of a group are read fast. An hour has the error of the delay too. A day has points
of `POINT`, each with its last and its largest values. Where no copy exists, the tables are read.

A month of ``progress.groups`` holds a thousand rows for each change of health, so a page cannot
search it: the changes of the last hours come from memory, those of the time before from copies.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.board.copies import Copies, Reader, digest, write
from tidemark.board.data_files import DataFiles, one_thread, session
from tidemark.board.past import group_rows_between, of_whole_clusters, rows_between
from tidemark.host.failures import DamagedError, one_line
from tidemark.lake.bounds import columns_with_marks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.tables import progress
from tidemark.planning.history import loaded_snapshots, remembered

_log = logging.getLogger(__name__)

NUMBERS = ("lag", "readable_lag", "delay_ms", "produce_tps", "consume_tps")
"""Numbers of ``progress.groups`` that are copied."""

COLUMNS = columns_with_marks(NUMBERS)
"""These numbers and their marks of bounds. A point is a bound where one of its rows is."""

ERROR = "delay_error_ms"
"""Error of the delay of the most delayed queue, from ``progress.queues``."""

MOST = "most_"
"""Prefix of the names of the largest values of a point, which copies of days have."""

POINT = 900
"""Seconds of a point of a day: with its last and its largest value."""

POINTS_FORM = "3"
"""Part of the name of a copy: copies of a program that chose other rows are not read."""

_ORDER = "cluster, consumer_group, topic, observed_at"

_HOUR = f"""
    WITH errors AS (
        SELECT cluster, consumer_group, topic, observed_at,
            arg_max_null({ERROR}, delay_ms) AS {ERROR}
        FROM queues WHERE delay_ms IS NOT NULL GROUP BY ALL)
    SELECT {_ORDER}, {", ".join(COLUMNS)}, {ERROR}
    FROM groups LEFT JOIN errors USING (cluster, consumer_group, topic, observed_at)
    ORDER BY {_ORDER}"""

_DAY = f"""
    SELECT cluster, consumer_group, topic,
        time_bucket(INTERVAL {POINT} SECOND, instant) AS observed_at,
        {", ".join(f"arg_max_null({name}, instant) AS {name}" for name in (*COLUMNS, ERROR))},
        {", ".join(f"max({name}) AS {MOST}{name}" for name in (*COLUMNS, ERROR))}
    FROM (SELECT *, observed_at AS instant FROM read_parquet(?))
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""


class GroupCopies(Copies):
    """Copies of hours and days of ``progress.groups``."""

    def __init__(self, lake: Lake, files: DataFiles) -> None:
        """Nothing is read or written before the first copy.

        Args:
            lake: the tables.
            files: knows their data files.
        """
        super().__init__(lake)
        self._files = files

    def _names(self) -> Mapping[int, str]:
        groups = self._files.by_hour(progress.GROUPS) or {}
        queues = self._files.by_hour(progress.QUEUES) or {}
        return {
            hour: digest((POINTS_FORM, *paths, *queues.get(hour, ())))
            for hour, paths in groups.items()
        }

    def _write_hour(self, window: Window, target: Path) -> None:
        names = ("cluster", "consumer_group", "topic", "observed_at")
        groups = self._lake.read(progress.GROUPS, window, columns=("snapshot_id", *names, *COLUMNS))
        known = loaded_snapshots(self._lake, remembered(window))
        queues = self._lake.read(progress.QUEUES, window, columns=(*names, "delay_ms", ERROR))
        with one_thread() as session:
            session.register("groups", of_whole_clusters(groups, known))
            session.register("queues", queues)
            write(session, _HOUR, [], target)

    def _write_day(self, hours: list[Path], target: Path) -> None:
        with one_thread() as session:
            write(session, _DAY, [[str(path) for path in hours]], target)


ERRORS_WITHIN = timedelta(hours=6)
"""Longest window without copies for which errors of delay are read from rows of queues."""


class GroupHistory:
    """Reader of the past of one group on a topic at a time."""

    def __init__(self, lake: Lake, files: DataFiles, copies: GroupCopies) -> None:
        self._lake = lake
        self._files = files
        self._copies = copies

    def rows(
        self, window: Window, equal: Mapping[str, str], names: Sequence[str], *, by_day: bool
    ) -> pa.Table:
        """Return the rows of a group on a topic over a window, in order of time.

        Args:
            window: the window.
            equal: ``cluster``, ``consumer_group`` and ``topic``.
            names: some of `COLUMNS`, and `ERROR`.
            by_day: whether points of `POINT` do where days are copied.

        Returns:
            ``observed_at`` and these columns, and of each its largest value in the point.

        Raises:
            DamagedError: a file of a table is missing or damaged.
        """
        schema = empty(names).schema

        def reader(most: str) -> Reader:
            return lambda paths: _read(paths, window, equal, names, most)

        # A row of an hour is its own largest value.
        copied, others = self._copies.read(window, reader(""), reader(MOST) if by_day else None)
        parts = [*copied, *(self._uncopied(window, equal, names) for window in others)]
        selected = [part.select(schema.names).cast(schema) for part in parts]
        return pa.concat_tables([empty(names), *selected]).sort_by("observed_at")

    def _uncopied(self, window: Window, equal: Mapping[str, str], names: Sequence[str]) -> pa.Table:
        """Return the rows of a window from the tables; errors of a few hours only."""
        of_groups = [name for name in names if name != ERROR]
        rows = group_rows_between(self._lake, self._files, window, equal, of_groups)
        if ERROR in names:
            errors = self._errors(window, equal)
            numbers = [errors.get(at) for at in rows["observed_at"].to_pylist()]
            rows = rows.append_column(ERROR, pa.array(numbers, type=pa.int64()))
        for name in names:
            rows = rows.append_column(f"{MOST}{name}", rows[name])
        return rows

    def _errors(self, window: Window, equal: Mapping[str, str]) -> dict[datetime, int | None]:
        """Return the error of the most delayed queue by instant; none of a long window."""
        if window.end - window.start > ERRORS_WITHIN:
            return {}
        queues = rows_between(
            self._lake, self._files, progress.QUEUES, window, equal, ("delay_ms", ERROR)
        )
        most: dict[datetime, tuple[int, int | None]] = {}
        for row in queues.to_pylist():
            delay = row["delay_ms"]
            if delay is not None and delay >= most.get(row["observed_at"], (-1, None))[0]:
                most[row["observed_at"]] = (delay, row[ERROR])
        return {at: error for at, (_, error) in most.items()}


def _read(
    copies: list[str], window: Window, equal: Mapping[str, str], names: Sequence[str], most: str
) -> pa.Table:
    """Return rows of copies; `most` begins the names of their columns with the largest values."""
    largest = [f"{most}{name} AS {MOST}{name}" for name in names]
    text = (
        f"SELECT {', '.join(('observed_at', *names, *largest))} FROM read_parquet(?) "
        "WHERE observed_at >= ? AND observed_at < ? "
        "AND cluster = ? AND consumer_group = ? AND topic = ?"
    )
    of = [equal["cluster"], equal["consumer_group"], equal["topic"]]
    with session() as reading:
        values = [copies, window.start, window.end, *of]
        return reading.sql(text, params=values).to_arrow_table()


def empty(names: Sequence[str]) -> pa.Table:
    """Return no rows, as `GroupHistory.rows` returns them of these columns."""
    types = {
        column.name: column.type for column in (*progress.GROUPS.columns, *progress.QUEUES.columns)
    }
    fields = [("observed_at", types["observed_at"])]
    fields += [(f"{most}{name}", types[name]) for most in ("", MOST) for name in names]
    return pa.schema(fields).empty_table()


KEY = ("cluster", "consumer_group", "topic")

CHANGES_SCHEMA = pa.schema(
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
    SELECT {", ".join(CHANGES_SCHEMA.names)} FROM steps WHERE was <> health"""
"""Changes within the rows of ``states``."""

CHANGES_FORM = "1"
"""Part of the name of a copy: copies of a program that chose other rows are not read."""


@dataclass(frozen=True, kw_only=True)
class HealthChanges:
    """Changes of health of groups.

    Attributes:
        window: when they happened.
        rows: of `CHANGES_SCHEMA`, the newest first.
        missing: the parts of the window of which they are not known yet.
    """

    window: Window
    rows: pa.Table = field(default_factory=CHANGES_SCHEMA.empty_table)
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
            hour: digest((CHANGES_FORM, *paths, "after", *hours.get(hour - 1, ())))
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
                f"SELECT {', '.join(CHANGES_SCHEMA.names)} FROM read_parquet(?) "
                f"WHERE observed_at >= ? AND observed_at < ?{where}"
            )
            values = [paths, window.start, window.end, *equal.values()]
            with session() as reading:
                return reading.sql(text, params=values).to_arrow_table().cast(CHANGES_SCHEMA)

        try:
            parts, missing = self.read(window, reader, reader)
        # A page without old changes is better than none, and states it.
        except DamagedError as error:
            _log.warning("changes of health cannot be read: %s", one_line(error))
            parts, missing = [], [window]
        unread = missing
        if recent is not None:
            parts += [_selected(recent.rows, gap, equal) for gap in missing]
            unread = [part for gap in missing for part in _without(gap, recent.window)]
        rows = pa.concat_tables([CHANGES_SCHEMA.empty_table(), *parts])
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
