"""What a rule needs to know beside the columns of its row, added to the frame as columns.

An annotated frame is the frame with a few columns more, named with a leading underscore, so that
every rule is a condition on one row: no rule has a code path of its own. A column that takes rows
of other tables is added where a rule names it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from expectations.audited import BULK, DISAGREEING_QUEUES, LAG_OF_QUEUES, ROWS, USUAL_ROWS
from expectations.json_rows import row_json
from expectations.rules import CONFLICT, COPY, DECISION, Rule, sound
from expectations.suites import QUEUE_ROW, RULES
from lake.decisions import DROPPED, RELEASED, Decision
from lake.schema import Table
from lake.tables import TABLES
from lake.window import HOUR

Frames = Mapping[str, DataFrame]

_BULK_TYPE = (
    "struct<consumer_offset: bigint, max_offset: bigint, "
    "next_consumer_offset: bigint, next_max_offset: bigint>"
)


@dataclass(frozen=True)
class Annotation:
    """Columns that take rows of other tables.

    Attributes:
        types: column to Spark type.
        looks_at: full names of the tables.
        add: adds the columns to a frame, given those of the tables and the decisions.
        before: how long before the window rows of those tables are wanted too.
    """

    types: Mapping[str, str]
    looks_at: tuple[str, ...]
    add: Callable[[DataFrame, Frames, Sequence[Decision]], DataFrame]
    before: timedelta = timedelta(0)

    def is_asked(self, rules: Sequence[Rule]) -> bool:
        """Whether a rule names a column of it."""
        return any(column in rule.condition for column in self.types for rule in rules)


def looks_at(name: str, rules: Sequence[Rule]) -> dict[str, timedelta]:
    """The tables whose rows rules on a table take, and how long before the window they begin."""
    return {
        other: each.before
        for each in ANNOTATIONS.get(name, ())
        if each.is_asked(rules)
        for other in each.looks_at
    }


def annotate(
    name: str, frames: Frames, decisions: Sequence[Decision] = (), rules: Sequence[Rule] = ()
) -> DataFrame:
    """The frame of a table with the columns its rules need.

    Args:
        name: full name of the table, a key of `frames`.
        frames: frames of one window by full table name. Where another table that a rule needs is
            missing, the rule is not asked (its annotation is NULL); an empty frame is an answer.
        decisions: those in force on rows of any table in the window.
        rules: those to be asked.

    Returns:
        One row per row of ``frames[name]``, its columns and the annotations.
    """
    mine = [decision for decision in decisions if decision.table == name]
    frame = _with_copies(frames[name], TABLES[name], mine)
    for each in ANNOTATIONS.get(name, ()):
        if not each.is_asked(rules):
            continue
        if set(each.looks_at) <= set(frames):
            frame = each.add(frame, frames, decisions)
        else:
            nothing = {column: F.lit(None).cast(type) for column, type in each.types.items()}
            frame = frame.withColumns(nothing)
    return frame


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
    """Adds `QUEUE_ROW`; NULL where the row has no complete key."""
    key = list(TABLES["raw.queue_offsets"].key)
    is_sound = F.max(sound(RULES["raw.queue_offsets"]))
    queues = (
        annotate("raw.queue_offsets", frames, decisions, RULES["raw.queue_offsets"])
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


def _with_rows(frame: DataFrame, frames: Frames, decisions: Sequence[Decision]) -> DataFrame:
    """Adds `ROWS` and `USUAL_ROWS` to snapshots."""
    seconds = F.unix_seconds("observed_at")
    hour_before = Window.partitionBy("cluster").orderBy(seconds).rangeBetween(-3600, -1)
    key = ["snapshot_id", "cluster", "observed_at"]
    counts = (
        frames["raw.queue_offsets"]
        .select(*key)
        .unionByName(frames["raw.consumer_offsets"].select(*key))
        .groupBy(*key)
        .agg(F.count(F.lit(1)).alias(ROWS))
    )
    # A snapshot without a row has a place in the order too.
    return (
        frame.join(counts, on=key, how="full")
        .withColumn(ROWS, F.coalesce(ROWS, F.lit(0)))
        .withColumn(USUAL_ROWS, F.avg(ROWS).over(hour_before))
        .where(F.col(COPY).isNotNull())
        .select(*frame.columns, ROWS, USUAL_ROWS)
    )


def _with_disagreement(
    frame: DataFrame, frames: Frames, decisions: Sequence[Decision]
) -> DataFrame:
    """Adds `DISAGREEING_QUEUES` to snapshots that were read from files."""
    stores = frame.where("source = 'store'").select("snapshot_id", F.lit(True).alias("stored"))
    order = Window.partitionBy("cluster", "broker", "topic", "queue_id").orderBy("observed_at")
    live = F.when(F.col("stored").isNull(), F.col("max_offset"))
    before = F.last(live, ignorenulls=True).over(
        order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    after = F.first(live, ignorenulls=True).over(
        order.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    )
    agrees = F.col("max_offset").between(F.col("before"), F.col("after"))
    found = (
        frames["raw.queue_offsets"]
        .join(F.broadcast(stores.distinct()), on="snapshot_id", how="left")
        .withColumns({"before": before, "after": after})
        # Where the queue fell between two live looks, it cannot be told which of both it is of.
        .where(F.col("stored") & (F.col("before") <= F.col("after")))
        .groupBy("snapshot_id")
        .agg(F.count_if(~agrees).alias(DISAGREEING_QUEUES))
    )
    return frame.join(found, on="snapshot_id", how="left").select(
        *frame.columns, DISAGREEING_QUEUES
    )


def _with_bulk(frame: DataFrame, frames: Frames, decisions: Sequence[Decision]) -> DataFrame:
    """Adds `BULK` to what 208 told."""
    queue = ["cluster", "broker", "topic", "queue_id"]
    key = [*queue, "consumer_group"]
    asked = F.broadcast(frame.select(*key).distinct())
    written = frames["raw.queue_offsets"].select("snapshot_id", *queue, "max_offset")
    looks = (
        frames["raw.consumer_offsets"]
        .where("client_id IS NULL")
        .join(asked, on=key, how="left_semi")
        .join(written, on=["snapshot_id", *queue], how="left")
    )
    order = Window.partitionBy(*key).orderBy("observed_at")
    offsets = ("consumer_offset", "max_offset")
    following = {f"next_{name}": F.lead(name).over(order) for name in offsets}
    found = (
        looks.withColumns(following)
        .where(" AND ".join(f"{name} <= next_{name}" for name in offsets))
        # A queue may be there twice, as rows that contradict each other are.
        .groupBy("snapshot_id", *key)
        .agg(F.min(F.struct(*offsets, *following)).alias(BULK))
    )
    return frame.join(found, on=["snapshot_id", *key], how="left").select(*frame.columns, BULK)


ANNOTATIONS: Mapping[str, tuple[Annotation, ...]] = {
    "raw.consumer_offsets": (
        Annotation({QUEUE_ROW: "string"}, ("raw.queue_offsets",), _with_queue_row),
    ),
    "progress.groups": (
        Annotation({LAG_OF_QUEUES: "bigint"}, ("progress.queues",), _with_lag_of_queues),
    ),
    "raw.consume_stats": (
        Annotation(
            {BULK: _BULK_TYPE},
            ("raw.queue_offsets", "raw.consumer_offsets"),
            _with_bulk,
        ),
    ),
    "raw.snapshots": (
        Annotation(
            {ROWS: "bigint", USUAL_ROWS: "double"},
            ("raw.queue_offsets", "raw.consumer_offsets"),
            _with_rows,
            before=HOUR,
        ),
        Annotation(
            {DISAGREEING_QUEUES: "bigint"},
            ("raw.queue_offsets",),
            _with_disagreement,
            before=HOUR,
        ),
    ),
}
"""By full name of the table whose rules they are for."""
