"""Columns that a condition needs besides those of its table, and how they are computed.

An annotated frame has a few more columns, so that every expectation is a condition on one row and
none has a code path of its own. Columns that need rows of other tables are added only where an
expectation uses them. `expectations.declarations` describes each column.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from expectations.copies import marked_unique, with_copies
from expectations.declarations import (
    BULK,
    COPY,
    DISAGREEING_QUEUES,
    LAG_OF_OFFSETS,
    LAG_OF_QUEUES,
    QUEUE_ROW,
    ROWS,
    USUAL_ROWS,
    Expectation,
    is_valid,
)
from expectations.tick_suites import TICK_EXPECTATIONS
from tidemark.lake.clocks import HOUR
from tidemark.lake.tables import TABLES
from tidemark.model.snapshots import SnapshotSource
from tidemark.planning.quarantine_decisions import Decision

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
    result = (
        sums.where("moved_on")
        .join(about, on=["snapshot_id", "consumer_group", "topic"])
        .groupBy(*group)
        .agg(F.min(known).alias(LAG_OF_OFFSETS))
    )
    return frame.join(result, on=group, how="left").select(*frame.columns, LAG_OF_OFFSETS)


Frames = Mapping[str, DataFrame]
"""Rows by full table name."""

HASHED = "shuffle_hash"
"""Join of consumer offsets with their queues, without a sort of both by their long keys."""

_BULK_TYPE = (
    "struct<consumer_offset: bigint, max_offset: bigint, "
    "next_consumer_offset: bigint, next_max_offset: bigint>"
)


@dataclass(frozen=True)
class Given:
    """Inputs of the annotation of a window's rows.

    Attributes:
        frames: the rows of tables.
        decisions: present decisions on rows of any table in the window.
        unique: full names of the tables that are known to repeat no key.
    """

    frames: Frames
    decisions: Sequence[Decision] = ()
    unique: Collection[str] = ()


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """Columns that are computed from rows of other tables.

    Attributes:
        types: column to Spark type.
        sources: full names of the other tables.
        add: adds the columns to a frame.
        before: how long before the window rows of the sources are needed too.
    """

    types: Mapping[str, str]
    sources: tuple[str, ...]
    add: Callable[[DataFrame, Given], DataFrame]
    before: timedelta = timedelta(0)

    def is_used_by(self, expectations: Sequence[Expectation]) -> bool:
        """Return whether a condition names one of its columns."""
        return any(
            column in expectation.condition for column in self.types for expectation in expectations
        )


def source_tables(name: str, expectations: Sequence[Expectation]) -> dict[str, timedelta]:
    """Return the other tables that a table's expectations need.

    Args:
        name: full name of the table.
        expectations: those to validate.

    Returns:
        Full names, with how long before the window their rows are needed.
    """
    return {
        other: annotation.before
        for annotation in ANNOTATIONS.get(name, ())
        if annotation.is_used_by(expectations)
        for other in annotation.sources
    }


def annotate(
    name: str,
    frames: Frames,
    decisions: Sequence[Decision] = (),
    expectations: Sequence[Expectation] = (),
    unique: Collection[str] = (),
) -> DataFrame:
    """Add the columns that a table's expectations need.

    Args:
        name: full name of the table, a key of `frames`.
        frames: rows of one window. Where a source table is missing, the columns are NULL and the
            expectations on them do not apply. An empty frame is not missing: it has no rows.
        decisions: present decisions on rows of any table in the window.
        expectations: the expectations to validate.
        unique: full names of tables that are known to repeat no key: their rows are not sorted to
            number copies (`expectations.copies`).

    Returns:
        One row per row of ``frames[name]``, with its columns and the annotations.
    """
    own_decisions = [decision for decision in decisions if decision.table == name]
    mark = marked_unique if name in unique else with_copies
    frame = mark(frames[name], TABLES[name], own_decisions)
    for annotation in ANNOTATIONS.get(name, ()):
        if not annotation.is_used_by(expectations):
            continue
        if set(annotation.sources) <= set(frames):
            frame = annotation.add(frame, Given(frames, decisions, unique))
        else:
            unknown = {column: F.lit(None).cast(type) for column, type in annotation.types.items()}
            frame = frame.withColumns(unknown)
    return frame


def _with_queue_row(frame: DataFrame, given: Given) -> DataFrame:
    """Add `QUEUE_ROW` to consumer offsets; NULL where the row has no complete key."""
    key = list(TABLES["raw.queue_offsets"].key)
    expectations = TICK_EXPECTATIONS["raw.queue_offsets"]
    has_valid_row = F.max(is_valid(expectations))
    queues = (
        annotate("raw.queue_offsets", given.frames, given.decisions, expectations, given.unique)
        .groupBy(*key)
        .agg(F.when(has_valid_row, "valid").otherwise("quarantined").alias(QUEUE_ROW))
        .hint(HASHED)
    )
    complete = F.lit(True)
    for column in key:
        complete = complete & F.col(column).isNotNull()
    return frame.join(queues, on=key, how="left").select(
        *frame.columns,
        F.when(complete, F.coalesce(QUEUE_ROW, F.lit("absent"))).alias(QUEUE_ROW),
    )


def _with_lag_of_queues(frame: DataFrame, given: Given) -> DataFrame:
    """Add `LAG_OF_QUEUES` to groups; as in their own sum, a queue ahead of its broker counts 0."""
    key = ["snapshot_id", "consumer_group", "topic"]
    sums = (
        given.frames["progress.queues"]
        .groupBy(*key)
        .agg(
            F.when(F.max("client_id").isNull(), F.try_sum(F.greatest("lag", F.lit(0)))).alias(
                LAG_OF_QUEUES
            )
        )
    )
    return frame.join(sums, on=key, how="left").select(*frame.columns, LAG_OF_QUEUES)


def _with_rows(frame: DataFrame, given: Given) -> DataFrame:
    """Add `ROWS` and `USUAL_ROWS` to snapshots."""
    seconds = F.unix_seconds("observed_at")
    hour_before = Window.partitionBy("cluster").orderBy(seconds).rangeBetween(-3600, -1)
    key = ["snapshot_id", "cluster", "observed_at"]
    counts = (
        given.frames["raw.queue_offsets"]
        .select(*key)
        .unionByName(given.frames["raw.consumer_offsets"].select(*key))
        .groupBy(*key)
        .agg(F.count(F.lit(1)).alias(ROWS))
    )
    # A full join, because snapshots without rows count in the mean too.
    return (
        frame.join(counts, on=key, how="full")
        .withColumn(ROWS, F.coalesce(ROWS, F.lit(0)))
        .withColumn(USUAL_ROWS, F.avg(ROWS).over(hour_before))
        .where(F.col(COPY).isNotNull())
        .select(*frame.columns, ROWS, USUAL_ROWS)
    )


def _with_disagreement(frame: DataFrame, given: Given) -> DataFrame:
    """Add `DISAGREEING_QUEUES` to snapshots that were read from files."""
    is_store = F.col("source") == SnapshotSource.STORE
    stores = frame.where(is_store).select("snapshot_id", F.lit(True).alias("stored"))
    order = Window.partitionBy("cluster", "broker", "topic", "queue_id").orderBy("observed_at")
    live = F.when(F.col("stored").isNull(), F.col("max_offset"))
    before = F.last(live, ignorenulls=True).over(
        order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    after = F.first(live, ignorenulls=True).over(
        order.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    )
    agrees = F.col("max_offset").between(F.col("before"), F.col("after"))
    result = (
        given.frames["raw.queue_offsets"]
        .join(F.broadcast(stores.distinct()), on="snapshot_id", how="left")
        .withColumns({"before": before, "after": after})
        # When the queue fell between the live snapshots, either of its two states may be stored.
        .where(F.col("stored") & (F.col("before") <= F.col("after")))
        .groupBy("snapshot_id")
        .agg(F.count_if(~agrees).alias(DISAGREEING_QUEUES))
    )
    return frame.join(result, on="snapshot_id", how="left").select(
        *frame.columns, DISAGREEING_QUEUES
    )


def _with_bulk(frame: DataFrame, given: Given) -> DataFrame:
    """Add `BULK` to the responses of request 208."""
    queue = ["cluster", "broker", "topic", "queue_id"]
    key = [*queue, "consumer_group"]
    consumed_queues = F.broadcast(frame.select(*key).distinct())
    written = given.frames["raw.queue_offsets"].select("snapshot_id", *queue, "max_offset")
    bulk = (
        given.frames["raw.consumer_offsets"]
        .where("client_id IS NULL")
        .join(consumed_queues, on=key, how="left_semi")
        .join(written, on=["snapshot_id", *queue], how="left")
    )
    order = Window.partitionBy(*key).orderBy("observed_at")
    offsets = ("consumer_offset", "max_offset")
    following = {f"next_{name}": F.lead(name).over(order) for name in offsets}
    result = (
        bulk.withColumns(following)
        .where(" AND ".join(f"{name} <= next_{name}" for name in offsets))
        # Conflicting rows of one queue give it several times.
        .groupBy("snapshot_id", *key)
        .agg(F.min(F.struct(*offsets, *following)).alias(BULK))
    )
    return frame.join(result, on=["snapshot_id", *key], how="left").select(*frame.columns, BULK)


ANNOTATIONS: Mapping[str, tuple[Annotation, ...]] = {
    "raw.consumer_offsets": (
        Annotation(
            types={QUEUE_ROW: "string"}, sources=("raw.queue_offsets",), add=_with_queue_row
        ),
    ),
    "progress.groups": (
        Annotation(
            types={LAG_OF_QUEUES: "bigint"}, sources=("progress.queues",), add=_with_lag_of_queues
        ),
    ),
    "raw.consume_stats": (
        Annotation(
            types={BULK: _BULK_TYPE},
            sources=("raw.queue_offsets", "raw.consumer_offsets"),
            add=_with_bulk,
        ),
    ),
    "raw.broker_metrics": (
        Annotation(
            types={LAG_OF_OFFSETS: LAG_OF_OFFSETS_TYPE},
            sources=("raw.queue_offsets", "raw.consumer_offsets", "progress.groups"),
            add=lambda frame, given: with_lag_of_offsets(frame, given.frames),
        ),
    ),
    "raw.snapshots": (
        Annotation(
            types={ROWS: "bigint", USUAL_ROWS: "double"},
            sources=("raw.queue_offsets", "raw.consumer_offsets"),
            add=_with_rows,
            before=HOUR,
        ),
        Annotation(
            types={DISAGREEING_QUEUES: "bigint"},
            sources=("raw.queue_offsets",),
            add=_with_disagreement,
            before=HOUR,
        ),
    ),
}
"""Annotations by the full name of the table whose expectations use them."""
