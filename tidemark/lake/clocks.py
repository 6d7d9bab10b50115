"""Windows of time, and bounds of credible instants, because some clocks are wrong by years.

All code that chooses the newest row, or plans by instants that another host wrote, uses them.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

HOUR = timedelta(hours=1)

MICROSECOND = timedelta(microseconds=1)
"""The least by which two instants differ."""


@dataclass(frozen=True)
class Window:
    """Instants from `start` (inclusive) to `end` (exclusive), both UTC.

    Attributes:
        start: first instant.
        end: first instant after.
    """

    start: datetime
    end: datetime

    @classmethod
    def through(cls, first: datetime, last: datetime) -> "Window":
        """Return the window from an instant through another, both included; they may be equal."""
        return cls(first, last + MICROSECOND)

    def __post_init__(self) -> None:
        if self.start > self.end:
            raise ValueError(f"a window cannot end ({self.end}) before it starts ({self.start})")

    def __contains__(self, instant: datetime) -> bool:
        return self.start <= instant < self.end

    @property
    def empty(self) -> bool:
        """Whether the window contains no instant."""
        return self.start == self.end

    def whole_hours(self, *, inclusive: bool = False) -> "Window":
        """Return the smallest window of whole hours around this one.

        Args:
            inclusive: whether `end` itself is to lie inside.
        """
        around = Window.through(self.start, self.end) if inclusive else self
        return Window(floor_hour(around.start), ceil_hour(around.end))


def floor_hour(instant: datetime) -> datetime:
    """Return the start of the instant's hour, UTC."""
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def ceil_hour(instant: datetime) -> datetime:
    """Return the first whole hour that is not before the instant, UTC."""
    floor = floor_hour(instant)
    return floor if floor == instant else floor + HOUR


AHEAD = timedelta(minutes=1)
"""Longest time by which an instant may lie after now and still count. A later one is left out of
plans, pages and alerts until its time has come, and never keeps an incident open."""

WRONG = timedelta(hours=1)
"""Largest credible difference between clocks of a deployment's hosts. A landed snapshot that lies
further ahead comes from a wrong clock and is never loaded."""

EARLIEST = datetime(2010, 1, 1, tzinfo=UTC)
"""No RocketMQ is older. A clock that has lost its time starts in 1970, or at another such date."""


def latest(now: datetime | None = None) -> datetime:
    """Return the latest instant that counts.

    Args:
        now: the present, None = by the clock of this host.
    """
    return (now or datetime.now(UTC)) + AHEAD


def fault(instant: datetime, now: datetime | None = None) -> str | None:
    """Return why no snapshot can be of an instant, in a few words; None where one can be.

    Args:
        instant: the instant of a file or a folder.
        now: the present, None = by the clock of this host.
    """
    present = now or datetime.now(UTC)
    if instant < EARLIEST:
        return f"it lies before {EARLIEST:%Y}, when there was no RocketMQ"
    if instant > present + WRONG:
        ahead = instant - present
        length = f"{ahead.days:,} days" if ahead.days else f"{ahead.seconds // 60} minutes"
        return f"it lies {length} after the clock of this host ({present:%Y-%m-%dT%H:%M:%SZ})"
    return None


@dataclass(frozen=True)
class Week:
    """A week of ISO 8601, from Monday 00:00 in a time zone.

    Attributes:
        monday: its first day.
        zone: the time zone.
    """

    monday: date
    zone: ZoneInfo

    @classmethod
    def of(cls, instant: datetime, zone: ZoneInfo) -> "Week":
        """Return the week that an instant lies in."""
        day = instant.astimezone(zone).date()
        return cls(day - timedelta(day.weekday()), zone)

    @classmethod
    def named(cls, name: str, zone: ZoneInfo) -> "Week":
        """Return the week with a name like ``2026-W47``.

        Raises:
            ValueError: there is none.
        """
        try:
            match = re.fullmatch(r"(\d{4})-?W(\d{2})", name)
            if not match:
                raise ValueError
            return cls(date.fromisocalendar(int(match[1]), int(match[2]), 1), zone)
        except ValueError:
            raise ValueError(f"a week is wanted, e.g. 2026-W47, not {name!r}") from None

    @property
    def name(self) -> str:
        """Its name: ``2026-W47``."""
        year, number, _ = self.monday.isocalendar()
        return f"{year}-W{number:02}"

    @property
    def before(self) -> "Week":
        """The week before it."""
        return Week(self.monday - timedelta(7), self.zone)

    @property
    def window(self) -> Window:
        """Its instants; a day with a change of clocks is an hour shorter or longer."""
        start, end = (
            datetime.combine(day, time(), self.zone).astimezone(UTC)
            for day in (self.monday, self.monday + timedelta(7))
        )
        return Window(start, end)
