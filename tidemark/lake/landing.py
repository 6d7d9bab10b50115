"""Landing: one folder per snapshot, which is visible only when it is whole.

``landing/<cluster>/<YYYY-MM-DD>/<HH>/<snapshot_id>/<table>.parquet`` with the columns of
``raw.<table>``. Collection needs nothing but this, so it continues while Spark or the lake is down.
The differences between a disk and a bucket are in `tidemark.lake.landing_places`.

A cluster may have any name, even one that is made to lead out of the folder. Characters that a
folder name must not hold are percent-encoded, ``prod%2Feu`` for ``prod/eu``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.lake.landing_places import HEADER, Disk, Landing
from tidemark.lake.tables import TABLES
from tidemark.lake.typed_rows import arrow_array
from tidemark.rocketmq import records
from tidemark.rocketmq.records import Snapshot
from tidemark.settings.clusters import fault_of_name
from tidemark.settings.home import Home

Place = Landing | Home
"""A landing, or a home for the one in it."""

_SNAPSHOT_ID = re.compile(r"(\d{8}T\d{9})Z-.+")

LONGEST_FOLDER = 246
"""Bytes of a folder's name; while it is written it has nine more, and file systems take 255."""

SET_ASIDE = ".aside"
"""The folder of snapshots that are never loaded; its leading dot hides it from all loads."""

MOST_ASIDE = 1_000
"""Snapshots of a cluster that stay set aside: one each minute of most of a day."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_HOUR = re.compile(r"[01]\d|2[0-3]")

_NO_FOLDER_NAME = re.compile(r"[%/\x00-\x1f\x7f]|^\.")
"""Characters that lead to another folder or end a line, and a leading dot, which hides."""

_ESCAPED = re.compile(r"%([0-7][0-9A-F])")


@dataclass(frozen=True, order=True, kw_only=True)
class Landed:
    """A landed snapshot, as its folder names it.

    Attributes:
        observed_at: start of the snapshot.
        snapshot_id: its id, which names the folder.
        cluster: its cluster, which names a folder above.
        path: the folder.
        landing: where the folder is.
    """

    observed_at: datetime
    snapshot_id: str
    cluster: str
    path: PurePath
    landing: Landing = field(compare=False)

    def files(self) -> dict[str, PurePath]:
        """Return its files by full name of their table."""
        paths = [self.path / name for name in self.landing.files(self.path)]
        mapping = {f"raw.{path.stem}": path for path in paths if path.suffix == ".parquet"}
        return {name: path for name, path in mapping.items() if name in TABLES}

    def open(self, path: PurePath) -> Any:
        """Open one of its files for reading, as a context.

        Raises:
            RefusedError: an object store refuses it.
            OSError: it cannot be read.
        """
        return self.landing.open(path)

    @property
    def is_finished(self) -> bool:
        """Whether all of it is there."""
        return self.landing.is_finished(self.path)


def landing_of(place: Place) -> Landing:
    """Return a landing, or that of a home."""
    return Disk(place.landing) if isinstance(place, Home) else place


def folder(place: Place, cluster: str, observed_at: datetime, snapshot_id: str) -> Any:
    """Return the folder that a snapshot lands in."""
    at = observed_at.astimezone(UTC)
    hour = landing_of(place).root / folder_name(cluster) / f"{at:%Y-%m-%d}" / f"{at:%H}"
    return hour / folder_name(snapshot_id)


def has_landed(place: Place, snapshot: Snapshot) -> bool:
    """Return whether a snapshot of the same id has landed."""
    landing = landing_of(place)
    target = folder(landing, snapshot.cluster, snapshot.observed_at, snapshot.snapshot_id)
    return target.name in landing.folders(target.parent) and landing.is_finished(target)


def fault_of_names(snapshot: Snapshot) -> str | None:
    """Return why a snapshot cannot land by its names, in a few words; None where it can."""
    if reason := fault_of_name(snapshot.cluster):
        return reason
    if len(folder_name(snapshot.snapshot_id).encode()) > LONGEST_FOLDER:
        return f"a name of {len(snapshot.part or '')} characters is too long for a path"
    return None


def folder_name(name: str) -> str:
    """Return a name as a folder may have it."""
    return _NO_FOLDER_NAME.sub(lambda match: f"%{ord(match[0]):02X}", name)


def _named(folder_name: str) -> str:
    """Return the decoded name of a folder."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), folder_name)


