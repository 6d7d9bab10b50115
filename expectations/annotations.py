"""Columns that a condition needs besides those of its table, copies of rows among them.

An annotated frame has a few more columns, so that every expectation is a condition on one row and
none has a code path of its own. Columns that need rows of other tables are added only where an
expectation uses them. `expectations.declarations` describes each column.

Numbering copies, rows with the same key, sorts all rows of a window. Nearly always no key repeats,
which a search by hashes finds several times cheaper; it pays where a window has many rows.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from expectations.declarations import (
    BULK,
    CONFLICT,
    COPIES,
    COPY,
    DECISION,
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
from tidemark.lake.bounds import names_in
from tidemark.lake.clocks import HOUR
from tidemark.lake.schema import Table
from tidemark.lake.tables import TABLES
from tidemark.model.snapshots import SnapshotSource
from tidemark.planning.quarantine_decisions import DROPPED, RELEASED, Decision

JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
"""Spark's options for a text without loss: it keeps microseconds, and columns that are NULL."""


def row_json(columns: Sequence[str]) -> Column:
    """Return the named columns of a row as one JSON object.

    Instants are ISO 8601 in the session's time zone.
    """
    return F.to_json(F.struct(*columns), JSON_OPTIONS)


def tables_with_unique_keys(frames: Mapping[str, DataFrame]) -> frozenset[str]:
    """Return names of the tables in which no two rows have the same key, in one Spark query.

    It compares hashes, which is several times cheaper than to number the copies of each key
    (`with_copies`). Equal keys have equal hashes, so no copy is missed. Two keys with the same
    hash only cost the numbering that was to be saved.

    Args:
        frames: rows by full table name.
    """
    names = list(frames)
    keys = [
        frames[name].select(F.lit(number).alias("table"), F.xxhash64(*TABLES[name].key).alias("at"))
        for number, name in enumerate(names)
    ]
    if not keys:
        return frozenset()
    repeated = (
        reduce(DataFrame.unionByName, keys)
        .groupBy("table", "at")
        .agg(F.count(F.lit(1)).alias("rows"))
        .where("rows > 1")
        .select("table")
        .distinct()
    )
    return frozenset(names) - {names[number] for (number,) in repeated.collect()}


def with_copies(frame: DataFrame, table: Table, decisions: Sequence[Decision]) -> DataFrame:
    """Add `COPY`, `COPIES`, `CONFLICT` and `DECISION`. NULL is a key value like any other."""
    # The hash first, by which Spark sorts quickly; see `spark.tuning.with_key_hash`.
    same_key = Window.partitionBy(F.xxhash64(*table.key), *table.key)
    content = _content(frame)
    decision = _decision(frame, decisions)
    # Decisions are rare, and every tick sorts by this.
    released_first = [decision.eqNullSafe(RELEASED).desc()] if decisions else []
    return frame.select(
        "*",
        F.row_number().over(same_key.orderBy(*released_first, content)).alias(COPY),
        F.count(F.lit(1)).over(same_key).alias(COPIES),
        (F.min(content).over(same_key) != F.max(content).over(same_key)).alias(CONFLICT),
        decision.alias(DECISION),
    )


def marked_unique(frame: DataFrame, table: Table, decisions: Sequence[Decision]) -> DataFrame:
    """Add the columns of `with_copies` to rows of which each has a key of its own."""
    return frame.select(
        "*",
        F.lit(1).alias(COPY),
        F.lit(1).cast("bigint").alias(COPIES),
        F.lit(False).alias(CONFLICT),
        _decision(frame, decisions).alias(DECISION),
    )


def _decision(frame: DataFrame, decisions: Sequence[Decision]) -> Column:
    """Return the decision on a row, found by the row's text.

    The text has the columns that the table had when the row was quarantined. Columns added since
    then are NULL in the row.
    """
    result = F.lit(None).cast("string")
    if not decisions:
        return result
    snapshot_ids = {decision.snapshot_id for decision in decisions if decision.snapshot_id}
    # The text of a row is made only where a decision may match it.
    may_match = F.col("snapshot_id").isNull() | F.col("snapshot_id").isin(list(snapshot_ids))
    for kind in (DROPPED, RELEASED):
        rows: dict[tuple[str, ...], list[str]] = {}
        for decision in decisions:
            if decision.decision == kind:
                rows.setdefault(tuple(decision.columns), []).append(decision.row)
        for columns, texts in rows.items():
            matches = may_match & row_json(columns).isin(texts)
            for column in frame.columns:
                if column not in columns:
                    matches = matches & F.col(column).isNull()
            result = F.when(matches, F.lit(kind)).otherwise(result)
    return result


def _content(frame: DataFrame) -> Column:
    """Return all columns of a row as one comparable value (Spark cannot compare maps)."""
    return F.struct(
        *(
            F.sort_array(F.map_entries(field.name)).alias(field.name)
            if isinstance(field.dataType, MapType)
            else F.col(field.name)
            for field in frame.schema.fields
        )
    )


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
            names_in(expectation.condition) & self.types.keys() for expectation in expectations
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
            number copies (`expectations.annotations`).

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
