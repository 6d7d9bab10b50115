"""Windows: half-open intervals of time that a run computes and replaces."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
        """From an instant through another, both inside; of one alone when they are the same."""
        return cls(first, last + MICROSECOND)

    def __post_init__(self) -> None:
        if self.start > self.end:
            raise ValueError(f"a window cannot end ({self.end}) before it starts ({self.start})")

    def __contains__(self, instant: datetime) -> bool:
        return self.start <= instant < self.end

    def start_of(self, cluster: str | None) -> datetime:
        """The first instant of a cluster."""
        return self.start

    def holds(self, cluster: str | None, instant: datetime) -> bool:
        """Whether an instant of a cluster lies inside."""
        return self.start_of(cluster) <= instant < self.end

    @property
    def empty(self) -> bool:
        """Whether no instant lies inside."""
        return self.start == self.end

    def whole_hours(self, *, inclusive: bool = False) -> "Window":
        """The smallest window of whole hours around this one.

        Args:
            inclusive: whether `end` itself is to lie inside.
        """
        around = Window.through(self.start, self.end) if inclusive else self
        return Window(floor_hour(around.start), ceil_hour(around.end))


@dataclass(frozen=True)
class ClusterWindow(Window):
    """A window that begins at another instant for each cluster, and holds nothing of the others.

    `start` is the earliest of these instants. What belongs to no cluster lies inside from `start`
    on.

    Attributes:
        starts: the first instant of each cluster that the window holds.
    """

    starts: Mapping[str, datetime] = field(default_factory=dict, hash=False)

    def start_of(self, cluster: str | None) -> datetime:
        """The first instant of a cluster; the end where the window holds nothing of it."""
        return self.start if cluster is None else self.starts.get(cluster, self.end)


def floor_hour(instant: datetime) -> datetime:
    """The start of the instant's hour, UTC."""
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def ceil_hour(instant: datetime) -> datetime:
    """The first whole hour that is not before the instant, UTC."""
    floor = floor_hour(instant)
    return floor if floor == instant else floor + HOUR
