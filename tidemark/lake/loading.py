"""Loading landed snapshots into ``raw.*``.

Each table gets one append per load, ``raw.snapshots`` the last: a snapshot counts as loaded only
when its row is there. The next load finishes an interrupted one. It skips the tables that already
hold the snapshot, so nothing is loaded twice.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table as IcebergTable

from tidemark.host.failures import RefusedError
from tidemark.lake import clocks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.damaged_files import usable
from tidemark.lake.landing import Landed, bound_aside, folders, set_aside
from tidemark.lake.retention import remember_observed_since, too_old_to_load
from tidemark.lake.schema import Table, all_of, one_of, type_text, window_filter
from tidemark.lake.tables import TABLES, raw
from tidemark.model.snapshots import SnapshotSource, SnapshotStatus

BATCH = 120
"""Snapshots that one commit per table loads at most."""

BATCH_ROWS = 1_000_000
"""Rows that one commit per table loads, or a single snapshot; bounds memory after a long pause."""

SLACK = timedelta(days=1)
"""Largest difference between the instant of a row and that in its folder's name."""

OF_CLIENTS = pc.field("offset_store").is_valid() & (pc.field("offset_store") == "client_file")
"""Condition of consumer offsets that come from files of clients and not from a broker."""

DATA_TABLES = tuple(table for table in raw.ALL if table is not raw.SNAPSHOTS)


class StructureError(Exception):
    """A landed file does not have the structure of its table."""


@dataclass(kw_only=True)
class Loaded:
    """The result of a load.

    Attributes:
        snapshots: ids that were added to ``raw.snapshots``.
        rejected: ids of snapshots with a wrong structure, with the reason.
        rows: rows written, by full name of the table.
        too_old: ids of landed snapshots that are left out, because no tick may compute them.
        set_aside: ids of landed snapshots whose instant no snapshot can be of, with the reason.
    """

    snapshots: list[str] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    too_old: list[str] = field(default_factory=list)
    set_aside: dict[str, str] = field(default_factory=dict)


def load(lake: Lake, since: datetime | None = None) -> Loaded:
    """Load every landed snapshot that ``raw.snapshots`` does not hold yet.

    One whose instant is that of a wrong clock is set aside, so that no later step meets it.

    Args:
        lake: the tables.
        since: ticks compute snapshots from then on; earlier ones are left out.
    """
    report = Loaded(rows={table.name: 0 for table in raw.ALL})
    pending = sorted(_pending(lake, report))
    too_old = too_old_to_load(lake, pending, since)
    report.too_old += [item.snapshot_id for item in pending if item.snapshot_id in too_old]
    wanted = [item for item in pending if item.snapshot_id not in too_old]
    for batch in _batches(wanted):
        _load_batch(lake, batch, report)
    loaded = {item.snapshot_id: item.observed_at for item in wanted}
    if report.snapshots:
        remember_observed_since(lake, min(loaded[name] for name in report.snapshots))
    return report


def _batches(pending: Iterable[Landed]) -> Iterator[list[Landed]]:
    """Yield landed snapshots in batches of bounded size."""
    batch: list[Landed] = []
    rows = 0
    for item in pending:
        more = _rows(item)
        if batch and (len(batch) == BATCH or rows + more > BATCH_ROWS):
            yield batch
            batch, rows = [], 0
        batch.append(item)
        rows += more
    if batch:
        yield batch


def _rows(item: Landed) -> int:
    """Return how many rows a landed snapshot holds, in files whose footer can be read."""
    rows = 0
    for path in item.files().values():
        with suppress(OSError, pa.ArrowException), item.open(path) as file:
            rows += pq.read_metadata(file).num_rows
    return rows


def _pending(lake: Lake, report: Loaded) -> Iterable[Landed]:
    now = datetime.now(UTC)
    faults = {item: clocks.fault(item.observed_at, now) for item in folders(lake.landing)}
    for item in (item for item, reason in faults.items() if reason and item.is_finished):
        report.set_aside[item.snapshot_id] = faults[item] or ""
        # Where it stays, the next load tries again: it is never loaded.
        with suppress(OSError):
            set_aside(item)
    if report.set_aside:
        with suppress(OSError):
            bound_aside(lake.landing)
    items = [item for item, reason in faults.items() if not reason]
    if not items:
        return []
    known = _present(lake, items)
    new = [item for item in items if item.snapshot_id not in known]
    finished = lake.landing.each(lambda item: item.is_finished, new)
    return [item for item, is_finished in zip(new, finished, strict=True) if is_finished]


