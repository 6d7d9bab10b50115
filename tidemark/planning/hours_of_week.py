"""Hours of a week: the largest rate of each in ``progress.peaks``, and those with usual values.

Capacity is planned for the peak of a week. An hour has one small file here, so a week costs 168 of
them, where ``progress.groups`` has a row per group, topic and snapshot. The rows are few and need
no Spark. Usual values of an hour, ``progress.baselines``, come from the same hour of other weeks.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.schema import any_of, window_filter
from tidemark.lake.tables import progress
from tidemark.planning.history import LoadedSnapshot


def observed_an_hour_before(
    known: Sequence[LoadedSnapshot], window: Window, longest_gap: timedelta
) -> Iterator[tuple[str, str]]:
    """Yield the snapshots of a window and their brokers that were observed an hour before.

    Args:
        known: loaded snapshots of the window and of `MEMORY` before it, in order of time.
        window: the window.
        longest_gap: how much longer than an hour before the observation may be.
    """
    for snapshot in known:
        if snapshot.observed_at in window:
            end = snapshot.observed_at - HOUR
            reach = Window(end - longest_gap, end + timedelta(microseconds=1))
            before = _brokers(
                loaded_snapshot
                for loaded_snapshot in known
                if loaded_snapshot.observed_at in reach
                and loaded_snapshot.origin == snapshot.origin
            )
            yield from ((snapshot.snapshot_id, broker) for broker in sorted(before))


def _brokers(snapshots: Iterable[LoadedSnapshot]) -> frozenset[str]:
    return frozenset().union(*(loaded_snapshot.brokers_read for loaded_snapshot in snapshots))


SUBJECT = ("cluster", "consumer_group", "topic")

_ORDER = [("peak_tps", "descending"), ("peak_at", "ascending")]


def replace_peaks(lake: Lake, window: Window) -> int:
    """Update the peaks of a window's hours.

    Args:
        lake: the tables; ``progress.groups`` of the window must be computed.
        window: the window. Where it begins within an hour, an earlier peak of that hour is kept.

    Returns:
        Rows written; 0 where no rate of the window exceeds the known ones.
    """
    hours, span = window.whole_hours(), window
    stored = known = lake.read(progress.PEAKS, hours)
    if known.num_rows and _latest(known) >= window.start:
        # The window was computed before: its rates may have changed.
        span, known = hours, known.slice(0, 0)
    columns = ("observed_at", *SUBJECT, "produce_tps")
    peaks = hourly_peaks(lake.read(progress.GROUPS, span, columns=columns), known)
    if peaks.equals(_sorted(stored.select(peaks.column_names).cast(peaks.schema))):
        return 0
    return lake.replace(progress.PEAKS, hours, peaks)


def hourly_peaks(groups: pa.Table, known: pa.Table) -> pa.Table:
    """Return the largest rate of production of each hour, group and topic.

    Args:
        groups: ``observed_at, cluster, consumer_group, topic, produce_tps`` of ``progress.groups``.
        known: rows of ``progress.peaks`` to which the rates are added.

    Returns:
        One row per hour, group and topic with a known rate, with the columns of
        `tidemark.lake.tables.progress.PEAKS`; of equal rates the first counts.
    """
    rates = groups.rename_columns({"produce_tps": "peak_tps", "observed_at": "peak_at"})
    names = [*SUBJECT, "peak_tps", "peak_at"]
    is_known = pc.is_finite(rates["peak_tps"])
    rates = rates.select(names).filter(is_known)
    together = pa.concat_tables([rates, known.select(names).cast(rates.schema)])
    hour = pc.floor_temporal(together["peak_at"], unit="hour")
    by_rate = together.append_column("observed_at", hour).sort_by(_ORDER)
    best = by_rate.group_by(["observed_at", *SUBJECT], use_threads=False).aggregate(
        [("peak_tps", "first"), ("peak_at", "first")]
    )
    best = best.rename_columns(["observed_at", *SUBJECT, "peak_tps", "peak_at"])
    schema = progress.PEAKS.arrow_schema()
    best = best.append_column("hour_of_week", _hour_of_week(best["observed_at"]))
    return _sorted(best.select(schema.names).cast(schema))


def _hour_of_week(hours: pa.ChunkedArray) -> pa.Array:
    return pa.array([at.weekday() * 24 + at.hour for at in hours.to_pylist()], type=pa.int32())


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in progress.PEAKS.key]).combine_chunks()


def _latest(rows: pa.Table) -> datetime:
    return max(rows["peak_at"].to_pylist())


WEEK = timedelta(days=7)

WEEKS = 4
"""Weeks before an hour that its usual values are from."""

AROUND = 1
"""Hours before and after the same hour of a week that count as well. A daily job that begins a few
minutes later is usual then, and so is all of it when the clocks of a country change."""


def compared_with(hours: Window) -> list[Window]:
    """Return the windows that whole hours are compared with, the newest week first."""
    return [
        Window(hours.start - week * WEEK - AROUND * HOUR, hours.end - week * WEEK + AROUND * HOUR)
        for week in range(1, WEEKS + 1)
    ]


def has_history(lake: Lake, compared: list[Window]) -> bool:
    """Return whether a group was observed in one of some windows."""
    where = any_of(*(window_filter(progress.GROUPS, window) for window in compared))
    return lake.read(progress.GROUPS, where, columns=("observed_at",), limit=1).num_rows > 0


def lacking_baselines(lake: Lake, hours: Window) -> Window:
    """Return the smallest window with those of some hours that lack baselines."""
    lacking = []
    hour = hours.start
    while hour < hours.end:
        if not lake.has_rows(progress.BASELINES, Window(hour, hour + HOUR)):
            lacking.append(hour)
        hour += HOUR
    return Window(lacking[0], lacking[-1] + HOUR) if lacking else Window(hours.start, hours.start)
