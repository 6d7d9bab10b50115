"""Windows: half-open intervals of time that a run computes and replaces."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

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
