"""Rates of queues, and the time until their lag is consumed at these rates."""

from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark.columns import milliseconds

RATES = ("produce_tps", "consume_tps", "pull_tps")

NEGLIGIBLE = 1e-6
"""A difference of rates under this share of them is arithmetic noise, not a drain."""

RIPPLE_SECONDS = 60
"""A lag of at most this many seconds of production is no backlog: the floor of `FALLING_BEHIND` and
`CATCHING_UP` (`settings.health.Thresholds.rise_seconds`)."""


def rates(longest_gap: timedelta) -> dict[str, Column]:
    """Return the rates of a queue in messages a second, since the observations they are based on.

    Args:
        longest_gap: the longest time between two observations over which a rate is computed.
    """
    read_at = F.col("observed_at")
    # Offsets of clients' files meet queues of another snapshot: its own step gives their rate.
    written_at = F.coalesce("queue_offsets_at", read_at)
    return {
        "produce_tps": _rate("max_offset", "written_base", written_at, longest_gap),
        "consume_tps": _rate("consumer_offset", "read_base", read_at, longest_gap),
        "pull_tps": _rate("pull_offset", "read_base", read_at, longest_gap),
    }


def _rate(offset: str, base: str, at: Column, longest_gap: timedelta) -> Column:
    """Return messages per second since a base; NULL over a long gap, or where the offset fell."""
    seconds = milliseconds(f"{base}.observed_at", at) / 1000
    now, before = F.col(offset), F.col(f"{base}.{offset}")
    # The previous observation may lie between: then it must not be lower than the base either.
    previous = F.coalesce(f"previous_{offset}", before)
    is_usable = seconds <= longest_gap.total_seconds()
    never_fell = (before <= previous) & (previous <= now)
    return F.when(is_usable & never_fell, (now - before) / seconds)


def drain_seconds() -> Column:
    """Return the seconds until no readable lag is left at current rates; NULL when never.

    It is also NULL where the lag is at most the production of `RIPPLE_SECONDS`: a group that keeps
    up always has some lag, and the difference of its rates is random. It is NULL where
    ``lag_is_lower_bound``, because the remaining work is unknown.
    """
    readable, gain = F.col("readable_lag"), F.col("consume_tps") - F.col("produce_tps")
    noise = F.greatest("consume_tps", "produce_tps") * NEGLIGIBLE
    is_backlog = readable > F.col("produce_tps") * RIPPLE_SECONDS
    drains = is_backlog & (gain > 0) & (gain >= noise)
    seconds = F.when(readable == 0, F.lit(0.0)).when(drains, readable / gain)
    return F.when(~F.coalesce("lag_is_lower_bound", F.lit(False)), seconds)