def land(place: Place, snapshot: Snapshot) -> Any:
    """Write a snapshot's files, make them visible together, and return their folder.

    Raises:
        ValueError: the snapshot has a name that no folder can have.
        OSError: the files cannot be written; none of them is visible then.
    """
    if reason := fault_of_names(snapshot):
        raise ValueError(reason)
    landing = landing_of(place)
    target = folder(landing, snapshot.cluster, snapshot.observed_at, snapshot.snapshot_id)
    with landing.writing(target) as unfinished:
        for table in records.TABLES:
            if snapshot.count(table):
                _write(landing, unfinished, table, arrow_tables(snapshot, table))
        header = {name: [value] for name, value in snapshot.header().items()}
        _write_header(landing, unfinished, _arrow("snapshots", header))
    return target


def copy_landed(item: Landed, target: Landing) -> None:
    """Land a snapshot that has landed elsewhere; nothing changes where it is there already.

    Raises:
        OSError: it cannot be read, or the files cannot be written; none of them is visible then.
    """
    folder = target.root / item.path.relative_to(item.landing.root)
    if folder.name in target.folders(folder.parent) and target.is_finished(folder):
        return
    with target.writing(folder) as unfinished:
        # The header last, as it makes a snapshot visible.
        for name in sorted(item.landing.files(item.path), key=lambda name: name == HEADER):
            with item.landing.open(item.path / name) as file:
                target.write(unfinished / name, pa.py_buffer(file.read()))


def landed(place: Place, since: datetime | None = None) -> Iterator[Landed]:
    """Yield every landed snapshot, or those since an instant, the oldest hours of a cluster first.

    An object store receives a request for each of them. Use `folders` where most are known already.
    """
    landing = landing_of(place)
    items = [item for item in folders(landing, since) if not since or item.observed_at >= since]
    finished = landing.each(lambda item: item.is_finished, items)
    yield from (item for item, is_finished in zip(items, finished, strict=True) if is_finished)


def folders(place: Place, since: datetime | None = None) -> Iterator[Landed]:
    """Yield the folder of every snapshot, also of one that a bucket does not hold all of yet.

    Args:
        place: where they are.
        since: leaves out the hours before its own.
    """
    landing = landing_of(place)
    oldest = f"{since.astimezone(UTC):%Y-%m-%d/%H}" if since else ""
    hours = [
        hour
        for cluster in _visible(landing, landing.root)
        for hour in _hours(landing, cluster)
        if f"{hour.parent.name}/{hour.name}" >= oldest
    ]
    for item in landing.each(lambda hour: _snapshots(landing, hour), hours):
        yield from item


def set_aside(item: Landed) -> None:
    """Move a snapshot to where nothing loads it, and keep it for a person.

    Raises:
        OSError: it cannot be moved.
    """
    root = item.landing.root / SET_ASIDE
    item.landing.move(item.path, root / folder_name(item.cluster) / item.path.name)


def aside(place: Place) -> list[Landed]:
    """Return the snapshots that were set aside, in the order of their instants."""
    return sorted(item for of_cluster in _aside(landing_of(place)) for item in of_cluster)


def bound_aside(place: Place) -> None:
    """Remove snapshots that are set aside beyond `MOST_ASIDE` per cluster, earliest instants first.

    Their number counts and not their age, because they come from wrong clocks.

    Raises:
        OSError: it cannot be removed.
    """
    landing = landing_of(place)
    beyond = [item for of_cluster in _aside(landing) for item in sorted(of_cluster)[:-MOST_ASIDE]]
    list(landing.each(lambda item: landing.remove(item.path), beyond))


def _aside(landing: Landing) -> Iterator[list[Landed]]:
    """Yield the snapshots of each cluster that are set aside."""
    for cluster in _visible(landing, landing.root / SET_ASIDE):
        yield _in_folder(landing, cluster, _named(cluster.name))