def _load_batch(lake: Lake, batch: Sequence[Landed], report: Loaded) -> None:
    headers: list[pa.Table] = []
    data: dict[str, list[pa.Table]] = {table.name: [] for table in DATA_TABLES}
    loaded = []
    for item in batch:
        try:
            tables = _read_whole(item)
        except StructureError as error:
            loaded.append(item.snapshot_id)
            report.rejected[item.snapshot_id] = str(error)
            headers.append(_rejected_header(item, str(error)))
            continue
        if tables is None:
            continue
        loaded.append(item.snapshot_id)
        headers.append(tables.pop(raw.SNAPSHOTS.name))
        for name, rows in tables.items():
            data[name].append(rows)
    for table in DATA_TABLES:
        if data[table.name]:
            rows = pa.concat_tables(data[table.name])
            report.rows[table.name] += lake.append(table, rows, _missing(table, batch))
    if headers:
        report.rows[raw.SNAPSHOTS.name] += lake.upsert(raw.SNAPSHOTS, pa.concat_tables(headers))
    report.snapshots += loaded


def _read_whole(item: Landed) -> dict[str, pa.Table] | None:
    """Return the result of `read_landed`; None for a snapshot that is removed meanwhile.

    A collector that had no response to the last file of a snapshot removes it, and lands it again
    later. A rejected snapshot is never read again, so a file counts as damaged only in a snapshot
    that is finished before and after it was read.

    Raises:
        StructureError, RefusedError: as `read_landed`.
    """
    try:
        return read_landed(item)
    except StructureError:
        return read_landed(item) if item.is_finished else None


def read_landed(item: Landed) -> dict[str, pa.Table]:
    """Return the files of a landed snapshot with their tables' columns, by full name.

    ``raw.snapshots`` is always among them and gets its ``brokers_read`` and ``keys_read``.

    Raises:
        StructureError: when a file cannot be read, lacks a key column, holds another type, or is
            of another snapshot.
        RefusedError: when an object store refuses one; it is read again when that is over.
    """
    tables = {}
    for name, path in item.files().items():
        try:
            # Not pq.read_table: it would read the folders above as partition columns.
            with item.open(path) as file:
                result = pq.ParquetFile(file).read()
        except RefusedError:
            raise
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise StructureError(f"{path.name} is not readable Parquet: {reason}") from error
        tables[name] = conform(TABLES[name], result, path.name)
        _check_identity(item, tables[name], path.name)
    header = tables.get(raw.SNAPSHOTS.name)
    if header is None or header.num_rows != 1:
        rows = "is missing" if header is None else f"has {header.num_rows} rows"
        raise StructureError(f"snapshots.parquet {rows}; it must hold the snapshot's one row")
    read = {"brokers_read": _brokers_read(header, tables), "keys_read": _keys_read(tables)}
    for name, value in read.items():
        position = header.column_names.index(name)
        field_ = header.schema.field(position)
        header = header.set_column(position, field_, pa.array([value], type=field_.type))
    tables[raw.SNAPSHOTS.name] = header
    for name, rows in tables.items():
        _check_instants(item, rows, name)
    observed_at = header["observed_at"][0]
    instant = observed_at if observed_at.is_valid else pa.scalar(item.observed_at, observed_at.type)
    return {name: _with_instant(rows, instant) for name, rows in tables.items()}


def _with_instant(rows: pa.Table, instant: pa.Scalar) -> pa.Table:
    """Give rows without an instant that of their snapshot; no window would ever hold them."""
    position = rows.column_names.index("observed_at")
    filled = pc.fill_null(rows.column(position), instant)
    return rows.set_column(position, rows.schema.field(position), filled)


