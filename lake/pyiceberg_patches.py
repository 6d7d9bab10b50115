"""Patches of PyIceberg that make commits fast on tables with many versions.

Both rest on private parts of PyIceberg. With another version than the tested one, commits work
without them, only slower. A test fails when another version is installed.
"""

from typing import Any

import pyiceberg
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import TableUpdate

TESTED_VERSION = "0.12.0"
"""Version of PyIceberg that the patches were tested with."""


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
    Snapshot.__deepcopy__ = _itself  # pyright: ignore
    return _CachedTransaction(table)


def _itself(snapshot: Snapshot, memo: Any) -> Snapshot:
    """Return a snapshot in place of its copy.

    PyIceberg hands out deep copies of a table's metadata with all its snapshots, which are frozen.
    Copying those of an hour took half of a commit.
    """
    return snapshot
