"""The minutes of objectives before each snapshot, from which rules compute burn rates.

A snapshot is judged by the whole minutes before its own. They are the same whenever the snapshot is
computed: by its own tick, by a tick with many snapshots, and by a backfill. The row of its hour as
it stands may hold minutes after it.
"""

from pyspark.sql import DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import with_new
from tidemark.settings.objectives import LONGEST_HOURS, MinuteState

_MINUTES = 60

_SUBJECT = ("cluster", "consumer_group", "topic")


def objective_minutes(objectives: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return the states of the last minutes before each snapshot, by group and topic.

    Args:
        objectives: rows of ``progress.objectives`` of the snapshots' hours and of `LONGEST_HOURS`
            before them.
        snapshots: rows of ``raw.snapshots``.

    Returns:
        A row per snapshot and subject with an objective. ``objective_minutes`` has, of each
        objective, its name, the share of minutes that may be bad, and the signs of the minutes of
        `LONGEST_HOURS`, the last one first before the snapshot's own. A minute without a row is
        unknown. ``missed_objectives`` has the names of those with a bad minute among them.
    """
    number = F.floor(F.unix_seconds("hour") / 3600)
    before = (
        SparkWindow.partitionBy(*_SUBJECT, "objective")
        .orderBy(number)
        .rangeBetween(-LONGEST_HOURS, -1)
    )
    earlier = F.map_from_entries(F.collect_list(F.struct(number, "minutes")).over(before))
    signs = [
        F.rpad(F.coalesce(signs, F.lit("")), _MINUTES, MinuteState.UNKNOWN)
        for signs in (
            *(earlier[number - back] for back in range(LONGEST_HOURS, 0, -1)),
            F.col("minutes"),
        )
    ]
    hours = objectives.select(
        *_SUBJECT,
        "objective",
        (1 - F.col("target")).alias("allowed"),
        number.alias("hour_number"),
        F.concat(*signs).alias("signs"),
    )
    minute = F.floor(F.unix_seconds("observed_at") / 60)
    judged = snapshots.select(
        "snapshot_id",
        "cluster",
        F.floor(minute / 60).alias("hour_number"),
        (minute % 60).cast("int").alias("minute_of_hour"),
    )
    length = LONGEST_HOURS * _MINUTES
    last = F.substr("signs", F.col("minute_of_hour") + 1, F.lit(length))
    of_objective = F.struct("objective", "allowed", last.alias("minutes"))
    missed = F.filter(
        "objective_minutes", lambda one: F.contains(one["minutes"], F.lit(MinuteState.BAD))
    )
    return (
        hours.join(F.broadcast(judged), ["cluster", "hour_number"])
        .groupBy("snapshot_id", *_SUBJECT)
        .agg(F.array_sort(F.collect_list(of_objective)).alias("objective_minutes"))
        .transform(with_new, missed_objectives=F.transform(missed, lambda one: one["objective"]))
    )
