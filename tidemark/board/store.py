"""The newest rows in memory, read again whenever a table has a new version.

A thread of its own checks every `CHECK_SECONDS`, so that no request waits for files. Only the first
request after `WATCHED_SECONDS` without any waits: while nobody reads, nothing is read. A failure to
read leaves the rows as they were, and its reason is shown.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

from tidemark.board import copies
from tidemark.board.data_files import DataFiles
from tidemark.board.group_history import ChangeCopies, GroupCopies, GroupHistory
from tidemark.board.newest import Newest, read_newest
from tidemark.board.past import History, PastRows, Shown
from tidemark.board.trends import Listed, Points, Trends, read_points, read_trends
from tidemark.host.failures import one_line
from tidemark.lake import clocks
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress

CHECK_SECONDS = 2.0
"""Seconds between two checks of the versions of tables."""

SETTLED_SECONDS = 20.0
"""Longest time for which changes are not read because more follow. A tick changes one table after
the other, and the row of ``progress.snapshots``, which shows them, comes last."""

WATCHED_SECONDS = 300.0
"""Seconds after a request for which changes are read without another one."""

SHOWN_SECONDS = 300.0
"""Seconds for which trends of a list are read at every snapshot after a page has shown them."""

FIRST_READ_SECONDS = 20.0
"""Longest wait of a request for the first rows, after the start or after `WATCHED_SECONDS`."""

_log = logging.getLogger(__name__)


class Store:
    """The newest rows of the tables, for any number of readers at once.

    Attributes:
        lake: the tables.
        past: the rows of instants of the past.
        files: the data files of tables.
        copies: copies of the past of groups in their order.
        groups: groups over time.
        health: copies of the changes of health of groups.
        problem: why the tables could not be read at the last check; None when they were.
        checked_at: when the last check began; None before the first ended. Rows that were written
            before are among those that are shown.
    """

    def __init__(self, lake: Lake, has_history: Callable[[], bool] = lambda: True) -> None:
        """Keep the rows of a lake.

        Args:
            lake: the tables.
            has_history: whether there are tables; an empty home is not touched.
        """
        self.lake = lake
        self.past = History(lake)
        self.files = DataFiles(lake)
        self.copies = GroupCopies(lake, self.files)
        self.groups = GroupHistory(lake, self.files, self.copies)
        self.health = ChangeCopies(lake, self.files)
        self.problem: str | None = None
        self.checked_at: datetime | None = None
        self._has_history = has_history
        self._newest = Newest()
        self._trends: tuple[Mapping[str, datetime], Trends] = ({}, Trends())
        # As long as their rows, which are forgotten when the tables change.
        self._past_trends: WeakKeyDictionary[PastRows, Trends] = WeakKeyDictionary()
        # The points of each list that were read last, and when a page last showed the newest.
        self._points: dict[Listed, tuple[Mapping[str, datetime], Points]] = {}
        self._shown_at: dict[Listed, float] = {}
        self._reading_points = threading.Lock()
        self._reading_past = threading.Lock()
        self._was_read = threading.Event()
        self._changed = threading.Condition()
        self._reading = threading.Lock()
        self._watched_at = time.monotonic()
        self._watched = threading.Event()
        self._is_awake = threading.Event()
        self._is_awake.set()

    @property
    def is_watched(self) -> bool:
        """Whether there was a request within `WATCHED_SECONDS`."""
        return time.monotonic() - self._watched_at < WATCHED_SECONDS

    @property
    def is_awake(self) -> bool:
        """Whether the rows are followed, or those of a quiet time were read since."""
        return self._is_awake.is_set()

    def watch(self) -> None:
        """Note a request, and wait until the rows are followed again.

        Slow tables hold it up for `FIRST_READ_SECONDS` at most. Then it gets the rows there are.
        """
        self.note_request()
        self._is_awake.wait(FIRST_READ_SECONDS)

    def note_request(self) -> None:
        """Let changes be read from now on, without waiting."""
        self._watched_at = time.monotonic()
        self._watched.set()

    @property
    def was_read(self) -> bool:
        """Whether there are rows or the reason why there are none."""
        return self._was_read.is_set()

    @property
    def changes(self) -> int:
        """How often other rows were read."""
        return self._newest.changes

    @property
    def newest(self) -> Newest:
        """The newest rows; right after the start it waits for them."""
        self._was_read.wait(FIRST_READ_SECONDS)
        return self._newest

    def trends(self, rows: Shown) -> Trends:
        """Return the last hours of all groups until what is shown; nothing where unreadable."""
        at, trends = self._trends
        if at == rows.at:
            return trends
        if not isinstance(rows, PastRows):
            # Another thread has just replaced these rows.
            return self._read_trends(rows.at)
        with self._reading_past:
            if rows not in self._past_trends:
                self._past_trends[rows] = self._read_trends(rows.at)
            return self._past_trends[rows]

    def points(self, rows: Shown, listed: Listed) -> Points:
        """Return the last hours of topics or brokers until what is shown; none if unreadable."""
        if not isinstance(rows, PastRows):
            self._shown_at[listed] = time.monotonic()
        return self._read_points(rows.at, listed)

    def _read_points(self, shown: Mapping[str, datetime], listed: Listed) -> Points:
        with self._reading_points:
            at, points = self._points.get(listed, ({}, Points()))
            if at == shown:
                return points
            try:
                points = read_points(self.lake, self.files, shown, listed)
            # A page without trends is better than none.
            except Exception as error:
                _log.warning("the last hours cannot be read: %s", one_line(error))
                return Points()
            self._points[listed] = shown, points
            return points

    def _read_shown_points(self, at: Mapping[str, datetime]) -> None:
        """Read the points of lists that a page shows now, so that no request waits for them."""
        since = time.monotonic() - SHOWN_SECONDS
        for listed in [listed for listed, shown in self._shown_at.items() if shown > since]:
            self._read_points(at, listed)

    def _read_trends(self, at: Mapping[str, datetime]) -> Trends:
        try:
            return read_trends(self.lake, self.files, at)
        # A page without trends is better than none.
        except Exception as error:
            _log.warning("the last hours cannot be read: %s", one_line(error))
            return Trends()

    def ahead(self, now: datetime) -> list[Mapping[str, Any]]:
        """Return the snapshots that lie in the future, by a clock that is ahead."""
        return [row for row in self.newest.ahead if row["observed_at"] > clocks.latest(now)]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever computed."""
        return not self.newest.at

    def refresh(self) -> bool:
        """Read changed tables again; return whether any had changed."""
        with self._reading:
            before, began_at = self._newest, datetime.now(UTC)
            try:
                if self._has_history():
                    present = self.files.present()
                    if present != before.versions:
                        newest = read_newest(self.lake, before, present, datetime.now(UTC))
                        if newest.at != before.at:
                            self._trends = newest.at, self._read_trends(newest.at)
                            self._read_shown_points(newest.at)
                        self._newest = newest
                        self.past.forget()
                self.problem = None
            # Whatever the error of the tables is, the board keeps its rows and reports the error.
            except Exception as error:
                reason = one_line(error)
                if reason != self.problem:
                    _log.warning("tables cannot be read: %s", reason)
                self.problem = reason
            self.checked_at = began_at
            self._was_read.set()
            has_changed = self._newest is not before
        if has_changed:
            with self._changed:
                self._changed.notify_all()
        return has_changed

    def wait(self, seen: int, ended: threading.Event) -> int:
        """Return `changes` as soon as it differs from `seen`, or as `wake` finds this ended."""
        with self._changed:
            self._changed.wait_for(lambda: self.changes != seen or ended.is_set())
            return self.changes

    def wake(self) -> None:
        """Let every thread in `wait` check whether it has ended."""
        with self._changed:
            self._changed.notify_all()

    def start_copies(self) -> Callable[[], None]:
        """Copy the past in a thread; return a function that ends it."""

        def has_history() -> bool:
            # Nobody else requests the present files while nobody reads.
            return self._has_history() and bool(self.files.present())

        return copies.start((self.copies, self.health), has_history)

    def start(self) -> Callable[[], None]:
        """Refresh every `CHECK_SECONDS` in a thread; return a function that ends it."""
        ended = threading.Event()

        def check_regularly() -> None:
            self.refresh()
            changing = Changing(self._newest.versions)
            while not ended.wait(CHECK_SECONDS):
                self._watched.clear()  # before the check, so that no request is missed
                if not self.is_watched and not ended.is_set():
                    self._is_awake.clear()
                    self._watched.wait()
                    self.refresh()
                    self._is_awake.set()
                elif self.problem is not None or changing.is_to_be_read(self._present()):
                    self.refresh()

        thread = threading.Thread(target=check_regularly, name="board-store", daemon=True)
        thread.start()

        def end() -> None:
            ended.set()
            self._watched.set()
            thread.join(timeout=10)

        return end

    def _present(self) -> Mapping[str, str]:
        """Return the present versions of tables; none where they cannot be read."""
        try:
            return self.files.present() if self._has_history() else {}
        except Exception:
            return {}  # `refresh` reports the reason


class Changing:
    """Decides when changed tables are read, while a tick changes one after the other."""

    def __init__(self, read: Mapping[str, str]) -> None:
        """Know the versions that were read."""
        self._read = self._before = read
        self._since = time.monotonic()

    def is_to_be_read(self, present: Mapping[str, str]) -> bool:
        """Return whether to read these versions now.

        They are read when they show another snapshot, when they have not changed since the last
        check, and after `SETTLED_SECONDS` whatever changes.
        """
        before, self._before = self._before, present
        if present == self._read:
            self._since = time.monotonic()
            return bool(present == {})
        shown = progress.SNAPSHOTS.name
        is_due = (
            present.get(shown) != self._read.get(shown)
            or present == before
            or time.monotonic() - self._since >= SETTLED_SECONDS
        )
        if is_due:
            self._read, self._since = present, time.monotonic()
        return is_due
