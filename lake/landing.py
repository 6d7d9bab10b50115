"""Landing: one folder per snapshot, made visible by one rename.

``landing/<cluster>/<YYYY-MM-DD>/<HH>/<snapshot_id>/<table>.parquet`` with the columns of
``raw.<table>``. Collecting needs nothing but this, so it goes on when Spark or the lake is down.

A cluster may have any name, even one that is made to lead out of the folder. Characters that a
folder name must not hold are percent-encoded, ``prod%2Feu`` for ``prod/eu``.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lake.tables import TABLES
from rocketmq import records
from rocketmq.records import Snapshot
from settings.home import Home

_SNAPSHOT_ID = re.compile(r"(\d{8}T\d{9})Z-.+")

_NO_FOLDER_NAME = re.compile(r"[%/\x00-\x1f\x7f]|^\.")
"""Characters that lead to another folder or end a line; a dot in front hides what is unfinished."""

_ESCAPED = re.compile(r"%([0-7][0-9A-F])")


@dataclass(frozen=True, order=True)
class Landed:
    """A landed snapshot, as its folder names it.

    Attributes:
        observed_at: start of the snapshot.
        snapshot_id: its id, what the folder is named after.
        cluster: its cluster, what the folder above is named after.
        path: the folder.
    """

    observed_at: datetime
    snapshot_id: str
    cluster: str
    path: Path

    def files(self) -> dict[str, Path]:
        """Return its files by full name of their table."""
        found = {f"raw.{path.stem}": path for path in self.path.glob("*.parquet")}
        return {name: path for name, path in found.items() if name in TABLES}


def folder(home: Home, cluster: str, observed_at: datetime, snapshot_id: str) -> Path:
    """Return the folder that a snapshot lands in."""
    at = observed_at.astimezone(UTC)
    hour = home.landing / _folder_name(cluster) / f"{at:%Y-%m-%d}" / f"{at:%H}"
    return hour / _folder_name(snapshot_id)


def _folder_name(name: str) -> str:
    return _NO_FOLDER_NAME.sub(lambda found: f"%{ord(found[0]):02X}", name)


def _named(folder_name: str) -> str:
    """Return the decoded name of a folder."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), folder_name)


def land(home: Home, snapshot: Snapshot) -> Path:
    """Write a snapshot's files, make them visible by one rename, and return their folder.

    Raises:
        OSError: the files cannot be written; none of them is visible then.
    """
    target = folder(home, snapshot.cluster, snapshot.observed_at, snapshot.snapshot_id)
    # A dot hides the unfinished folder from `landed`. It has the parent of its target, so that the
    # rename never crosses a file system.
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    home.make()
    unfinished.mkdir(parents=True)
    try:
        header = {name: [value] for name, value in snapshot.header().items()}
        _write(unfinished, "snapshots", [_arrow("snapshots", header)])
        for table in records.TABLES:
            if snapshot.count(table):
                _write(unfinished, table, arrow_tables(snapshot, table))
        unfinished.rename(target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return target


def landed(home: Home) -> Iterator[Landed]:
    """Yield every landed snapshot, the oldest hours of a cluster first."""
    for hour in sorted(home.landing.glob("[!.]*/*/*")):
        cluster = _named(hour.parent.parent.name)
        for entry in os.scandir(hour):
            match = _SNAPSHOT_ID.fullmatch(entry.name)
            if match and entry.is_dir():
                observed_at = _instant(match[1])
                if observed_at is not None:
                    yield Landed(observed_at, _named(entry.name), cluster, Path(entry.path))


def newest_landed(home: Home) -> dict[str, datetime]:
    """Return when the newest landed snapshot of each cluster started."""
    found = {}
    for cluster in home.landing.glob("[!.]*"):
        for hour in sorted(cluster.glob("*/*"), reverse=True):
            names = (_SNAPSHOT_ID.fullmatch(entry.name) for entry in os.scandir(hour))
            instants = [at for name in names if name and (at := _instant(name[1]))]
            if instants:
                found[_named(cluster.name)] = max(instants)
                break
    return found


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
    full = {name: columns.get(name, unknown) for name in schema.names}
    return pa.Table.from_pydict(full, schema=schema)


def _write(path: Path, table: str, parts: Iterable[pa.Table]) -> None:
    with pq.ParquetWriter(path / f"{table}.parquet", _schema(table)) as writer:
        for part in parts:
            writer.write_table(part)


def _schema(table: str) -> pa.Schema:
    return TABLES[f"raw.{table}"].arrow_schema()
