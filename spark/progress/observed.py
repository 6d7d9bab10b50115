"""Raw offsets as observations: with the source of their snapshot, and instants by our clock.

Observations of different sources never follow each other. A file is older than a broker's report at
the same instant, so the step from one to the other is neither progress nor a rewind.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.tables import raw
from spark.columns import KEY_HASH, QUEUE, with_key_hash, with_new
from tidemark.model.snapshots import SnapshotSource

CLOCK = ("clock_skew_ms", "clock_error_ms")
"""Columns of ``raw.brokers`` about the clock of a master."""

OBSERVED_QUEUE = (KEY_HASH, *QUEUE, "source")
"""A queue over time as one source observes it; see `with_source`."""


def with_source(rows: DataFrame, sources: DataFrame | None) -> DataFrame:
    """Add the ``source`` of each row's snapshot, its ``staleness_ms``, and the queue's hash.

    Args:
        rows: rows with ``snapshot_id`` and `QUEUE`.
        sources: ``snapshot_id, source, staleness_ms``, one row per snapshot that was not read from
            brokers; None where all were.
    """
    rows = with_key_hash(rows, *QUEUE)
    if sources is None:
        none = F.lit(None).cast("bigint")
        return with_new(rows, {"source": F.lit(SnapshotSource.REMOTE), "staleness_ms": none})
    found = rows.join(F.broadcast(sources), on="snapshot_id", how="left")
    return found.withColumn("source", F.coalesce("source", F.lit(SnapshotSource.REMOTE)))


def by_our_clock(queue_offsets: DataFrame, brokers: DataFrame) -> DataFrame:
    """Remove the skew of brokers' clocks from ``newest_stored_at``.

    Args:
        queue_offsets: ``raw.queue_offsets``.
        brokers: ``raw.brokers`` of the same snapshots; a clock that was not measured counts as
            ours.
    """
    clocks = brokers.where(F.col("clock_skew_ms").isNotNull()).groupBy("snapshot_id", "broker")
    skews = clocks.agg(F.min_by("clock_skew_ms", "broker_id").alias("clock_skew_ms"))
    found = queue_offsets.join(F.broadcast(skews), on=["snapshot_id", "broker"], how="left")
    ours = without_skew("newest_stored_at").alias("newest_stored_at")
    return found.select(*_others("newest_stored_at"), ours)


def _others(column: str) -> list[str]:
    return [name for name in raw.QUEUE_OFFSETS.column_names if name != column]


def without_skew(instant: str) -> Column:
    """Return an instant by the clock of a broker as one by ours, by ``clock_skew_ms``.

    NULL where the skew is no time that a clock can be off.
    """
    skew = F.try_multiply(F.coalesce("clock_skew_ms", F.lit(0).cast("bigint")), F.lit(1000))
    return F.timestamp_micros(F.try_subtract(F.unix_micros(instant), skew))
