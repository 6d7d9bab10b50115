"""The usual values of a group at the hour of each snapshot, with which rules compare its own."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_SUBJECT = ("cluster", "consumer_group", "topic")


def usual_values(baselines: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return the usual range of delay and lag at each snapshot, by group and topic.

    Args:
        baselines: rows of ``progress.baselines`` of the snapshots' hours.
        snapshots: rows of ``raw.snapshots``.
    """
    hour = F.timestamp_seconds(F.floor(F.unix_seconds("observed_at") / 3600) * 3600)
    judged = snapshots.select("snapshot_id", "cluster", hour.alias("hour"))
    return baselines.join(F.broadcast(judged), ["cluster", "hour"]).select(
        "snapshot_id",
        *_SUBJECT,
        "hour_of_week",
        F.col("delay_ms_low").alias("usual_low_delay_ms"),
        F.col("delay_ms_high").alias("usual_high_delay_ms"),
        F.col("lag_low").alias("usual_low_lag"),
        F.col("lag_high").alias("usual_high_lag"),
    )
