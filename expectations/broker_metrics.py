"""Lag computed from offsets, to compare with the lag of a broker's metrics endpoint."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from expectations.annotation_columns import LAG_OF_OFFSETS

LAG_OF_OFFSETS_TYPE = (
    "struct<least: bigint, most: bigint, consume_mode: string, match_method: string>"
)


def with_lag_of_offsets(frame: DataFrame, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Add `LAG_OF_OFFSETS` to reports of metrics endpoints, given rows by full table name."""
    group = ["snapshot_id", "broker", "consumer_group", "topic"]
    queue = ["cluster", *group[1:], "queue_id"]
    compared = F.broadcast(frame.select("cluster", *group[1:]).distinct())
    written = frames["raw.queue_offsets"].select(
        "snapshot_id", "broker", "topic", "queue_id", "max_offset"
    )
    order = Window.partitionBy(*queue).orderBy("observed_at")
    offsets = ("consumer_offset", "max_offset")
    following = {f"next_{name}": F.lead(name).over(order) for name in offsets}
    consumed = (
        frames["raw.consumer_offsets"]
        .where("client_id IS NULL AND offset_store = 'broker'")
        .join(compared, on=["cluster", *group[1:]], how="left_semi")
        .join(written, on=["snapshot_id", "broker", "topic", "queue_id"], how="left")
        .withColumns(following)
    )
    moved_on = F.expr(" AND ".join(f"{name} <= next_{name}" for name in offsets))
    # A commit may follow the read of the endpoint closely, and a write may precede it closely.
    least = F.greatest(F.lit(0), F.col("max_offset") - F.col("next_consumer_offset"))
    most = F.greatest(F.lit(0), F.col("next_max_offset") - F.col("consumer_offset"))
    sums = consumed.groupBy(*group).agg(
        F.try_sum(least).alias("least"),
        F.try_sum(most).alias("most"),
        F.bool_and(F.coalesce(moved_on, F.lit(False))).alias("moved_on"),
    )
    about = frames["progress.groups"].where("NOT message_model <=> 'BROADCASTING'")
    about = about.select(
        *("snapshot_id", "consumer_group", "topic", "consume_mode", "match_method")
    )
    known = F.struct("least", "most", "consume_mode", "match_method")
    found = (
        sums.where("moved_on")
        .join(about, on=["snapshot_id", "consumer_group", "topic"])
        .groupBy(*group)
        .agg(F.min(known).alias(LAG_OF_OFFSETS))
    )
    return frame.join(found, on=group, how="left").select(*frame.columns, LAG_OF_OFFSETS)
