"""Samples of metrics from the newest rows: one query for each source."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb
import pyarrow as pa
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family

from board.metrics.declaration import COUNTER, Metric, Source
from lake.schema import Table
from lake.tables import alerting, progress, raw

TABLES: tuple[Table, ...] = (
    progress.SNAPSHOTS,
    progress.GROUPS,
    progress.QUEUES,
    progress.TOPICS,
    raw.SNAPSHOTS,
    raw.BROKERS,
    raw.QUEUE_OFFSETS,
    raw.CONSUMER_GROUPS,
    raw.CLIENTS,
    raw.CLIENT_TOPICS,
    raw.BROKER_STATS,
    alerting.INCIDENTS,
    alerting.NOTIFICATIONS,
)
"""The tables whose newest rows the metrics are read from."""


@dataclass(frozen=True)
class SourceRows:
    """The rows of one source.

    Attributes:
        labels: names of the labels.
        label_texts: by label, a text for each row.
        values: by metric, a number or None for each row.
    """

    labels: Sequence[str]
    label_texts: Sequence[list[str]]
    values: Sequence[tuple[Metric, list[float | None]]]


def name_in_sql(table: Table) -> str:
    """Return the name of a table in the SELECT of a source."""
    return table.name.replace(".", "_")


class Samples:
    """A database in memory that holds the newest rows while they are turned into samples."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        """Register the rows.

        Args:
            tables: the newest rows by the name of their table. A table, or a column, that is
                missing counts as empty, as in a home of another version.
        """
        self._database = duckdb.connect()
        self._database.execute("SET TimeZone = 'UTC'")
        for table in TABLES:
            self._database.register(name_in_sql(table), _declared(table, tables.get(table.name)))
        clusters = "SELECT DISTINCT cluster FROM progress_snapshots"
        self._several = len(self._database.execute(clusters).fetchall()) > 1

    def __enter__(self) -> "Samples":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, name: str, rows: pa.Table) -> None:
        """Register rows that no table contains."""
        self._database.register(name, rows)

    def set_clock(self, now: datetime) -> None:
        """Register the instant that ages are computed for."""
        self.add("clock", pa.table({"instant": pa.array([now], pa.timestamp("us", tz="UTC"))}))

    def rows(self, source: Source) -> SourceRows:
        """Return the rows of a source; samples without a value are None."""
        found = self._database.sql(source.select).to_arrow_table()
        labels = source.labels
        if source.cluster_if_several and self._several:
            labels = ("cluster", *labels)
        texts = [_texts(found[label]) for label in labels]
        values = {name: found[name].to_pylist() for name in {m.value for m in source.metrics}}
        return SourceRows(labels, texts, [(m, values[m.value]) for m in source.metrics])


def families(rows: Iterable[SourceRows]) -> Iterator[Family]:
    """Yield the metric families of prometheus_client, one for each metric."""
    for source in rows:
        labels = list(zip(*source.label_texts, strict=True)) if source.labels else None
        for metric, values in source.values:
            made = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
            family = made(metric.name, metric.help, labels=source.labels)
            for number, value in enumerate(values):
                if value is not None:
                    family.add_metric(labels[number] if labels else (), float(value))
            yield family


def _texts(column: pa.ChunkedArray) -> list[str]:
    return ["" if text is None else text for text in column.cast(pa.string()).to_pylist()]


def _declared(table: Table, rows: pa.Table | None) -> pa.Table:
    schema = table.arrow_schema()
    if rows is None:
        return schema.empty_table()
    present = set(rows.column_names)
    columns = [
        rows[field.name] if field.name in present else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, names=schema.names)
