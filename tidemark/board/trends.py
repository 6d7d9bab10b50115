"""Lag and delay of all groups over the last hours as a few points, and changes of their health.

Lists of groups show a trend next to each number. Reading the past of each group on its own would
take a file's time for each, so all groups are read at once, whenever there is a new snapshot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.board.data_files import DataFiles
from tidemark.board.past import files_of, path_of
from tidemark.lake.bounds import columns_with_marks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.tables import progress
from tidemark.planning.history import files_left_out, loaded_snapshots, remembered

REACH = timedelta(hours=3)
"""How far points reach back."""

STEP = timedelta(minutes=5)
"""Time between two points; each is an observation, and not a mean."""

CHANGED_WITHIN = timedelta(hours=1)
"""How far changes of health reach back."""

COLUMNS = columns_with_marks(("lag", "delay_ms"))

Key = tuple[str, str, str]
"""Cluster, group and topic."""

_READ = ("snapshot_id", "observed_at", "cluster", "consumer_group", "topic", "health", *COLUMNS)

_KEY = ("cluster", "consumer_group", "topic")

_POINTS = f"""
    SELECT {", ".join((*_KEY, "observed_at", *COLUMNS))}
    FROM read WHERE observed_at IN (SELECT unnest($instants))"""

_CHANGES = """
    WITH recent AS (
        SELECT observed_at, cluster, consumer_group, topic, health FROM read
        WHERE observed_at >= $since),
    changed AS (
        SELECT cluster, consumer_group, topic FROM recent GROUP BY ALL
        HAVING min(health) <> max(health)),
    steps AS (
        SELECT recent.*, lag(health) OVER (
            PARTITION BY cluster, consumer_group, topic ORDER BY observed_at) AS was
        FROM recent JOIN changed USING (cluster, consumer_group, topic))
    SELECT * FROM steps WHERE was <> health ORDER BY observed_at DESC"""


@dataclass(frozen=True, kw_only=True)
class Trends:
    """The last hours of every group on a topic.

    Attributes:
        points: `COLUMNS` of observations, those of a group together and in order of time.
        places: where those of a group begin and how many they are.
        changes: changes of health, the newest first: instant, group, ``health`` and ``was``.
    """

    points: pa.Table | None = None
    places: Mapping[Key, tuple[int, int]] = field(default_factory=dict)
    changes: list[dict[str, Any]] = field(default_factory=list)

    def of(self, cluster: str, group: str, topic: str) -> list[dict[str, Any]]:
        """Return the observations of a group on a topic in order of time: `COLUMNS` of each."""
        place = self.places.get((cluster, group, topic))
        if self.points is None or place is None:
            return []
        return self.points.slice(*place).to_pylist()


def read_trends(lake: Lake, files: DataFiles, at: Mapping[str, datetime]) -> Trends:
    """Return the trends until the newest snapshot of each cluster.

    Args:
        lake: the tables.
        files: knows their data files.
        at: cluster to the instant of its newest snapshot.

    Raises:
        DamagedError: a file of a table is missing or damaged.
    """
    if not at:
        return Trends()
    newest = max(at.values())
    window = Window(newest - REACH, newest + MICROSECOND)
    known = loaded_snapshots(lake, remembered(window))
    left_out = sorted(files_left_out(known))
    instants = _instants(lake, window, at)
    with duckdb.connect() as session:
        session.execute("SET TimeZone = 'UTC'; SET threads = 1")
        _make_view(session, lake, files, window, left_out, at)
        given = {"instants": instants}
        points = session.sql(_POINTS, params=given).to_arrow_table()
        changes = session.sql(_CHANGES, params={"since": newest - CHANGED_WITHIN}).to_arrow_table()
    ordered, places = _by_group(points)
    return Trends(points=ordered, places=places, changes=changes.to_pylist())


def _by_group(points: pa.Table) -> tuple[pa.Table, dict[Key, tuple[int, int]]]:
    """Return observations by group and in order of time, and the place of those of each group.

    Groups are compared by number: names of hundreds of thousands of rows are long to sort.
    """
    encoded = [points[name].combine_chunks().dictionary_encode() for name in _KEY]
    number: Any = pa.array([0] * points.num_rows, pa.int64())
    for item in encoded:
        number = pc.multiply(number, max(1, len(item.dictionary)))  # pyright: ignore
        number = pc.add(number, item.indices.cast(pa.int64()))  # pyright: ignore
    order = pc.sort_indices(  # pyright: ignore
        pa.table({"number": number, "observed_at": points["observed_at"]}),
        sort_keys=[("number", "ascending"), ("observed_at", "ascending")],
    )
    runs = pc.run_end_encode(number.take(order))  # pyright: ignore
    ends = runs.run_ends.to_pylist()
    begins = [0, *ends[:-1]]
    firsts = points.select(_KEY).take(order.take(pa.array(begins[: len(ends)], pa.int64())))
    keys = zip(*(firsts[name].to_pylist() for name in _KEY), strict=True)
    places = {
        key: (begin, end - begin) for key, begin, end in zip(keys, begins, ends, strict=False)
    }
    return points.select(("observed_at", *COLUMNS)).take(order), places


def _make_view(
    session: duckdb.DuckDBPyConnection,
    lake: Lake,
    files: DataFiles,
    window: Window,
    left_out: list[str],
    at: Mapping[str, datetime],
) -> None:
    """Make the view ``read``: rows of ``progress.groups`` of whole clusters, until `at`."""
    table = progress.GROUPS
    hours = files.by_hour(table)
    paths = [None] if hours is None else [path_of(file) for file in files_of(hours, window)]
    if paths and all(paths):
        session.execute("SET VARIABLE paths = $paths", {"paths": paths})
        source = "read_parquet(getvariable('paths'), union_by_name = true)"
    else:
        # PyIceberg reads what is not on this machine.
        session.register("of_catalog", lake.read(table, window, columns=_READ))
        source = "of_catalog"
    session.register("left_out", pa.table({"snapshot_id": pa.array(left_out, pa.string())}))
    newest = {"cluster": list(at), "newest": pa.array(at.values(), pa.timestamp("us", "UTC"))}
    session.register("newest", pa.table(newest))
    session.execute("SET VARIABLE start = $start", {"start": window.start})
    session.execute(
        f"CREATE TEMP VIEW read AS SELECT {', '.join(_READ)} FROM {source} "
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
