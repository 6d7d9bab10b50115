"""Age of a cluster's newest snapshot, and whether it is too old."""

from datetime import datetime, timedelta

from lake import clocks

STALE_AFTER = timedelta(minutes=5)
"""Age from which rows are stale: a cluster is collected every minute."""


def age_seconds(observed_at: datetime | None, now: datetime) -> float | None:
    """Return the age of a snapshot in seconds, None without one."""
    return None if observed_at is None else max(0.0, (now - observed_at).total_seconds())


def is_fresh(observed_at: datetime | None, now: datetime) -> bool:
    """Return whether a snapshot is new enough to speak of now; one of a clock ahead is not."""
    if observed_at is None or observed_at > clocks.latest(now):
        return False
    return now - observed_at <= STALE_AFTER
