"""Patches of PyIceberg: fast reads and commits of tables with many versions, clocks back, NULLs.

All patches use private parts of PyIceberg. With another version than the tested one, tables work
without them, only slower, but not after a clock was set back, and lists that are NULL become empty.
A test fails when another version is installed.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property, wraps
from itertools import pairwise
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyiceberg
from pyiceberg.io import InputFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot, SnapshotLogEntry
from pyiceberg.table.update import TableUpdate
from pyiceberg.typedef import UTF8

from tidemark.lake import clocks

TESTED_VERSION = "0.12.0"
"""Version of PyIceberg that the patches were tested with."""

AHEAD_MS = int(clocks.AHEAD.total_seconds() * 1000)
"""Tolerance for instants of a log in milliseconds, the same as of Iceberg's Java."""

Entry = TypeVar("Entry", SnapshotLogEntry, MetadataLogEntry)

Frozen = TypeVar("Frozen", PartitionSpec, Schema, Snapshot)

_read = FromInputFile.table_metadata

_kept: dict[str, tuple[str, TableMetadata]] = {}
"""The metadata file that was read last, with its metadata, by the folder of the table."""

_of_clock_ahead: dict[str, str] = {}
"""The metadata file whose instants were set back when it was read, by the table's folder."""

MOST_KEPT = 64
"""Most kept tables, more than a catalog has; a process of many homes drops the first ones."""


class _CachedTransaction(Transaction):
    """A transaction that derives its metadata once per change and not once per access.

    Each derivation copies the metadata with all versions of the table, and an append accesses it
    about 25 times: 190 ms at 200 versions, with the cache 50 ms.
    """

    _derived: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the staged updates applied; no caller changes it in place."""
        if self._derived is None or self._derived[0] is not self._updates:
            self._derived = self._updates, super().table_metadata
        return self._derived[1]


def transaction(table: Table) -> Transaction:
    """Return a transaction on a table, patched where the installed version is the tested one."""
    if pyiceberg.__version__ != TESTED_VERSION:
        return Transaction(table)
    for frozen in (PartitionSpec, Schema, Snapshot):
        frozen.__deepcopy__ = _itself  # pyright: ignore
    return _CachedTransaction(table)


def _itself(part: Frozen, memo: Any) -> Frozen:
    """Return a part of a table's metadata in place of its copy.

    PyIceberg returns deep copies of a table's metadata with all its snapshots and schemas, although
    they are frozen. Copying the snapshots of an hour took half of a commit.
    """
    return part


def keep_null_lists() -> None:
    """Make reads and writes keep lists of structs NULL, where PyIceberg is of the tested version.

    PyIceberg builds such lists from their offsets and values, without the mask of NULLs: an unknown
    list would become an empty one, which states that there is nothing.
    """
    # Imported here: a process that opens no table does not need it.
    from pyiceberg.io.pyarrow import ArrowProjectionVisitor

    original = ArrowProjectionVisitor.list
    if pyiceberg.__version__ != TESTED_VERSION or hasattr(original, "__wrapped__"):
        return

    @wraps(original)
    def with_nulls(visitor: Any, kind: Any, lists: Any, values: Any) -> Any:
        result = original(visitor, kind, lists, values)
        if result is None or not lists.null_count:
            return result
        return pc.if_else(pc.is_valid(lists), result, pa.scalar(None, result.type))

    ArrowProjectionVisitor.list = with_nulls  # pyright: ignore


def keep_metadata() -> None:
    """Make a process read each file of metadata once, where PyIceberg is of the tested version.

    Such a file never changes: each commit writes a new one. A run loads each table several times,
    and to read the metadata of a thousand versions takes 25 ms.
    """
    if pyiceberg.__version__ == TESTED_VERSION:
        FromInputFile.table_metadata = staticmethod(_metadata_of)


def _metadata_of(input_file: InputFile, encoding: str = UTF8) -> TableMetadata:
    """Return the metadata of a file; no caller may change it in place."""
    location = input_file.location
    folder = location.rpartition("/")[0]
    known, latest = _kept.get(folder), clocks.latest()
    is_new = known is None or known[0] != location
    if known is None or is_new:
        known = _kept[folder] = location, _completed(_read(input_file, encoding))
        for first in list(_kept)[:-MOST_KEPT]:
            _kept.pop(first, None)
            _of_clock_ahead.pop(first, None)
    # Kept metadata are checked too, as the clock may have been set back since; their logs were
    # searched before.
    if is_new or known[1].last_updated_ms > latest.timestamp() * 1000:
        metadata = put_back(known[1], latest)
        if metadata is not known[1]:
            known = _kept[folder] = location, metadata
            _of_clock_ahead[folder] = location
    return known[1]


def was_put_back(location: str) -> bool:
    """Return whether the instants of a metadata file were set back when it was read."""
    return _of_clock_ahead.get(location.rpartition("/")[0]) == location


def put_back(metadata: TableMetadata, latest: datetime) -> TableMetadata:
    """Return metadata whose instants are in order, and none after the latest that counts.

    Iceberg's Java refuses to commit to a table whose last commit is a minute in the future, and to
    read one whose log falls back by a minute. So a clock that was ahead would stop all ticks until
    its time has come.

    Args:
        metadata: of a table.
        latest: the latest instant that counts.
    """
    milliseconds = int(latest.timestamp() * 1000)
    log, updates = metadata.snapshot_log, metadata.metadata_log
    newest = max((snapshot.timestamp_ms for snapshot in metadata.snapshots), default=0)
    if max(newest, metadata.last_updated_ms) <= milliseconds and not (
        _goes_back(log) or _goes_back(updates)
    ):
        return metadata
    now = milliseconds - AHEAD_MS
    last = min(metadata.last_updated_ms, now)
    put_back = {entry.snapshot_id: entry for entry in _sorted(log, last)}
    return metadata.model_copy(
        update={
            "last_updated_ms": last,
            "snapshot_log": list(put_back.values()),
            "metadata_log": _sorted(updates, last),
            "snapshots": [
                snapshot.model_copy(
                    update={
                        "timestamp_ms": put_back[snapshot.snapshot_id].timestamp_ms
                        if snapshot.snapshot_id in put_back
                        else min(snapshot.timestamp_ms, last)
                    }
                )
                for snapshot in metadata.snapshots
            ],
        }
    )


def _goes_back(log: Sequence[Entry]) -> bool:
    return any(
        later.timestamp_ms < earlier.timestamp_ms - AHEAD_MS for earlier, later in pairwise(log)
    )


def _sorted(log: Sequence[Entry], last: int) -> list[Entry]:
    """Return a log without an entry that is later than the one after it, or than the last."""
    kept: list[Entry] = []
    for entry in reversed(log):
        last = min(last, entry.timestamp_ms)
        kept.append(entry.model_copy(update={"timestamp_ms": last}))
    return kept[::-1]


def _completed(metadata: TableMetadata) -> TableMetadata:
    """Return metadata whose schemas and partition specs have derived all lazy attributes.

    Threads share kept metadata. A value that one thread derives late becomes an attribute, and
    another thread that copies or writes the same schema then fails: its dictionary changed size.
    """
    for part in (*metadata.schemas, *metadata.partition_specs):
        for name, derived in vars(type(part)).items():
            if isinstance(derived, cached_property):
                getattr(part, name)
    return metadata
