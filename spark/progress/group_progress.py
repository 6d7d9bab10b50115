"""Progress of groups on topics over the observations that count for their health."""

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import with_new
from spark.progress.consume_modes import POP, is_lite
from spark.progress.keys import GROUP_TOPIC_HISTORY
from tidemark.settings.constants import OBSERVATIONS


def group_progress(rows: DataFrame) -> DataFrame:
    """Add facts from the last `OBSERVATIONS` of each group on each topic.

    Args:
        rows: rows of ``progress.groups`` with their ``number``, and, before the window, with
            ``earlier_worse``, whether their state was a worse one than `CATCHING_UP`.

    Returns:
        The same rows with ``value``, the lag that health compares, NULL when unknown (a sum over
        incomplete queues is unknown); ``was_online`` before; ``pops``; ``observations``: how many
        there are; ``since``: instant of the oldest; ``known``: structs of those with a value,
        oldest first; ``offline``: numbers of those at whose ends no client was online;
        ``produced_tps``: mean rate of production; ``largest_ack_tps``: the largest rate of
        acknowledgements, NULL where none is known; ``redelivered``: the largest rate of redelivered
        messages; ``in_flight``: the known numbers of messages in flight, oldest first;
        ``was_worse_earlier``: whether ``earlier_worse`` is true of one of them.
    """
    return rows.transform(with_new, _value()).transform(with_new, _over_observations())


def in_observations(first: int = 1 - OBSERVATIONS, last: int = 0) -> WindowSpec:
    """Return the observations of the same group and topic, from one before a row up to it."""
    order = SparkWindow.partitionBy(*GROUP_TOPIC_HISTORY).orderBy("number")
    return order.rangeBetween(first, last)


def _value() -> dict[str, Column]:
    value = F.when(F.col("online"), F.col("lag_upper")).otherwise(F.col("readable_lag"))
    return {
        "value": F.when(F.col("complete"), value),
        "was_online": F.max("online").over(in_observations(-1, -1)),
        "pops": F.col("consume_mode").eqNullSafe(POP) & ~is_lite(),
    }


def _over_observations() -> dict[str, Column]:
    all_of_them = in_observations()
    # The step into the first observation that counts began outside.
    steps = in_observations(2 - OBSERVATIONS)
    known = F.when(F.col("value").isNotNull(), F.struct("observed_at", "value", "lost"))
    # An advance without a member online makes `online` unknown, see `spark.progress.groups`.
    was_seen = (F.coalesce(name, F.lit(False)) for name in ("online", "was_online"))
    offline = ~next(was_seen) & ~next(was_seen)
    produced = F.when(F.col("value").isNotNull(), F.col("produce_tps"))
    return {
        "observations": F.count(F.lit(1)).over(all_of_them),
        "since": F.min("observed_at").over(all_of_them),
        "known": F.collect_list(known).over(all_of_them),
        "offline": F.collect_list(F.when(offline, F.col("number"))).over(steps),
        "largest_ack_tps": F.max("ack_tps").over(all_of_them),
        "redelivered": F.max("redelivered_tps").over(all_of_them),
        "in_flight": F.collect_list("inflight").over(all_of_them),
        "was_worse_earlier": F.max("earlier_worse").over(all_of_them),
        "produced_tps": F.avg(produced).over(all_of_them),
    }
