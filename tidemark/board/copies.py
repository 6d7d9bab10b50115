"""Copies of past hours and days of tables, in the order in which the board reads them.

Files of the tables hold all rows of an hour in the order of time. A thread copies each past hour
into a file of its own, and the hours of each past day into one. A copy names the data files it was
made of, so an outdated copy is not read. Copies can be deleted at any time.
"""

import hashlib
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

import duckdb
import pyarrow as pa

from tidemark.host.failures import one_line
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.settings.home import remove_unfinished, sync_file, unfinished

KEPT = timedelta(days=91)
SETTLED = timedelta(minutes=10)
"""Time after its end at which an hour is copied; ticks may still write it before."""

ROW_GROUP = 24_576
"""Rows of a row group.

A reader parses the description of every row group of a file and the rows of one. For 1,000 groups
on topics 9,000 rows are the least work, for 20,000 they are 40,000.
"""

CHECK_SECONDS = 30.0
SHARE = 0.25
"""Share of the time that copying may take from ticks and requests."""

Reader = Callable[[list[str]], pa.Table]
"""Returns the rows of files; it raises `duckdb.Error` where one is damaged."""

_log = logging.getLogger(__name__)


class Copies(ABC):
    """Copies of one kind: a file of each past hour, and one of each past day.

    Attributes:
        folders: of the copies of hours, and of those of days.
    """

    def __init__(self, lake: Lake, prefix: str = "") -> None:
        """Nothing is read or written before the first copy.

        Args:
            lake: the tables.
            prefix: begins the names of the folders.
        """
        self._lake = lake
        folder = lake.home.path / "board"
        self.folders = folder / f"{prefix}hours", folder / f"{prefix}days"

    @abstractmethod
    def _names(self) -> Mapping[int, str]:
        """Return a name for the present data files of each hour; none where rows are deleted."""

    @abstractmethod
    def _write_hour(self, window: Window, target: Path) -> None:
        """Copy an hour."""

    @abstractmethod
    def _write_day(self, hours: list[Path], target: Path) -> None:
        """Copy a day from the copies of its hours.

        Raises:
            duckdb.Error: one of them cannot be read.
        """

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
                    self._write_hour(_window(hour, 3600), self._hour_path(hour, names))
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
        for path in [path for folder in self.folders for path in folder.glob("*.parquet")]:
            if path not in needed:
                path.unlink(missing_ok=True)

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

    def read(
        self, window: Window, of_hours: Reader, of_days: Reader | None = None
    ) -> tuple[list[pa.Table], list[Window]]:
        """Return the rows of the copies of a window, and the windows that have no copy.

        Args:
            window: the window.
            of_hours: returns the rows of copies of hours.
            of_days: returns those of days, which are read first where there are any; no copy of a
                day is read without.
        """
        days = [(self.days, of_days)] if of_days else []
        parts, missing = [], [window]
        for copies_of, reader in (*days, (self.hours, of_hours)):
            rest: list[Window] = []
            for item in missing:
                rows, without = _copied(copies_of, item, reader)
                parts += rows
                rest += without
            missing = rest
        return parts, missing

    def _hour_path(self, hour: int, names: Mapping[int, str]) -> Path:
        at = datetime.fromtimestamp(hour * 3600, UTC)
        return self.folders[0] / f"{at:%Y-%m-%dT%H}-{names[hour]}.parquet"

    def _day_path(self, day: int, names: Mapping[int, str]) -> Path:
        at = datetime.fromtimestamp(day * 86_400, UTC)
        name = digest(tuple(names.get(hour, "") for hour in _hours_of(day)))
        return self.folders[1] / f"{at:%Y-%m-%d}-{name}.parquet"

    def _copy_day(self, target: Path, hours: list[Path]) -> None:
        try:
            self._write_day(hours, target)
        except duckdb.Error:
            # Without damaged hours, which are copied again first, the day can be copied.
            if not _remove_damaged(hours):
                raise


def start(kinds: Sequence[Copies], has_history: Callable[[], bool]) -> Callable[[], None]:
    """Remove left-overs of kills and copy in a thread; return a function that ends it.

    Args:
        kinds: the copies.
        has_history: whether there are tables; an empty home is not touched.
    """
    remove_unfinished(*(folder for copies in kinds for folder in copies.folders))
    ended = threading.Event()

    def copy_all(copies: Copies) -> None:
        while has_history() and not ended.is_set():
            started, now = time.monotonic(), datetime.now(UTC)
            if not copies.copy_next(now):
                copies.remove_old(now)
                return
            ended.wait((time.monotonic() - started) * (1 / SHARE - 1))

    def follow() -> None:
        while not ended.wait(CHECK_SECONDS):
            try:
                for copies in kinds:
                    copy_all(copies)
            # Pages work without copies, only slower.
            except Exception as error:
                _log.warning("the past is not copied: %s", one_line(error))

    thread = threading.Thread(target=follow, name="board-history", daemon=True)
    thread.start()

    def end() -> None:
        ended.set()
        thread.join(timeout=10)

    return end


def write(
    session: duckdb.DuckDBPyConnection, text: str, values: list[object], target: Path
) -> None:
    """Write the rows of a query into a file, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = unfinished(target)
    options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP}"
    session.execute(
        f"COPY ({text}) TO '{str(part).replace(chr(39), chr(39) * 2)}' ({options})", values
    )
    sync_file(part)
    part.replace(target)


@lru_cache(2 * 24 * 2 * KEPT.days)
def digest(texts: tuple[str, ...]) -> str:
    """Return a name of texts, which other texts do not have; of all copies it is remembered."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


CopiesOf = Callable[[Window], tuple[list[Path], list[Window]]]
"""Returns the copies of a window, and the windows that have none."""


def _copied(
    copies_of: CopiesOf, window: Window, reader: Reader
) -> tuple[list[pa.Table], list[Window]]:
    paths, missing = copies_of(window)
    if not paths:
        return [], missing
    try:
        return [reader([str(path) for path in paths])], missing
    except duckdb.Error:
        return _copied(copies_of, window, reader) if _remove_damaged(paths) else ([], [window])


def _remove_damaged(copies: Iterable[Path]) -> bool:
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


def _window(number: int, size: int) -> Window:
    start = datetime.fromtimestamp(number * size, UTC)
    return Window(start, start + timedelta(seconds=size))
