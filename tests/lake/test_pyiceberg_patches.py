"""The patches of PyIceberg fit the installed version, and commits work without them."""

import copy
from datetime import UTC, datetime

import duckdb
import pyiceberg
import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tidemark.lake import pyiceberg_patches
from tidemark.lake.catalog import Lake
from tidemark.lake.tables.quality import QUARANTINE
from tidemark.lake.tables.raw import BROKERS

ROW = {
    "observed_at": datetime(2026, 11, 19, 12, tzinfo=UTC),
    "table": "raw.topics",
    "reason": "x",
    "row": "{}",
}


def test_the_installed_pyiceberg_is_the_tested_version():
    assert pyiceberg.__version__ == pyiceberg_patches.TESTED_VERSION


def test_a_transaction_derives_its_metadata_once_per_change(lake):
    lake.append(QUARANTINE, [ROW])
    transaction = pyiceberg_patches.transaction(lake.table(QUARANTINE.name))
    before = transaction.table_metadata
    assert transaction.table_metadata is before
    transaction.set_properties({"changed": "yes"})
    assert transaction.table_metadata is not before
    assert transaction.table_metadata.properties["changed"] == "yes"
    assert "changed" not in before.properties


def test_copies_of_metadata_share_their_frozen_parts(lake):
    lake.append(QUARANTINE, [ROW])
    lake.append(QUARANTINE, [ROW])
    metadata = lake.table(QUARANTINE.name).metadata
    copied = copy.deepcopy(metadata)
    assert copied is not metadata and len(copied.snapshots) == 2
    assert all(a is b for a, b in zip(parts(copied), parts(metadata), strict=True))
    assert copied.snapshots is not metadata.snapshots  # an update may add to the list


def test_threads_share_parts_that_no_use_changes(lake):
    """A thread that copied a schema failed where another one derived from it for the first time."""
    lake.append(QUARANTINE, [ROW])
    shared = lake.table(QUARANTINE.name).metadata
    attributes = [set(vars(part)) for part in parts(shared)]
    assert lake.read(QUARANTINE, columns=("reason",), limit=1).num_rows == 1
    lake.append(QUARANTINE, [ROW])
    shared.schema().find_field("REASON", case_sensitive=False)
    assert shared.schema().name_mapping and shared.spec().source_id_to_fields_map
    assert [set(vars(part)) for part in parts(shared)] == attributes


def parts(metadata: TableMetadata) -> list[Schema | PartitionSpec | Snapshot]:
    return [*metadata.schemas, *metadata.partition_specs, *metadata.snapshots]


def test_an_untested_version_commits_without_patches(lake, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pyiceberg_patches, "TESTED_VERSION", "0.0.0")
    assert type(pyiceberg_patches.transaction(lake.table(QUARANTINE.name))) is Transaction
    lake.append(QUARANTINE, [ROW])
    assert lake.read(QUARANTINE).num_rows == 1


def test_a_metadata_file_is_read_once(lake):
    lake.append(QUARANTINE, [ROW])
    first = lake.table(QUARANTINE.name)
    assert lake.table(QUARANTINE.name).metadata is first.metadata
    lake.append(QUARANTINE, [ROW])
    newest = lake.table(QUARANTINE.name)
    assert newest.metadata_location != first.metadata_location
    assert len(newest.metadata.snapshots) == len(first.metadata.snapshots) + 1 == 2


def test_a_writer_sees_what_another_one_committed(lake):
    other = Lake(lake.home)
    for value in (lake, other, lake):
        value.append(QUARANTINE, [ROW])
    assert lake.read(QUARANTINE).num_rows == other.read(QUARANTINE).num_rows == 3


def test_a_process_of_many_homes_keeps_few_metadata(lake, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pyiceberg_patches, "MOST_KEPT", 2)
    for name in ("quality.quarantine", "quality.results", "raw.topics", "raw.clients"):
        lake.table(name)
    assert len(pyiceberg_patches._kept) == 2


def test_a_list_that_is_unknown_stays_so(lake):
    """Written and read by PyIceberg; an empty list states that there is nothing."""
    lists = [None, [], [{"producer_group": "p", "client_id": "c"}], None]
    rows = [
        {"observed_at": ROW["observed_at"], "broker": f"b{number}", "producers": listed}
        for number, listed in enumerate(lists)
    ]
    lake.append(BROKERS, rows)
    table = lake.read(BROKERS).sort_by("broker")
    kept = [row and [(it["producer_group"], it["client_id"]) for it in row]
            for row in table["producers"].to_pylist()]  # fmt: skip
    assert kept == [None, [], [("p", "c")], None]
    (file,) = lake.table(BROKERS.name).inspect.files()["file_path"].to_pylist()
    written = duckdb.sql(f"SELECT producers IS NULL FROM '{file}' ORDER BY broker").fetchall()
    assert [null for (null,) in written] == [True, False, False, True]
