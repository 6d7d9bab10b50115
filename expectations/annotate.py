"""What a rule needs to know beside the columns of its row, added to the frame as columns.

An annotated frame is the frame with a few columns more, named with a leading underscore, so that
every rule is a condition on one row: no rule has a code path of its own.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from expectations.audited import LAG_OF_QUEUES
from expectations.rules import CONFLICT, COPY, sound
from expectations.suites import QUEUE_ROW, RULES
from lake.schema import Table
from lake.tables import TABLES

Frames = Mapping[str, DataFrame]


def annotate(name: str, frames: Frames) -> DataFrame:
    """The frame of a table with the columns its rules need.

    Args:
        name: full name of the table, a key of `frames`.
        frames: frames of one window by full table name. Where another table that a rule needs is
            missing, the rule is not asked (its annotation is NULL); an empty frame is an answer.

    Returns:
        One row per row of ``frames[name]``, its columns and the annotations.
    """
    frame = _with_copies(frames[name], TABLES[name])
    more = _MORE.get(name)
    return more(frame, frames) if more else frame


def _with_copies(frame: DataFrame, table: Table) -> DataFrame:
    """Adds `COPY` and `CONFLICT`, among rows of one key (where NULL is a value of its own)."""
    same_key = Window.partitionBy(*table.key)
    content = _content(frame)
    return frame.select(
        "*",
        F.row_number().over(same_key.orderBy(content)).alias(COPY),
        (F.min(content).over(same_key) != F.max(content).over(same_key)).alias(CONFLICT),
    )


def _content(frame: DataFrame) -> Column:
    """All columns of a row as one value that can be compared (Spark cannot compare maps)."""
    return F.struct(
        *(
            F.sort_array(F.map_entries(field.name)).alias(field.name)
            if isinstance(field.dataType, MapType)
            else F.col(field.name)
            for field in frame.schema.fields
        )
    )


def _with_queue_row(frame: DataFrame, frames: Frames) -> DataFrame:
    """Adds `QUEUE_ROW`; NULL where the row has no complete key or the queue rows were not given."""
    if "raw.queue_offsets" not in frames:
        return frame.withColumn(QUEUE_ROW, F.lit(None).cast("string"))
    key = list(TABLES["raw.queue_offsets"].key)
    is_sound = F.max(sound(RULES["raw.queue_offsets"]))
    queues = (
        annotate("raw.queue_offsets", frames)
        .groupBy(*key)
        .agg(F.when(is_sound, "sound").otherwise("quarantined").alias(QUEUE_ROW))
    )
    complete = F.lit(True)
    for column in key:
        complete = complete & F.col(column).isNotNull()
    return frame.join(queues, on=key, how="left").select(
        *frame.columns,
        F.when(complete, F.coalesce(QUEUE_ROW, F.lit("absent"))).alias(QUEUE_ROW),
    )


def _with_lag_of_queues(frame: DataFrame, frames: Frames) -> DataFrame:
    """Adds `LAG_OF_QUEUES`, as groups sum it: a queue ahead of its broker counts 0."""
    if "progress.queues" not in frames:
        return frame.withColumn(LAG_OF_QUEUES, F.lit(None).cast("bigint"))
    key = ["snapshot_id", "consumer_group", "topic"]
    sums = (
        frames["progress.queues"]
        .groupBy(*key)
        .agg(
            F.when(F.max("client_id").isNull(), F.sum(F.greatest("lag", F.lit(0)))).alias(
                LAG_OF_QUEUES
            )
        )
    )
    return frame.join(sums, on=key, how="left").select(*frame.columns, LAG_OF_QUEUES)


LOOKS_AT = {
    "raw.consumer_offsets": ("raw.queue_offsets",),
    "progress.groups": ("progress.queues",),
}
"""Tables whose rules need rows of others."""

_MORE: dict[str, Callable[[DataFrame, Frames], DataFrame]] = {
    "raw.consumer_offsets": _with_queue_row,
    "progress.groups": _with_lag_of_queues,
}
