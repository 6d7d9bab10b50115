"""Copies of ``progress.groups`` sorted by group, so that months of one group are read fast.

Files of the tables hold all groups of an hour in the order of time. A thread copies each past hour
into a file of its own in the order of groups, with the error of the delay, and each past day into
points of `POINT`. A copy names the data files it was made of, so an outdated copy is not read.
Copies can be deleted at any time.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from tidemark.board.data_files import DataFiles
from tidemark.board.past import of_whole_clusters
from tidemark.host.failures import one_line
from tidemark.lake.bounds import columns_with_marks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.tables import progress
from tidemark.planning.history import loaded_snapshots, remembered
from tidemark.settings.home import remove_unfinished, sync_file, unfinished

NUMBERS = ("lag", "readable_lag", "delay_ms", "produce_tps", "consume_tps")
"""Numbers of ``progress.groups`` that are copied."""

COLUMNS = columns_with_marks(NUMBERS)
"""These numbers and their marks of bounds. A point is a bound where one of its rows is."""

ERROR = "delay_error_ms"
"""Error of the delay of the most delayed queue, from ``progress.queues``."""

MOST = "most_"
"""Prefix of the names of the largest values of a point."""

POINT = 900
"""Seconds of a point of a day: with its last and its largest value."""

FORM = "3"
"""Part of the name of a copy: copies of a program that chose other rows are not read."""

KEPT = timedelta(days=91)
SETTLED = timedelta(minutes=10)
"""Time after its end at which an hour is copied; ticks may still write it before."""

ROW_GROUP = 8192
"""Rows that are read at least; a group has a thousand of them in a day at most."""

CHECK_SECONDS = 30.0
SHARE = 0.25
"""Share of the time that copying may take from ticks and requests."""

_log = logging.getLogger(__name__)

_ORDER = "cluster, consumer_group, topic, observed_at"

_HOUR = f"""
    WITH errors AS (
        SELECT cluster, consumer_group, topic, observed_at,
            arg_max_null({ERROR}, delay_ms) AS {ERROR}
        FROM queues WHERE delay_ms IS NOT NULL GROUP BY ALL)
    SELECT {_ORDER}, {", ".join(COLUMNS)}, {ERROR},
        {", ".join(f"{name} AS {MOST}{name}" for name in (*COLUMNS, ERROR))}
    FROM groups LEFT JOIN errors USING (cluster, consumer_group, topic, observed_at)
    ORDER BY {_ORDER}"""

_DAY = f"""
    SELECT cluster, consumer_group, topic,
        time_bucket(INTERVAL {POINT} SECOND, observed_at) AS point, point AS observed_at,
        {", ".join(f"arg_max_null({name}, observed_at) AS {name}" for name in (*COLUMNS, ERROR))},
        {", ".join(f"max({name}) AS {MOST}{name}" for name in (*COLUMNS, ERROR))}
    FROM read_parquet(?) copies GROUP BY cluster, consumer_group, topic, point
    ORDER BY cluster, consumer_group, topic, point"""


class GroupCopies:
    """Copies of hours and days of ``progress.groups``, kept apart from the tables."""

    def __init__(
        self, lake: Lake, files: DataFiles, has_history: Callable[[], bool] = lambda: True
    ) -> None:
        """Nothing is read or written before `start`.

        Args:
            lake: the tables.
            files: knows their data files.
            has_history: whether there are tables.
        """
        self._lake = lake
        self._files = files
        self._has_history = has_history
        self._folder = lake.home.path / "board"

    def copy_next(self, now: datetime) -> bool:
        """Copy the newest hour or day that has no copy; return whether there was one."""
        names = self._names()
        over = int((now - SETTLED).timestamp()) // 3600
        first = int((now - KEPT).timestamp()) // 86_400
        for day in sorted({hour // 24 for hour in names if hour // 24 >= first}, reverse=True):
            is_over = (day + 1) * 24 <= over
            target = self._day_path(day, names)
            if is_over and target.exists() and day < over // 24 - 1:
                continue
            for hour in reversed(_hours_of(day)):
                if hour in names and hour < over and not self._hour_path(hour, names).exists():
                    self._copy_hour(hour, self._hour_path(hour, names))
                    return True
            if is_over and not target.exists():
                self._copy_day(
                    target, [self._hour_path(h, names) for h in _hours_of(day) if h in names]
                )
                return True
        return False

    def remove_old(self, now: datetime) -> None:
        """Remove copies that are no longer true, and hours that are read by the day."""
        names = self._names()
        since = int(now.timestamp()) // 86_400 - 1
        needed = {self._hour_path(hour, names) for hour in names if hour // 24 >= since}
        needed |= {self._day_path(day, names) for day in {hour // 24 for hour in names}}
        for path in self._folder.glob("*/*.parquet"):
            if path not in needed:
                path.unlink(missing_ok=True)

    def start(self) -> Callable[[], None]:
        """Remove left-overs of kills and copy in a thread; return a function that ends it."""
        remove_unfinished(self._folder / "hours", self._folder / "days")
        ended = threading.Event()

        def follow() -> None:
            while not ended.wait(CHECK_SECONDS):
                try:
                    self._copy_all(ended)
                # Pages work without copies, only slower.
                except Exception as error:
                    _log.warning("the past is not copied: %s", one_line(error))

        thread = threading.Thread(target=follow, name="board-history", daemon=True)
        thread.start()

        def end() -> None:
            ended.set()
            thread.join(timeout=10)

        return end

    def _copy_all(self, ended: threading.Event) -> None:
        while self._has_history() and not ended.is_set():
            started, now = time.monotonic(), datetime.now(UTC)
            if not self.copy_next(now):
                self.remove_old(now)
                return
            ended.wait((time.monotonic() - started) * (1 / SHARE - 1))

    def _names(self) -> Mapping[int, str]:
        """Return a name for the present data files of each hour; none where rows are deleted."""
        groups = self._files.by_hour(progress.GROUPS) or {}
        queues = self._files.by_hour(progress.QUEUES) or {}
        return {
            hour: _digest((FORM, *paths, *queues.get(hour, ()))) for hour, paths in groups.items()
        }

    def _hour_path(self, hour: int, names: Mapping[int, str]) -> Path:
        at = datetime.fromtimestamp(hour * 3600, UTC)
        return self._folder / "hours" / f"{at:%Y-%m-%dT%H}-{names[hour]}.parquet"

    def _day_path(self, day: int, names: Mapping[int, str]) -> Path:
        at = datetime.fromtimestamp(day * 86_400, UTC)
        name = _digest(names.get(hour, "") for hour in _hours_of(day))
        return self._folder / "days" / f"{at:%Y-%m-%d}-{name}.parquet"

    def hours(self, window: Window) -> tuple[list[Path], list[Window]]:
        """Return the copies of hours of a window, and the windows that have none."""
        names = self._names()
        hour_paths = {
            hour: self._hour_path(hour, names) for hour in _within(window, 3600) if hour in names
        }
        return _divided(hour_paths, window, 3600)

    def days(self, window: Window) -> tuple[list[Path], list[Window]]:
        """Return the copies of days of a window, and the windows that have none."""
        names = self._names()
        known = {hour // 24 for hour in names}
        days = [day for day in _within(window, 86_400) if day in known]
        day_paths = {day: self._day_path(day, names) for day in days}
        return _divided(day_paths, window, 86_400)

    def _copy_hour(self, hour: int, target: Path) -> None:
        start = datetime.fromtimestamp(hour * 3600, UTC)
        window = Window(start, start + HOUR)
        names = ("cluster", "consumer_group", "topic", "observed_at")
        groups = self._lake.read(progress.GROUPS, window, columns=("snapshot_id", *names, *COLUMNS))
        known = loaded_snapshots(self._lake, remembered(window))
        queues = self._lake.read(progress.QUEUES, window, columns=(*names, "delay_ms", ERROR))
        with duckdb.connect() as session:
            session.execute("SET TimeZone = 'UTC'; SET threads = 1")
            session.register("groups", of_whole_clusters(groups, known))
            session.register("queues", queues)
            _write(session, _HOUR, [], target)

    def _copy_day(self, target: Path, hours: list[Path]) -> None:
        with duckdb.connect() as session:
            session.execute("SET TimeZone = 'UTC'; SET threads = 1")
            try:
                _write(session, _DAY, [[str(path) for path in hours]], target)
            except duckdb.Error:
                # Without damaged hours, which are copied again first, the day can be copied.
                if not remove_damaged(hours):
                    raise


def remove_damaged(copies: Iterable[Path]) -> bool:
    """Remove the copies that cannot be read, as after a crash; return whether there were any."""
    damaged = [path for path in copies if not _is_whole(path)]
    for path in damaged:
        _log.warning("%s is damaged: it is copied again", path)
        path.unlink(missing_ok=True)
    return bool(damaged)


def _is_whole(copy: Path) -> bool:
    try:
        with duckdb.connect() as session:
            # Hash every value, so that the engine cannot answer from the file's statistics.
            text = "SELECT bit_xor(hash(COLUMNS(*))) FROM read_parquet(?)"
            session.execute(text, [str(copy)]).fetchall()
    except duckdb.Error:
        return False
    return True


def _divided(
    paths: Mapping[int, Path], window: Window, size: int
) -> tuple[list[Path], list[Window]]:
    """Return the copies that there are, and the windows of those that there are not."""
    copies = [path for path in paths.values() if path.exists()]
    missing = [number for number, path in paths.items() if not path.exists()]
    windows: list[Window] = []
    for number in missing:
        start = max(window.start, datetime.fromtimestamp(number * size, UTC))
        end = min(window.end, datetime.fromtimestamp((number + 1) * size, UTC))
        if windows and windows[-1].end == start:
            windows[-1] = Window(windows[-1].start, end)
        else:
            windows.append(Window(start, end))
    return copies, windows


def _within(window: Window, size: int) -> range:
    return range(int(window.start.timestamp()) // size, int(-(-window.end.timestamp() // size)))


def _hours_of(day: int) -> range:
    return range(day * 24, day * 24 + 24)


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _write(
    session: duckdb.DuckDBPyConnection, text: str, values: list[object], target: Path
) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = unfinished(target)
    options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP}"
    session.execute(
        f"COPY ({text}) TO '{str(part).replace(chr(39), chr(39) * 2)}' ({options})", values
    )
    sync_file(part)
    part.replace(target)
