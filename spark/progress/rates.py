"""Rates of queues, and how long a lag lasts at them."""

from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark.columns import milliseconds

RATES = ("produce_tps", "consume_tps", "pull_tps")

NEGLIGIBLE = 1e-6
"""A difference of rates under this share of them is arithmetic noise, not a drain."""

RIPPLE_SECONDS = 60
"""A lag of at most this many seconds of production is no backlog: the floor of `FALLING_BEHIND` and
`CATCHING_UP` (`settings.health_thresholds.Thresholds.rise_seconds`)."""


def rates(longest_gap: timedelta) -> dict[str, Column]:
    """Return the rates of a queue since its previous observation, in messages a second.

    Args:
        longest_gap: the longest time between two observations over which a rate is computed.
    """
    read_at = F.col("observed_at")
    # Offsets of clients' files meet queues of another snapshot: its own step gives their rate.
    written_at = F.coalesce("queue_offsets_at", read_at)
    return {
        "produce_tps": _rate("max_offset", "previous_at", written_at, longest_gap),
        "consume_tps": _rate("consumer_offset", "consumer_previous_at", read_at, longest_gap),
        "pull_tps": _rate("pull_offset", "consumer_previous_at", read_at, longest_gap),
    }


def _rate(offset: str, previous_at: str, at: Column, longest_gap: timedelta) -> Column:
    """Messages a second since the previous observation; NULL over a long gap or a step back."""
    seconds = milliseconds(previous_at, at) / 1000
    step = F.col(offset) - F.col(f"previous_{offset}")
    usable = (seconds > 0) & (seconds <= longest_gap.total_seconds()) & (step >= 0)
    return F.when(usable, step / seconds)


def drain_seconds() -> Column:
    """Return the seconds until no readable lag is left at current rates; NULL when never.

    NULL too where the lag is at most what is written in `RIPPLE_SECONDS`: a group that keeps up
    always has some, and the difference of its rates is chance.
    """
    readable, gain = F.col("readable_lag"), F.col("consume_tps") - F.col("produce_tps")
    noise = F.greatest("consume_tps", "produce_tps") * NEGLIGIBLE
    is_backlog = readable > F.col("produce_tps") * RIPPLE_SECONDS
    drains = is_backlog & (gain > 0) & (gain >= noise)
    return F.when(readable == 0, F.lit(0.0)).when(drains, readable / gain)
