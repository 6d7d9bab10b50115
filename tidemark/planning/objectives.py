"""Minutes of objectives by hour, and what they leave of the error budget: ``progress.objectives``.

A run counts the hours of its window again as a whole, so that a tick, a repeated tick and a
backfill give the same rows. The rows are few and need no Spark. A statement sums the hours of a
month: whether each objective was met.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression

from tidemark.lake.bounds import Bound, bound_of, columns_with_marks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, MICROSECOND, Window
from tidemark.lake.schema import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Column,
    Table,
    all_of,
    less_than,
    window_filter,
)
from tidemark.lake.tables import progress, raw
from tidemark.settings.fields import fits
from tidemark.settings.objectives import LONGEST_HOURS, Measure, MinuteState, Objective

CARRIED = 5
"""Minutes without an observation that one before them speaks for; longer gaps are unknown."""

RECOUNTED = timedelta(hours=24)
"""How far before a window hours are counted that no run has counted, as while the file of
objectives had a mistake. Earlier ones, as before a pause of days, have to be recomputed."""

BATCH = 10_000
"""Rows of groups that are Python objects at a time."""

MINUTES = 60

COLUMNS = {Measure.DELAY: "delay_ms", Measure.LAG: "lag"}
"""The columns of ``progress.groups`` that objectives bound."""

SUBJECT = ("cluster", "consumer_group", "topic")

_Key = tuple[str, str, str, str]
"""Cluster, group, topic and name of an objective."""


@dataclass(frozen=True, kw_only=True)
class Count:
    """Minutes of one hour, subject and objective.

    Attributes:
        good: those in which every observation was known and within the threshold.
        bad: those in which one was above it.
        unknown: the others, up to the last that counts.
    """

    good: int
    bad: int
    unknown: int = 0

    @property
    def counted(self) -> int:
        """All minutes so far; `MINUTES` of an hour that is over."""
        return self.good + self.bad + self.unknown


def replace_objectives(lake: Lake, window: Window, objectives: Sequence[Objective]) -> int:
    """Count the minutes of a window's hours; later hours get their budgets again.

    Args:
        lake: the tables; ``progress.groups`` of the window must be computed.
        window: the window.
        objectives: those declared now.

    Returns:
        Rows written.
    """
    hours = window.whole_hours()
    newest = lake.newest_hour(progress.OBJECTIVES)
    if not objectives:
        has_rows = newest is not None and lake.has_rows(progress.OBJECTIVES, hours)
        return lake.replace(progress.OBJECTIVES, hours, _table([])) if has_rows else 0
    first, end = hours.start, hours.end
    if newest is not None:
        first = min(first, max(newest + HOUR, first - RECOUNTED))
        end = max(end, newest + HOUR)
    later = _stored(lake, Window(hours.end, end)) if end > hours.end else []
    longest = max(objective.window for objective in objectives)
    columns = (*progress.OBJECTIVES.key, "good", "bad", "unknown")
    # Statistics of files let most hours of a window be skipped: all their minutes are good. The
    # window of the oldest hour that is counted again lies before it.
    not_good = all_of(
        window_filter(progress.OBJECTIVES, Window(first - 2 * longest, first)),
        less_than("good", MINUTES),
    )
    recent = Window(first - LONGEST_HOURS * HOUR, first)
    stored = [*_stored(lake, not_good, columns), *_stored(lake, recent, columns)]
    newest_of: dict[str, datetime] = {}
    for row in (*stored, *later):
        _observe(row, newest_of)
    counts: dict[datetime, list[dict[str, Any]]] = {}
    # An hour at a time, because one of 20,000 groups may have a million rows. The newest comes
    # first, because an hour is over where its cluster has an observation after it.
    for hour in reversed([*_hours(Window(first, hours.end))]):
        counts[hour] = list(_counted(lake, objectives, hour, newest_of))
        for row in counts[hour]:
            _observe(row, newest_of)
    since = first - longest
    for hour in {row["hour"] for row in stored if _is_unfinished(row, since, newest_of)}:
        counts[hour] = list(_counted(lake, objectives, hour, newest_of))
    begin = min(counts)
    between = _stored(lake, Window(begin, first)) if begin < first else []
    rows = [row for row in (*between, *later) if row["hour"] not in counts]
    rows += [row for of_hour in counts.values() for row in of_hour]
    declared = {objective.name: objective for objective in objectives}
    budgeted = list(with_budgets(stored, rows, declared))
    return lake.replace(progress.OBJECTIVES, Window(begin, end), _table(budgeted))


def _observe(row: Mapping[str, Any], newest_of: dict[str, datetime]) -> None:
    """Add the hour of a row to the newest hour of each cluster."""
    hour, cluster = row["hour"], row["cluster"]
    newest_of[cluster] = max(hour, newest_of.get(cluster, hour))


def _is_unfinished(
    row: Mapping[str, Any], since: datetime, newest_of: Mapping[str, datetime]
) -> bool:
    """Return whether an hour ended with its last observation when it was counted, and is over."""
    is_over = since <= row["hour"] < newest_of[row["cluster"]]
    return is_over and row["good"] + row["bad"] + row["unknown"] < MINUTES


def _hours(window: Window) -> Iterator[datetime]:
    """Yield the hours of a window of whole hours."""
    hour = window.start
    while hour < window.end:
        yield hour
        hour += HOUR


def _stored(
    lake: Lake, where: BooleanExpression | Window, columns: tuple[str, ...] = ("*",)
) -> list[dict[str, Any]]:
    return lake.read(progress.OBJECTIVES, where, columns).to_pylist()


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=progress.OBJECTIVES.arrow_schema())


def _counted(
    lake: Lake,
    objectives: Sequence[Objective],
    hour: datetime,
    newest_of: Mapping[str, datetime],
) -> Iterator[dict[str, Any]]:
    """Yield a row without a budget per subject and objective with an observation in an hour.

    Args:
        lake: the tables.
        objectives: the objectives.
        hour: the hour.
        newest_of: the newest hour of each cluster with observations, which ends with the last one.
    """
    columns = columns_with_marks(("observed_at", *SUBJECT, *COLUMNS.values()))
    reach = Window(hour - timedelta(minutes=CARRIED), hour + HOUR)
    observed = lake.read(progress.GROUPS, reach, columns=("snapshot_id", "complete", *columns))
    for subject, rows in groupby(_matching(observed, objectives), itemgetter(*SUBJECT)):
        own = list(rows)
        last = own[-1]
        if last["observed_at"] < hour:
            continue
        is_over = hour < newest_of.get(last["cluster"], hour)
        through = hour + HOUR - MICROSECOND if is_over else last["observed_at"]
        for objective in objectives:
            if not fits(objective.match, last):
                continue
            minutes = minutes_of(minute_states(own, objective), hour, through)
            yield {
                "hour": hour,
                "snapshot_id": last["snapshot_id"],
                "observed_at": last["observed_at"],
                **dict(zip(SUBJECT, subject, strict=True)),
                "objective": objective.name,
                "measure": objective.measure.value,
                "threshold": objective.threshold,
                "good": minutes.count(MinuteState.GOOD),
                "bad": minutes.count(MinuteState.BAD),
                "unknown": minutes.count(MinuteState.UNKNOWN),
                "minutes": minutes,
            }


def _matching(observed: pa.Table, objectives: Sequence[Objective]) -> Iterator[dict[str, Any]]:
    """Yield the rows of subjects with an objective, by subject and in order of time."""
    subjects = observed.select(SUBJECT).group_by(SUBJECT, use_threads=False).aggregate([])
    matching = [
        subject
        for subject in subjects.to_pylist()
        if any(fits(objective.match, subject) for objective in objectives)
    ]
    wanted = pa.Table.from_pylist(matching, schema=subjects.schema)
    rows = observed.join(wanted, list(SUBJECT), join_type="left semi")
    order = [(name, "ascending") for name in (*SUBJECT, "observed_at")]
    for batch in rows.sort_by(order).to_batches(max_chunksize=BATCH):
        yield from batch.to_pylist()


def minute_states(
    rows: Iterable[Mapping[str, Any]], objective: Objective
) -> dict[datetime, MinuteState]:
    """Return the state of each observed minute.

    A minute is bad where one of its observations is, and else unknown where one of them is.

    Args:
        rows: those of one subject, of ``progress.groups``.
        objective: the objective.
    """
    states: dict[datetime, MinuteState] = {}
    for row in rows:
        minute = row["observed_at"].replace(second=0, microsecond=0)
        state = _STATES[is_bad(row, objective)]
        if state is MinuteState.BAD or states.get(minute, MinuteState.GOOD) is MinuteState.GOOD:
            states[minute] = state
    return states


_STATES = {False: MinuteState.GOOD, True: MinuteState.BAD, None: MinuteState.UNKNOWN}


def is_bad(row: Mapping[str, Any], objective: Objective) -> bool | None:
    """Return whether an observation is above the threshold of an objective; None where unknown.

    A lower bound above the threshold is, and one within it leaves that unknown.
    """
    column = COLUMNS[objective.measure]
    value = row[column]
    if value is None:
        return None
    if value > objective.threshold:
        return None if bound_of(column, row) is Bound.UPPER else True
    return None if bound_of(column, row) is Bound.LOWER else False


def minutes_of(states: Mapping[datetime, MinuteState], hour: datetime, through: datetime) -> str:
    """Return the states of the minutes of an hour up to an instant, a sign for each.

    The sign of a minute depends on nothing after it, so an hour that is counted again keeps its
    first signs. Rules on burn rates rely on that: a snapshot is judged by the minutes before it.

    Args:
        states: see `minute_states`, those before the hour included.
        hour: its start.
        through: the last instant that counts.
    """
    signs: list[MinuteState] = []
    for number in range(MINUTES):
        minute = hour + timedelta(minutes=number)
        if minute > through:
            break
        speaking = (minute - timedelta(minutes=back) for back in range(CARRIED + 1))
        signs.append(next((states[at] for at in speaking if at in states), MinuteState.UNKNOWN))
    return "".join(signs)


def with_budgets(
    stored: Iterable[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    objectives: Mapping[str, Objective],
) -> Iterator[dict[str, Any]]:
    """Yield rows of counts with what is left of the budget, and how fast it is used.

    Args:
        stored: rows of earlier hours.
        rows: rows with counts, of hours after them.
        objectives: those declared now by name; rows of others are left out.
    """
    counts: dict[_Key, dict[datetime, Count]] = {}
    for row in (*stored, *rows):
        by_hour = counts.setdefault(_key(row), {})
        by_hour[row["hour"]] = Count(good=row["good"], bad=row["bad"], unknown=row["unknown"])
    for row in rows:
        objective = objectives.get(row["objective"])
        if objective is None:
            continue
        by_hour, hour = counts[_key(row)], row["hour"]
        before = Window(hour - objective.window + HOUR, hour)
        earlier = [count for at, count in by_hour.items() if at in before]
        bad_before = sum(count.bad for count in earlier)
        yield {
            **row,
            "target": objective.target,
            "window_hours": objective.window // HOUR,
            "bad_before": bad_before,
            "unknown_before": sum(count.unknown for count in earlier),
            "budget_left": 1 - (bad_before + row["bad"]) / objective.budget,
            "burn_rate_1h": _burn_rate(by_hour, hour, 1, objective.target),
            "burn_rate_6h": _burn_rate(by_hour, hour, LONGEST_HOURS, objective.target),
        }


def _burn_rate(
    by_hour: Mapping[datetime, Count], hour: datetime, hours: int, target: float
) -> float | None:
    """Return the bad share of the known minutes of the last hours, over the share that may be.

    The last hours end with the last minute that is counted. Of the hour in which they begin only
    its sums are known, so it counts as if its minutes were alike.
    """
    rest = (MINUTES - by_hour[hour].counted) / MINUTES
    weighted = [(by_hour[hour], 1.0)]
    for back in range(1, hours + 1):
        count = by_hour.get(hour - back * HOUR)
        if count is not None:
            weighted.append((count, rest if back == hours else 1.0))
    known = sum(weight * (count.good + count.bad) for count, weight in weighted)
    bad = sum(weight * count.bad for count, weight in weighted)
    return bad / known / (1 - target) if known else None


def _key(row: Mapping[str, Any]) -> _Key:
    return row["cluster"], row["consumer_group"], row["topic"], row["objective"]


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
    # Neither the year 0 nor the month after 9999-12 is an instant.
    if not re.fullmatch(r"(?!0000|9999)[0-9]{4}-(0[1-9]|1[0-2])", text):
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
