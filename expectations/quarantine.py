"""The split of raw rows into measurements and what cannot be one."""

from collections.abc import Mapping
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from expectations.annotate import annotate
from expectations.rules import Rule, sound
from expectations.suites import RULES

JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
"""Nothing of a row may be lost in its JSON: not microseconds, and not that a column was NULL."""


def split(
    frames: Mapping[str, DataFrame], observed_at: datetime | None = None
) -> tuple[dict[str, DataFrame], DataFrame]:
    """Splits the rows of a window into those that may be computed on and the quarantine.

    Lazy: no Spark job runs here.

    Args:
        frames: frames of one window by full table name, at least one; tables may be missing.
            Without ``raw.queue_offsets``, ``raw.consumer_offsets`` is not asked for queue rows.
        observed_at: stands in for a bad row's own instant where that is NULL, so that the row is
            found again in its window; the start of the window.

    Returns:
        The good rows under the same names, with the same columns, and the bad rows of all tables
        in the shape of ``quality.quarantine``. Every row is in exactly one of the two.

    Raises:
        ValueError: when there are no frames.
    """
    if not frames:
        raise ValueError("no frames to split: give the raw frames of a window by table name")
    good, bad = {}, []
    for name, frame in frames.items():
        rules = RULES.get(name, ())
        if not any(rule.severity == "quarantine" for rule in rules):
            good[name] = frame
            continue
        annotated = annotate(name, frames)
        good[name] = annotated.filter(sound(rules)).select(*frame.columns)
        bad.append(_bad_rows(name, annotated, frame.columns, rules, observed_at))
    if not bad:
        raise ValueError(f"none of these tables has rules: {', '.join(frames)}")
    return good, reduce(DataFrame.unionByName, bad)


def row_json(columns: list[str]) -> Column:
    """The named columns of a row as one JSON object, instants as ISO 8601 in the session's zone."""
    return F.to_json(F.struct(*columns), JSON_OPTIONS)


def _bad_rows(
    name: str,
    annotated: DataFrame,
    columns: list[str],
    rules: tuple[Rule, ...],
    observed_at: datetime | None,
) -> DataFrame:
    broken = [
        F.when(rule.is_broken, F.lit(rule.name)) for rule in rules if rule.severity == "quarantine"
    ]
    return annotated.filter(~sound(rules)).select(
        F.coalesce("observed_at", F.lit(observed_at).cast("timestamp")).alias("observed_at"),
        F.lit(name).alias("table"),
        F.concat_ws(", ", *broken).alias("reason"),
        row_json(columns).alias("row"),
        F.col("snapshot_id"),
    )
