"""Raw offsets as observations: with the source of their snapshot, and instants by our clock.

Observations of different sources never follow each other. A file is older than what a broker
reports at the same instant, so the step from one to the other is no progress and no rewind.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake.history import REMOTE
from spark.columns import QUEUE

OBSERVED_QUEUE = (*QUEUE, "source")
"""A queue over time as one source observes it."""


def with_source(rows: DataFrame, sources: DataFrame | None) -> DataFrame:
    """Add the ``source`` of each row's snapshot, and its ``staleness_ms``.

    Args:
        rows: rows with ``snapshot_id``.
        sources: ``snapshot_id, source, staleness_ms``, one row per snapshot that was not read from
            brokers; None where all were.
    """
    if sources is None:
        none = F.lit(None).cast("bigint")
        return rows.withColumns({"source": F.lit(REMOTE), "staleness_ms": none})
    found = rows.join(F.broadcast(sources), on="snapshot_id", how="left")
    return found.withColumn("source", F.coalesce("source", F.lit(REMOTE)))
