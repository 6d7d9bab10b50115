"""Copies of ``progress.groups`` sorted by group, so that months of one group are read fast.

An hour has the error of the delay too. A day has points of `POINT`, each with its last and its
largest values.
"""

from collections.abc import Mapping
from pathlib import Path

from tidemark.board.copies import Copies, digest, write
from tidemark.board.data_files import DataFiles, one_thread
from tidemark.board.past import of_whole_clusters
from tidemark.lake.bounds import columns_with_marks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress
from tidemark.planning.history import loaded_snapshots, remembered

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

FORM = "3"
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
            hour: digest((FORM, *paths, *queues.get(hour, ()))) for hour, paths in groups.items()
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
