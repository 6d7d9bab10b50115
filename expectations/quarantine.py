"""The split of raw rows into measurements and what cannot be one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from expectations.annotate import annotate
from expectations.json_rows import row_json
from expectations.rules import DECISION, Rule, sound
from expectations.suites import RULES
from lake.decisions import Decision


def split(
    frames: Mapping[str, DataFrame],
    observed_at: datetime | None = None,
    decisions: Sequence[Decision] = (),
) -> tuple[dict[str, DataFrame], DataFrame]:
    """Splits the rows of a window into those that may be computed on and the quarantine.

    Lazy: no Spark job runs here.

    Args:
        frames: frames of one window by full table name, at least one; tables may be missing.
            Without ``raw.queue_offsets``, ``raw.consumer_offsets`` is not asked for queue rows.
        observed_at: stands in for a bad row's own instant where that is NULL, so that the row is
            found again in its window; the start of the window.
        decisions: what people have decided on rows that were set aside before.

    Returns:
        The good rows under the same names, with the same columns, and the bad rows of all tables
        in the shape of ``quality.quarantine``. Every row that nobody has decided on is in exactly
        one of the two. A released one is good (of several with one key one alone), a dropped one is
        in neither; a row that breaks no rule is good whatever is decided on a copy of it.

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
        annotated = annotate(name, frames, decisions, rules)
        good[name] = annotated.filter(sound(rules)).select(*frame.columns)
        bad.append(_bad_rows(name, annotated, frame.columns, rules, observed_at))
    if not bad:
        raise ValueError(f"none of these tables has rules: {', '.join(frames)}")
    return good, reduce(DataFrame.unionByName, bad)


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
    return annotated.filter(~sound(rules) & F.col(DECISION).isNull()).select(
        F.coalesce("observed_at", F.lit(observed_at).cast("timestamp")).alias("observed_at"),
        F.lit(name).alias("table"),
        F.concat_ws(", ", *broken).alias("reason"),
        row_json(columns).alias("row"),
        F.col("snapshot_id"),
    )
