"""Statements of objectives by month: whether each was met, from ``progress.objectives``."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.lake.bounds import Bound
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.schema import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Column, Table
from tidemark.lake.tables import progress, raw
from tidemark.settings.objectives import MinuteState

STATEMENTS = Table(
    name="board.statements",
    comment="One row per group, topic and objective with a counted minute in a month.",
    columns=(
        Column("month", STRING, "the month, 2026-10"),
        raw.CLUSTER,
        raw.CONSUMER_GROUP,
        raw.TOPIC,
        Column("objective", STRING, "name of the objective"),
        Column("measure", STRING, "delay | lag: the number that it bounds"),
        Column("threshold", DOUBLE, "delay in milliseconds or lag in messages; more of it is bad"),
        Column("target", DOUBLE, "share of the month's minutes that must not be bad"),
        Column(
            "met",
            BOOLEAN,
            "true where too few minutes are left that could be bad, false where too many were; "
            "NULL = the unknown or coming minutes decide",
        ),
        Column("good", BIGINT, "good minutes"),
        Column("bad", BIGINT, "bad minutes"),
        Column("unknown", BIGINT, "all other minutes of the month until the present"),
        Column("allowed", DOUBLE, "minutes of the whole month that may be bad"),
        Column("longest_breach", INT, "most bad minutes in a row within the month"),
        Column(
            "longest_breach_bound",
            STRING,
            "lower where unknown minutes may make it longer; NULL where they do not",
        ),
        Column("counted_since", TIMESTAMP, "start of the first counted hour of the month"),
    ),
    key=("cluster", "consumer_group", "topic", "objective"),
    instant="counted_since",
)
"""The columns of statements; they are in no table."""

MONTH = "%Y-%m"

_MINUTE = timedelta(minutes=1)

_LATEST = ("measure", "threshold", "target")
"""Columns of an objective as its newest hour of the month has them."""


def month_of(text: str) -> Window:
    """Return the month of a text like ``2026-10``, UTC.

    Raises:
        ValueError: it is no month.
    """
    if not re.fullmatch(r"\d{4}-\d{2}", text):
        raise ValueError(f"a month is wanted, e.g. 2026-10, not {text!r}")
    start = datetime.strptime(text, MONTH).replace(tzinfo=UTC)
    return Window(start, (start + timedelta(days=32)).replace(day=1))


def statements(lake: Lake, month: Window, now: datetime) -> pa.Table:
    """Return the statements of a month, as `STATEMENTS` declares them.

    Args:
        lake: the tables.
        month: the month; see `month_of`.
        now: the present. Minutes after it are neither known nor unknown.
    """
    columns = (*progress.OBJECTIVES.key, *_LATEST, "good", "bad", "minutes")
    return statements_of(lake.read(progress.OBJECTIVES, month, columns=columns), month, now)


def statements_of(rows: pa.Table, month: Window, now: datetime) -> pa.Table:
    """Return the statements of a month from rows of ``progress.objectives``; see `statements`."""
    key = list(STATEMENTS.key)
    sums = [("good", "sum"), ("bad", "sum"), ("hour", "min")]
    by_subject = rows.sort_by("hour").group_by(key, use_threads=False)
    summed = by_subject.aggregate([*sums, *((name, "last") for name in _LATEST)])
    breaches = _breaches(rows, Window(month.start, min(month.end, max(now, month.start))))
    whole = (month.end - month.start) // _MINUTE
    elapsed = min(max((now - month.start) // _MINUTE, 0), whole)
    result = []
    for row in summed.to_pylist():
        good, bad, target = row["good_sum"], row["bad_sum"], row["target_last"]
        allowed = round((1 - target) * whole, 6)
        breach, bound = breaches.get(tuple(row[name] for name in key), (0, None))
        result.append(
            {name: row[name] for name in key}
            | {name: row[f"{name}_last"] for name in _LATEST}
            | {
                "month": f"{month.start:{MONTH}}",
                "met": False if bad > allowed else True if whole - good <= allowed else None,
                "good": good,
                "bad": bad,
                # Minutes of the newest hour may be counted that are not over yet.
                "unknown": max(elapsed - good - bad, 0),
                "allowed": allowed,
                "longest_breach": breach,
                "longest_breach_bound": bound,
                "counted_since": row["hour_min"],
            }
        )
    return STATEMENTS.arrow_table(result)


def _breaches(rows: pa.Table, time: Window) -> dict[tuple[Any, ...], tuple[int, Bound | None]]:
    """Return the longest breach of each subject with a bad minute, and whether it is a bound."""
    key = list(STATEMENTS.key)
    with_bad = rows.filter(pc.greater(rows["bad"], 0)).select(key)
    with_bad = with_bad.group_by(key, use_threads=False).aggregate([])
    own = rows.join(with_bad, key, join_type="left semi").sort_by(
        [(name, "ascending") for name in (*key, "hour")]
    )
    return {
        subject: longest_breach(_signs(of_subject, time))
        for subject, of_subject in groupby(own.to_pylist(), itemgetter(*key))
    }


def _signs(rows: Iterable[Mapping[str, Any]], time: Window) -> str:
    """Return the signs of all minutes of a time; those without a row are unknown."""
    minutes = {row["hour"]: row["minutes"] or "" for row in rows}
    signs, hour = [], time.start
    while hour < time.end:
        signs.append(minutes.get(hour, "").ljust(60, MinuteState.UNKNOWN))
        hour += HOUR
    return "".join(signs)[: (time.end - time.start) // _MINUTE]


def longest_breach(signs: str) -> tuple[int, Bound | None]:
    """Return the most bad minutes in a row, and whether unknown ones may make a breach longer.

    Args:
        signs: a `MinuteState` for each minute, in order.
    """
    bad, unknown = map(re.escape, (MinuteState.BAD, MinuteState.UNKNOWN))
    certain = max(map(len, re.findall(f"{bad}+", signs)), default=0)
    possible = max(map(len, re.findall(f"{unknown}*{bad}[{unknown}{bad}]*", signs)), default=0)
    return certain, Bound.LOWER if possible > certain else None