def newest_landed(place: Place, until: datetime | None = None) -> dict[str, datetime]:
    """Return when the newest landed snapshot of each cluster started.

    Args:
        place: where they are.
        until: leaves out later ones, as those of a clock that was ahead.
    """
    landing, instants = landing_of(place), {}
    for cluster in _visible(landing, landing.root):
        for hour in reversed(_hours(landing, cluster)):
            newest = next(
                (
                    item.observed_at
                    for item in sorted(_snapshots(landing, hour), reverse=True)
                    if (until is None or item.observed_at <= until) and item.is_finished
                ),
                None,
            )
            if newest:
                instants[_named(cluster.name)] = newest
                break
    return instants


def days(place: Place) -> list[PurePath]:
    """Return the folder of each day of each cluster; others may have folders of their own there."""
    landing = landing_of(place)
    clusters = _visible(landing, landing.root)
    paths = (cluster / day for cluster in clusters for day in landing.folders(cluster))
    return [day for day in paths if _DAY.fullmatch(day.name)]


def first_landed_hour(place: Place) -> datetime | None:
    """Return the first hour that any cluster has a folder of; None without one."""
    landing, landed_days = landing_of(place), days(place)
    first = min((day.name for day in landed_days), default="")
    of_first = [day for day in landed_days if day.name == first]
    hours = [hour for day in of_first for hour in landing.folders(day) if _HOUR.fullmatch(hour)]
    # Days that no calendar has were made by others.
    with suppress(ValueError):
        return datetime.strptime(f"{first} {min(hours)}", "%Y-%m-%d %H").replace(tzinfo=UTC)
    return None


def _visible(landing: Landing, parent: PurePath) -> list[PurePath]:
    return [parent / name for name in landing.folders(parent) if not name.startswith(".")]


def _hours(landing: Landing, cluster: PurePath) -> list[PurePath]:
    names = landing.folders(cluster)
    return [cluster / day / hour for day in names for hour in landing.folders(cluster / day)]


def _snapshots(landing: Landing, hour: PurePath) -> list[Landed]:
    return _in_folder(landing, hour, _named(hour.parent.parent.name))


def _in_folder(landing: Landing, parent: PurePath, cluster: str) -> list[Landed]:
    result: list[Landed] = []
    for name in landing.folders(parent):
        match = _SNAPSHOT_ID.fullmatch(name)
        observed_at = _instant(match[1]) if match else None
        if observed_at is not None:
            result.append(
                Landed(
                    observed_at=observed_at,
                    snapshot_id=_named(name),
                    cluster=cluster,
                    path=parent / name,
                    landing=landing,
                )
            )
    return result


def _instant(text: str) -> datetime | None:
    try:
        seconds = datetime.strptime(text[:15], "%Y%m%dT%H%M%S")
    except ValueError:
        return None
    return seconds.replace(tzinfo=UTC, microsecond=int(text[15:]) * 1000)


def arrow_tables(snapshot: Snapshot, table: str) -> Iterator[pa.Table]:
    """Yield the rows of ``raw.<table>`` as they land, a bounded number at a time."""
    for columns in snapshot.batches(table):
        yield _arrow(table, columns)


def _arrow(table: str, columns: Mapping[str, Any]) -> pa.Table:
    schema = _schema(table)
    unknown = [None] * len(next(iter(columns.values())))
    arrays = [arrow_array(columns.get(field.name, unknown), field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _write(landing: Landing, path: PurePath, table: str, parts: Iterable[pa.Table]) -> None:
    with (
        landing.sink(path / f"{table}.parquet") as sink,
        pq.ParquetWriter(sink, _schema(table)) as writer,
    ):
        for part in parts:
            writer.write_table(part)


def _write_header(landing: Landing, path: PurePath, header: pa.Table) -> None:
    """Write the file that makes a snapshot visible, all of it or nothing."""
    content = pa.BufferOutputStream()
    pq.write_table(header, content)
    landing.write(path / HEADER, content.getvalue())


def _schema(table: str) -> pa.Schema:
    return TABLES[f"raw.{table}"].arrow_schema()
