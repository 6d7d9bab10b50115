"""Numbers of all groups, topics and brokers over the last hours, and what they forecast.

Lists show a trend of a few points next to each number. Reading the past of each row on its own
would take a file's time for each, so all of them are read at once: groups whenever there is a new
snapshot, topics and brokers when a page shows them.

Forecasts of groups and brokers follow from the same points: the time until nothing waits, messages
expire, or a disk is full.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.board.data_files import DataFiles, one_thread
from tidemark.board.group_history import CHANGES, CHANGES_SCHEMA, HealthChanges
from tidemark.board.newest import clusters_at
from tidemark.board.past import files_of, path_of
from tidemark.lake.bounds import bound_of, columns_with_marks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress, raw
from tidemark.live.forecasts import Forecast, time_to_reach
from tidemark.model.forecasts import ForecastKind, NoForecast
from tidemark.planning.history import files_left_out, loaded_snapshots, remembered

REACH = timedelta(hours=3)
"""How far points reach back."""

STEP = timedelta(minutes=5)
"""Time between two points; each is an observation, and not a mean."""

CHANGED_WITHIN = timedelta(hours=2)
"""How far changes of health reach back: an hour, and the time until that is copied."""

COLUMNS = columns_with_marks(("lag", "delay_ms", "loss_in_seconds"))


@dataclass(frozen=True)
class Listed:
    """Rows of a list that have a trend.

    Attributes:
        table: the table.
        key: the columns that name a row.
        columns: the numbers, with the columns that mark them as bounds.
    """

    table: Table
    key: tuple[str, ...]
    columns: tuple[str, ...]


GROUPS = Listed(progress.GROUPS, ("cluster", "consumer_group", "topic"), COLUMNS)
TOPICS = Listed(
    progress.TOPICS,
    ("cluster", "topic"),
    ("messages", "unreadable_messages", "produce_tps", "complete"),
)
BROKERS = Listed(
    raw.BROKERS,
    ("cluster", "broker", "address"),
    ("disk_ratio", "put_tps", "get_tps", "dispatch_behind_bytes", "send_wait_ms"),
)


@dataclass(frozen=True, kw_only=True)
class Points:
    """The last hours of every row of a list.

    Attributes:
        points: columns of observations, those of a row together and in order of time.
        places: where those of a row begin and how many they are, by its key.
    """

    points: pa.Table | None = None
    places: Mapping[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)

    def of(self, *key: str) -> list[dict[str, Any]]:
        """Return the observations of the row with a key in order of time."""
        place = self.places.get(key)
        if self.points is None or place is None:
            return []
        return self.points.slice(*place).to_pylist()


@dataclass(frozen=True, kw_only=True)
class Trends(Points):
    """The last hours of every group on a topic.

    Attributes:
        changes: changes of health; None where they could not be read.
    """

    changes: HealthChanges | None = None


def read_trends(lake: Lake, files: DataFiles, at: Mapping[str, datetime]) -> Trends:
    """Return the trends of groups until the newest snapshot of each cluster.

    Args:
        lake: the tables.
        files: knows their data files.
        at: cluster to the instant of its newest snapshot.

    Raises:
        DamagedError: a file of a table is missing or damaged.
    """
    if not at:
        return Trends()
    with one_thread() as session:
        points = _points(session, lake, files, at, GROUPS, ("health",))
        newest = max(at.values())
        since = Window.through(newest - CHANGED_WITHIN, newest)
        session.execute("SET VARIABLE since = $since", {"since": since.start})
        session.execute(
            "CREATE TEMP VIEW states AS "
            "SELECT * FROM read WHERE observed_at >= getvariable('since')"
        )
        rows = (
            session.sql(f"{CHANGES} ORDER BY observed_at DESC")
            .to_arrow_table()
            .cast(CHANGES_SCHEMA)
        )
    changes = HealthChanges(window=since, rows=rows)
    return Trends(points=points.points, places=points.places, changes=changes)


def read_points(lake: Lake, files: DataFiles, at: Mapping[str, datetime], listed: Listed) -> Points:
    """Return the trends of other rows, as `read_trends`."""
    if not at:
        return Points()
    with one_thread() as session:
        return _points(session, lake, files, at, listed, ())


def _points(
    session: duckdb.DuckDBPyConnection,
    lake: Lake,
    files: DataFiles,
    at: Mapping[str, datetime],
    listed: Listed,
    more: tuple[str, ...],
) -> Points:
    """Return the points of a list; the view ``read`` has all its rows, with more columns."""
    newest = max(at.values())
    window = Window(newest - REACH, newest + MICROSECOND)
    known = loaded_snapshots(lake, remembered(window))
    left_out = sorted(files_left_out(known))
    instants = _instants(lake, window, at)
    _make_view(session, lake, files, window, left_out, at, listed, more)
    points = session.sql(
        f"SELECT {', '.join((*listed.key, 'observed_at', *listed.columns))} "
        "FROM read WHERE observed_at IN (SELECT unnest($instants))",
        params={"instants": instants},
    ).to_arrow_table()
    ordered, places = _by_key(points, listed)
    return Points(points=ordered, places=places)


def _by_key(
    points: pa.Table, listed: Listed
) -> tuple[pa.Table, dict[tuple[str, ...], tuple[int, int]]]:
    """Return observations by key and in order of time, and the place of those of each key.

    Keys are compared by number: names of hundreds of thousands of rows are long to sort.
    """
    encoded = [points[name].combine_chunks().dictionary_encode() for name in listed.key]
    number: Any = pa.array([0] * points.num_rows, pa.int64())
    for item in encoded:
        number = pc.multiply(number, max(1, len(item.dictionary)))
        number = pc.add(number, item.indices.cast(pa.int64()))
    order = pc.sort_indices(
        pa.table({"number": number, "observed_at": points["observed_at"]}),
        sort_keys=[("number", "ascending"), ("observed_at", "ascending")],
    )
    runs = pc.run_end_encode(number.take(order))
    ends = runs.run_ends.to_pylist()
    begins = [0, *ends[:-1]]
    firsts = points.select(listed.key).take(order.take(pa.array(begins[: len(ends)], pa.int64())))
    keys = zip(*(firsts[name].to_pylist() for name in listed.key), strict=True)
    places = {
        key: (begin, end - begin) for key, begin, end in zip(keys, begins, ends, strict=False)
    }
    return points.select(("observed_at", *listed.columns)).take(order), places


def _make_view(
    session: duckdb.DuckDBPyConnection,
    lake: Lake,
    files: DataFiles,
    window: Window,
    left_out: list[str],
    at: Mapping[str, datetime],
    listed: Listed,
    more: Sequence[str],
) -> None:
    """Make the view ``read``: rows of a list, of whole clusters, until `at`."""
    table = listed.table
    names = ("snapshot_id", "observed_at", *listed.key, *more, *listed.columns)
    hours = files.by_hour(table)
    paths = [None] if hours is None else [path_of(file) for file in files_of(hours, window)]
    if paths and all(paths):
        session.execute("SET VARIABLE paths = $paths", {"paths": paths})
        source = "read_parquet(getvariable('paths'), union_by_name = true)"
    else:
        # PyIceberg reads what is not on this machine.
        session.register("of_catalog", lake.read(table, window, columns=names))
        source = "of_catalog"
    session.register("left_out", pa.table({"snapshot_id": pa.array(left_out, pa.string())}))
    newest = {"cluster": list(at), "newest": pa.array(at.values(), pa.timestamp("us", "UTC"))}
    session.register("newest", pa.table(newest))
    session.execute("SET VARIABLE start = $start", {"start": window.start})
    session.execute(
        f"CREATE TEMP VIEW read AS SELECT {', '.join(names)} FROM {source} "
        "JOIN newest USING (cluster) WHERE observed_at >= getvariable('start') "
        "AND observed_at <= newest AND snapshot_id NOT IN (SELECT snapshot_id FROM left_out)"
    )


def _instants(lake: Lake, window: Window, at: Mapping[str, datetime]) -> list[datetime]:
    """Return the newest instant of each step of a window, counted back from the newest snapshot."""
    rows = lake.read(progress.SNAPSHOTS, window, columns=("observed_at", "cluster"))
    chosen: dict[tuple[str, int], datetime] = {}
    for row in rows.to_pylist():
        newest: datetime | None = at.get(row["cluster"])
        instant: datetime = row["observed_at"]
        if newest is not None and instant <= newest:
            key = row["cluster"], (newest - instant) // STEP
            chosen[key] = max(chosen.get(key, instant), instant)
    return sorted(set(chosen.values()))


DISK_REFUSES = 0.9
"""Share of a full disk above which a broker refuses messages (`diskSpaceWarningLevelRatio`)."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """A level whose reaching is forecast.

    Attributes:
        column: the number.
        level: the level.
        rises: whether the number reaches it from below.
    """

    column: str
    level: float
    rises: bool = False

    def is_reached(self, value: float) -> bool:
        """Return whether a value is at the level or beyond."""
        return value >= self.level if self.rises else value <= self.level


LEVELS: Mapping[Listed, Mapping[ForecastKind, Level]] = {
    GROUPS: {
        ForecastKind.DRAIN: Level(column="lag", level=0.0),
        ForecastKind.LOSS: Level(column="loss_in_seconds", level=0.0),
    },
    BROKERS: {ForecastKind.DISK_FULL: Level(column="disk_ratio", level=DISK_REFUSES, rises=True)},
}
"""Forecasts of the rows of a list."""

UNIT = "s"


def forecasts(points: Sequence[Mapping[str, Any]], listed: Listed) -> dict[str, dict[str, Any]]:
    """Return the forecasts of a row by `ForecastKind`, as the API describes them.

    Args:
        points: the last hours of the row in order of time.
        listed: the list that it is of.
    """
    return {
        kind.value: {**asdict(_forecast(points, level)), "unit": UNIT}
        for kind, level in LEVELS[listed].items()
    }


def read_forecasts(lake: Lake, now: datetime) -> list[dict[str, Any]]:
    """Return all forecasts of the newest snapshots of clusters, those of the same row together.

    Args:
        lake: the tables.
        now: the present instant.

    Returns:
        A row per forecast: the key of the group on a topic or broker, ``observed_at`` of its newest
        observation, ``forecast``, and its columns. A key that the row does not have is None.

    Raises:
        DamagedError: a file of a table is missing or damaged.
    """
    at, _ = clusters_at(lake, now)
    files = DataFiles(lake)
    keys = dict.fromkeys(name for listed in LEVELS for name in listed.key)
    rows: list[dict[str, Any]] = []
    for listed in LEVELS:
        points = read_points(lake, files, at, listed)
        for key in sorted(points.places):
            own = points.of(*key)
            named = dict(zip(listed.key, key, strict=True))
            # A group or broker that has gone has no row in the newest snapshot.
            if own[-1]["observed_at"] == at[named["cluster"]]:
                rows += [
                    {
                        **keys,
                        **named,
                        "observed_at": own[-1]["observed_at"],
                        "forecast": kind,
                        **stated,
                    }
                    for kind, stated in forecasts(own, listed).items()
                ]
    return rows


def _forecast(points: Sequence[Mapping[str, Any]], level: Level) -> Forecast:
    """Return when a level is reached, from no bound, and nothing where the newest number is one.

    An earlier number that is unknown or a bound is left out.
    """
    newest = points[-1] if points else {}
    value = newest.get(level.column)
    if value is None:
        return Forecast(reason=NoForecast.UNKNOWN)
    if bound_of(level.column, newest):
        return Forecast(reason=NoForecast.BOUND)
    if level.is_reached(value):
        return Forecast(reason=NoForecast.REACHED)
    known = [
        (row["observed_at"], float(row[level.column]))
        for row in points
        if row[level.column] is not None and bound_of(level.column, row) is None
    ]
    return time_to_reach(known, level.level)
