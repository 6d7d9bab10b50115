"""The split of raw rows into valid rows and the quarantine."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from expectations.annotations import annotate, row_json
from expectations.declarations import DECISION, Expectation, is_valid
from expectations.tick_suites import TICK_EXPECTATIONS
from tidemark.planning.quarantine_decisions import Decision


def split(
    frames: Mapping[str, DataFrame],
    observed_at: datetime | None = None,
    decisions: Sequence[Decision] = (),
    unique: Collection[str] = (),
) -> tuple[dict[str, DataFrame], DataFrame]:
    """Split the rows of a window into valid and quarantined ones.

    The result is lazy: no Spark job runs here.

    Args:
        frames: rows of one window by full table name, at least one table; others may be missing.
            Without ``raw.queue_offsets``, no row of ``raw.consumer_offsets`` is quarantined for the
            lack of its queue.
        observed_at: instant of a quarantined row whose own is NULL, so that its window finds it:
            the start of the window.
        decisions: people's decisions on rows that were quarantined before.
        unique: as for `expectations.annotations.annotate`.

    Returns:
        The valid rows under the same names with the same columns, and the quarantined rows of all
        tables with the columns of ``quality.quarantine``. Every undecided row is in exactly one of
        the two. A released row is valid (one row of each key), a dropped one is in neither. A row
        that violates nothing is valid whatever was decided on a copy of it.

    Raises:
        ValueError: no frames are given, or none of their tables has expectations.
    """
    if not frames:
        raise ValueError("no frames to split: give the raw frames of a window by table name")
    valid, quarantined = {}, []
    for name, frame in frames.items():
        expectations = TICK_EXPECTATIONS.get(name, ())
        if not any(expectation.severity == "quarantine" for expectation in expectations):
            valid[name] = frame
            continue
        annotated = annotate(name, frames, decisions, expectations, unique)
        valid[name] = annotated.filter(is_valid(expectations)).select(*frame.columns)
        quarantined.append(
            _quarantined_rows(name, annotated, frame.columns, expectations, observed_at)
        )
    if not quarantined:
        raise ValueError(f"none of these tables has expectations: {', '.join(frames)}")
    return valid, reduce(DataFrame.unionByName, quarantined)


def _quarantined_rows(
    name: str,
    annotated: DataFrame,
    columns: list[str],
    expectations: tuple[Expectation, ...],
    observed_at: datetime | None,
) -> DataFrame:
    violated = [
        F.when(expectation.is_violated, F.lit(expectation.name))
        for expectation in expectations
        if expectation.severity == "quarantine"
    ]
    return annotated.filter(~is_valid(expectations) & F.col(DECISION).isNull()).select(
        F.coalesce("observed_at", F.lit(observed_at).cast("timestamp")).alias("observed_at"),
        F.lit(name).alias("table"),
        F.concat_ws(", ", *violated).alias("reason"),
        row_json(columns).alias("row"),
        F.col("snapshot_id"),
    )
