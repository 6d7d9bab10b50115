"""Reach of history: gaps, dating of messages, samples of tags, recomputation."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class HistorySettings:
    """Times that a computation reads before its window; the defaults are those of the contract.

    Attributes:
        longest_gap: the longest gap between two observations that a rate is computed over.
        shortest_step: the shortest time between two observations that a rate is computed over, and
            that health counts as two. Over less, a batch that happens to fall between them would
            seem to be a rate.
        timeline_reach: how far back messages are dated by the growth of their queue; the retention
            of the brokers, or more.
        thin_after: the age from which the timeline is thinned.
        thinned_step: how much time one row of the thinned timeline covers.
        sample_validity: how long a sample of tags, or a count of delivered messages, serves for
            filtered lag.
        days: how many days back landed history can be loaded and recomputed.
    """

    longest_gap: timedelta = timedelta(minutes=10)
    shortest_step: timedelta = timedelta(seconds=10)
    timeline_reach: timedelta = timedelta(hours=72)
    thin_after: timedelta = timedelta(hours=6)
    thinned_step: timedelta = timedelta(minutes=5)
    sample_validity: timedelta = timedelta(minutes=60)
    days: int = 30


DEFAULT_HISTORY = HistorySettings()

BACKFILL_HOURS = 6
"""Hours that one run of a backfill computes by default: of 16,000 group queues in some minutes."""
