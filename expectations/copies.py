"""Copies: rows of a table with the same key, and decisions of people on them.

Numbering copies sorts all rows of a window. Nearly always no key repeats, which a search by hashes
finds several times cheaper; it pays where a window has many rows.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from expectations.declarations import CONFLICT, COPIES, COPY, DECISION
from tidemark.lake.schema import Table
from tidemark.lake.tables import TABLES
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
