"""A snapshot that Spark tasks share: for a cluster that one process cannot read in its interval.

Every task reads some of the brokers, types and checks their responses, and returns rows as Arrow;
landing them makes the same files as a snapshot of one process does.
"""

import asyncio
import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException

from collection.snapshots import ReadError
from lake.landing import arrow_tables
from rocketmq.collector import collect, collect_snapshot
from rocketmq.records import TABLES, Snapshot
from rocketmq.snapshot.sharing import Exchange, Share
from rocketmq.snapshot.target import ClusterTarget
from rocketmq.wire.security import PLAIN
from settings.clusters import Cluster
from spark.session.configuration import SparkResource
from spark.session.parallel_tasks import together

SCHEMA = "table string, content binary"
"""Rows of a table as an Arrow stream; of no table the pickled rest of a part's snapshot."""

NO_TABLE = ""

OBJECTS = ("brokers",)
"""Tables whose rows are also wanted as objects: a collector remembers who answered."""


@dataclass(frozen=True)
class SharedSnapshots:
    """Reads clusters with ``spark_tasks`` in Spark, and all others in this process.

    Attributes:
        spark: whose session is opened when it is first needed.
    """

    spark: SparkResource

    async def __call__(self, cluster: Cluster, target: ClusterTarget) -> Snapshot:
        """Take one snapshot.

        Raises:
            ReadError: Spark has fewer slots than tasks, or a task died.
        """
        if cluster.spark_tasks == 1:
            return await collect(target)
        return await asyncio.to_thread(self._collect, cluster, target)

    def _collect(self, cluster: Cluster, target: ClusterTarget) -> Snapshot:
        # Secrets are not sent: a task finds them where the settings point, as this process did.
        work = partial(_part, cluster, replace(target, security=PLAIN))
        try:
            found = together(self.spark.spark_session, cluster.spark_tasks, work, SCHEMA)
        except PySparkException as error:
            reason = str(error).strip().splitlines()[0]
            raise ReadError(f"{cluster.spark_tasks} tasks of Spark: {reason}"[:300]) from error
        return _joined(found)


def _part(
    cluster: Cluster, target: ClusterTarget, index: int, count: int, exchange: Exchange
) -> Iterator[pa.RecordBatch]:
    """What one task reads."""
    target = replace(target, security=cluster.security(os.environ))
    snapshot = collect_snapshot(target, Share(index, count, exchange))
    for table in TABLES:
        if table not in OBJECTS:
            for content in arrow_tables(snapshot, table):
                yield _row(table, _stream(content))
            getattr(snapshot, table).clear()
    yield _row(NO_TABLE, pickle.dumps(snapshot))


def _joined(parts: pa.Table) -> Snapshot:
    """One snapshot of all parts, with the rows of most tables as columns."""
    snapshots: list[Snapshot] = []
    columns: dict[str, list[pa.Table]] = {}
    for table, content in zip(*(parts[name] for name in ("table", "content")), strict=True):
        if table.as_py() == NO_TABLE:
            snapshots.append(pickle.loads(content.as_buffer()))
        else:
            with pa.ipc.open_stream(content.as_buffer()) as stream:
                columns.setdefault(table.as_py(), []).append(stream.read_all())
    whole, *others = snapshots
    for table in OBJECTS:
        for other in others:
            getattr(whole, table).extend(getattr(other, table))
    whole.columns = {
        table: [dict(zip(part.column_names, part.columns, strict=True)) for part in found]
        for table, found in columns.items()
    }
    return whole


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def _row(table: str, content: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"table": [table], "content": [content]})
