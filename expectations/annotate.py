"""What a rule needs to know beside the columns of its row, added to the frame as columns.

An annotated frame is the frame with a few columns more, named with a leading underscore, so that
every rule is a condition on one row: no rule has a code path of its own.
"""

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from expectations.audited import LAG_OF_QUEUES
from expectations.json_rows import row_json
from expectations.rules import CONFLICT, COPY, DECISION, sound
from expectations.suites import QUEUE_ROW, RULES
from lake.decisions import DROPPED, RELEASED, Decision
from lake.schema import Table
from lake.tables import TABLES

Frames = Mapping[str, DataFrame]


def annotate(name: str, frames: Frames, decisions: Sequence[Decision] = ()) -> DataFrame:
    """The frame of a table with the columns its rules need.

    Args:
        name: full name of the table, a key of `frames`.
        frames: frames of one window by full table name. Where another table that a rule needs is
            missing, the rule is not asked (its annotation is NULL); an empty frame is an answer.
        decisions: those in force on rows of any table in the window.

    Returns:
        One row per row of ``frames[name]``, its columns and the annotations.
    """
    mine = [decision for decision in decisions if decision.table == name]
    frame = _with_copies(frames[name], TABLES[name], mine)
    more = _MORE.get(name)
    return more(frame, frames, decisions) if more else frame


def _with_copies(frame: DataFrame, table: Table, decisions: Sequence[Decision]) -> DataFrame:
    """Adds `COPY`, `CONFLICT` (among rows of one key, NULL a value of its own) and `DECISION`."""
    same_key = Window.partitionBy(*table.key)
    content = _content(frame)
    decision = _decision(frame, decisions)
    # Hardly ever is anything decided, and every tick sorts by this.
    released_first = [decision.eqNullSafe(RELEASED).desc()] if decisions else []
    return frame.select(
        "*",
        F.row_number().over(same_key.orderBy(*released_first, content)).alias(COPY),
        (F.min(content).over(same_key) != F.max(content).over(same_key)).alias(CONFLICT),
        decision.alias(DECISION),
    )


def _decision(frame: DataFrame, decisions: Sequence[Decision]) -> Column:
    """What was decided on a row, found by its text."""
    found = F.lit(None).cast("string")
    if not decisions:
        return found
    snapshot_ids = {each.snapshot_id for each in decisions if each.snapshot_id}
    # The text of a row is made only where it can be the one.
    asked = F.col("snapshot_id").isNull() | F.col("snapshot_id").isin(list(snapshot_ids))
    text = row_json(frame.columns)
    for kind in (DROPPED, RELEASED):
        rows = [each.row for each in decisions if each.decision == kind]
        found = F.when(asked & text.isin(rows), F.lit(kind)).otherwise(found)
    return found


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


def _with_queue_row(frame: DataFrame, frames: Frames, decisions: Sequence[Decision]) -> DataFrame:
    """Adds `QUEUE_ROW`; NULL where the row has no complete key or the queue rows were not given."""
    if "raw.queue_offsets" not in frames:
        return frame.withColumn(QUEUE_ROW, F.lit(None).cast("string"))
    key = list(TABLES["raw.queue_offsets"].key)
    is_sound = F.max(sound(RULES["raw.queue_offsets"]))
    queues = (
        annotate("raw.queue_offsets", frames, decisions)
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


def _with_lag_of_queues(
    frame: DataFrame, frames: Frames, decisions: Sequence[Decision]
) -> DataFrame:
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

_MORE: dict[str, Callable[[DataFrame, Frames, Sequence[Decision]], DataFrame]] = {
    "raw.consumer_offsets": _with_queue_row,
    "progress.groups": _with_lag_of_queues,
}
