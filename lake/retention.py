"""How long rows are kept, and since when raw rows are no longer complete."""

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lake.catalog import Lake, earlier_than
from lake.home import Home, write_whole
from lake.landing import landed
from lake.schema import Table
from lake.settings import whole_number
from lake.tables import progress
from lake.window import floor_hour

FOR_EVER = ("alerting.", "progress.events")
"""How the names of tables begin that nothing is removed from."""


@dataclass(frozen=True)
class Retention:
    """Days that rows are kept.

    Attributes:
        raw: those of ``raw.*``, and landed snapshots that are computed; ``TIDEMARK_RAW_DAYS``.
        progress: those of ``progress.*`` and ``quality.*``; ``TIDEMARK_PROGRESS_DAYS``.
    """

    raw: int = 7
    progress: int = 90

    @classmethod
    def of_environment(cls) -> "Retention":
        """As the environment says.

        Raises:
            SystemExit: in one line; a number of days is none, or raw rows would outlive what is
                made of them.
        """
        found = cls(
            raw=whole_number("TIDEMARK_RAW_DAYS", cls.raw),
            progress=whole_number("TIDEMARK_PROGRESS_DAYS", cls.progress),
        )
        if found.raw > found.progress:
            raise SystemExit(
                f"tidemark: TIDEMARK_RAW_DAYS={found.raw} is more than TIDEMARK_PROGRESS_DAYS="
                f"{found.progress}: what is computed must stay at least as long"
            )
        return found

    def before(self, table: Table, now: datetime) -> datetime | None:
        """The hour before which rows of a table are removed; None where they stay for ever."""
        if table.name.startswith(FOR_EVER):
            return None
        days = self.raw if table.namespace == "raw" else self.progress
        return floor_hour(now - timedelta(days=days))


def raw_since(home: Home) -> datetime | None:
    """Since when raw rows are complete; None while none were removed."""
    try:
        return datetime.fromisoformat(_file(home).read_text().strip()).astimezone(UTC)
    except FileNotFoundError:
        return None


def remember_raw_since(home: Home, instant: datetime) -> None:
    """Writes down that older raw rows are removed, before they are."""
    known = raw_since(home)
    if known is None or known < instant:
        write_whole(_file(home), instant.isoformat())


def remove_landed(lake: Lake, before: datetime) -> int:
    """Removes the folders of landed snapshots before an instant that are computed; how many."""
    where = earlier_than(progress.SNAPSHOTS.instant, before)
    computed = lake.read(progress.SNAPSHOTS, where, columns=("snapshot_id",))
    known = set(computed["snapshot_id"].to_pylist())
    old = [item for item in landed(lake.home) if item.snapshot_id in known]
    for item in old:
        shutil.rmtree(item.path)
    return len(old)


def _file(home: Home) -> Path:
    return home.path / "raw_since"