def conform(table: Table, value: pa.Table, file: str) -> pa.Table:
    """Return the declared columns; absent ones are NULL, unknown ones are dropped.

    Args:
        table: the declaration.
        value: the rows of the file.
        file: the file's name, for the message.

    Raises:
        StructureError: when a key column is absent or a column cannot be cast without loss.
    """
    columns = []
    for field_ in table.arrow_schema():
        if field_.name not in value.column_names:
            if field_.name in table.required:
                raise StructureError(f"{file} has no column {field_.name}")
            columns.append(pa.nulls(value.num_rows, field_.type))
            continue
        column = value.column(field_.name)
        try:
            columns.append(_cast(column, field_.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise StructureError(
                f"{file}: column {field_.name} is {column.type}, not {type_text(field_.type)}"
            ) from error
    return pa.table(columns, schema=table.arrow_schema())


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Cast without loss, except for nanoseconds of instants."""
    result = column.type
    if pa.types.is_timestamp(wanted):
        if not pa.types.is_timestamp(result):
            raise pa.ArrowInvalid("not a timestamp")
        # An instant without a zone is taken for UTC; nanoseconds are cut, not refused.
        return pc.cast(column, pa.timestamp("us", result.tz or "UTC"), safe=False).cast(wanted)
    if pa.types.is_string(wanted) and not (
        pa.types.is_string(result)
        or pa.types.is_large_string(result)
        or pa.types.is_null(result)
        or pa.types.is_string_view(result)
        or pa.types.is_dictionary(result)
    ):
        raise pa.ArrowInvalid("not text")
    return column.cast(wanted)


def _check_identity(item: Landed, rows: pa.Table, file: str) -> None:
    """Reject a file of another snapshot, which would be loaded again and again under its id."""
    foreign = rows["snapshot_id"].drop_null().unique().to_pylist()
    if any(entry != item.snapshot_id for entry in foreign):
        raise StructureError(f"{file} holds rows of {foreign[0]}, its folder is {item.snapshot_id}")


def _check_instants(item: Landed, rows: pa.Table, table: str) -> None:
    """Reject rows of another time than their folder's: no window of this snapshot holds them."""
    # Compared as Arrow's values: Python has no instant after the year 9999.
    first, last = (
        pa.scalar(item.observed_at + side * SLACK, rows["observed_at"].type) for side in (-1, 1)
    )
    is_outside = pc.or_(
        pc.less(rows["observed_at"], first),
        pc.greater(rows["observed_at"], last),
    )
    if pc.any(is_outside).as_py():
        raise StructureError(
            f"{table} has rows of another time than {item.observed_at:%Y-%m-%dT%H:%M:%SZ}"
        )


def _brokers_read(header: pa.Table, tables: dict[str, pa.Table]) -> list[str]:
    """Return the broker groups whose offsets the snapshot holds.

    A broker whose committed offsets could not be read has queue rows and no consumer rows, so it is
    left out. Where it has consumer rows, the problem concerns single offsets or a slave.
    """
    if header["source"][0].as_py() == SnapshotSource.LOCAL_OFFSETS:
        return sorted(name for name in _brokers(tables.get(raw.CONSUMER_OFFSETS.name)) if name)
    read = _brokers(tables.get(raw.QUEUE_OFFSETS.name))
    failed = {
        problem["endpoint"]
        for problem in header["problems"][0].as_py() or []
        if (problem["operation"] or "").startswith("GET_ALL_CONSUMER_OFFSET")
    }
    brokers = tables.get(raw.BROKERS.name)
    if failed and brokers is not None:
        reported = _brokers(tables.get(raw.CONSUMER_OFFSETS.name), ~OF_CLIENTS)
        # A broker read from its store has the folder for an address, its problems files in it.
        addresses = {str(place) for at in failed for place in (at, *PurePath(at).parents)}
        named = {row["broker"] for row in brokers.to_pylist() if row["address"] in addresses}
        read -= named - reported
    return sorted(name for name in read if name)


def _brokers(rows: pa.Table | None, where: pc.Expression | None = None) -> set[str]:
    if rows is None:
        return set()
    return set((rows if where is None else rows.filter(where))["broker"].unique().to_pylist())


def _keys_read(tables: dict[str, pa.Table]) -> str:
    """Return a digest of the keys in the order of the files; another order changes it."""
    digest = hashlib.blake2b(digest_size=16)
    for table in (raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS):
        if table.name in tables:
            keys = tables[table.name].select([name for name in table.key if name != "snapshot_id"])
            for batch in keys.combine_chunks().to_batches():
                digest.update(batch.serialize())
    return digest.hexdigest()


def _rejected_header(item: Landed, reason: str) -> pa.Table:
    row: dict[str, Any] = {
        "snapshot_id": item.snapshot_id,
        "cluster": item.cluster,
        "source": SnapshotSource.REMOTE,
        "observed_at": item.observed_at,
        "status": SnapshotStatus.FAILED,
        "problems": [{"endpoint": "landing", "operation": "LOAD", "code": None, "message": reason}],
        "brokers_read": [],
    }
    return raw.SNAPSHOTS.arrow_table([row])


def _present(lake: Lake, items: Sequence[Landed]) -> set[str]:
    """Return the ids of landed snapshots that are loaded."""
    result = lake.read(raw.SNAPSHOTS, _of(raw.SNAPSHOTS, items), columns=("snapshot_id",))
    return set(result["snapshot_id"].unique().to_pylist())


def _missing(table: Table, items: Sequence[Landed]) -> Callable[[IcebergTable, pa.Table], pa.Table]:
    """Return a filter that leaves out rows of snapshots that a version of a table already has.

    A run that was stopped, and continues without its lease, may have added them just now.
    """
    where = _of(table, items)

    def missing(newest: IcebergTable, rows: pa.Table) -> pa.Table:
        with usable(table.name):
            arrow = newest.scan(row_filter=where, selected_fields=("snapshot_id",)).to_arrow()
        ids = rows["snapshot_id"]
        present = pa.array(arrow["snapshot_id"].unique().to_pylist(), ids.type)
        is_present = pc.is_in(ids, value_set=present)
        return rows.filter(pc.invert(is_present))

    return missing


def _of(table: Table, items: Sequence[Landed]) -> BooleanExpression:
    """Return the condition of rows that may be of landed snapshots."""
    instants = [item.observed_at for item in items]
    window = Window(min(instants) - SLACK, max(instants) + SLACK)
    where = window_filter(table, window)
    if len(items) <= BATCH:
        where = all_of(where, one_of("snapshot_id", (item.snapshot_id for item in items)))
    return where
