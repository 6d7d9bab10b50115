"""Patches of PyIceberg that make reads and commits fast on tables with many versions.

All rest on private parts of PyIceberg. With another version than the tested one, tables work
without them, only slower. A test fails when another version is installed.
"""

from functools import cached_property
from typing import Any, TypeVar

import pyiceberg
from pyiceberg.io import InputFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import TableUpdate
from pyiceberg.typedef import UTF8

TESTED_VERSION = "0.12.0"
"""Version of PyIceberg that the patches were tested with."""

Frozen = TypeVar("Frozen", PartitionSpec, Schema, Snapshot)

_read = FromInputFile.table_metadata

_kept: dict[str, tuple[str, TableMetadata]] = {}
"""Of each table's folder the metadata file that was read last, and what it holds."""

MOST_KEPT = 64
"""More than a catalog has tables; a process of many homes forgets the first ones."""


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

    PyIceberg hands out deep copies of a table's metadata with all its snapshots and schemas, which
    are frozen. Copying the snapshots of an hour took half of a commit.
    """
    return part


def keep_metadata() -> None:
    """Make a process read each file of metadata once, where PyIceberg is of the tested version.

    Such a file never changes: each commit writes a new one. A run loads each table several times,
    and to read the metadata of a thousand versions takes 25 ms.
    """
    if pyiceberg.__version__ == TESTED_VERSION:
        FromInputFile.table_metadata = staticmethod(_metadata_of)


def _metadata_of(input_file: InputFile, encoding: str = UTF8) -> TableMetadata:
    """Return what a metadata file holds; no caller changes it in place."""
    location = input_file.location
    folder = location.rpartition("/")[0]
    known = _kept.get(folder)
    if known is None or known[0] != location:
        known = _kept[folder] = location, _completed(_read(input_file, encoding))
        for first in list(_kept)[:-MOST_KEPT]:
            _kept.pop(first, None)
    return known[1]


def _completed(metadata: TableMetadata) -> TableMetadata:
    """Return metadata of which schemas and partition specs hold all that they derive on demand.

    Threads share what is kept. What one of them derives late becomes an attribute, and another
    one that copies or writes the same schema just then fails: its dictionary changed size.
    """
    for part in (*metadata.schemas, *metadata.partition_specs):
        for name, derived in vars(type(part)).items():
            if isinstance(derived, cached_property):
                getattr(part, name)
    return metadata
