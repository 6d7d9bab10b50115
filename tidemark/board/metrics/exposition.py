"""Families of metrics and the text of ``/metrics``: small sources and large ones line by line.

prometheus_client takes 8 µs for each sample: 20,000 groups would take seconds for each scrape.
The sources that change only with a table are written once for each change, with one text of
labels for all metrics of a row, and kept compressed. The compressed halves join to one gzip
stream: some clients read only the first of several.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import duckdb
import pyarrow as pa
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from tidemark.lake.schema import Table
from tidemark.lake.tables import alerting, progress, raw
from tidemark.settings.owners import Owners

GAUGE = "gauge"
COUNTER = "counter"

NATIVE = "native"
EXPORTER = "exporter"
OWN = "own"
QUEUES = "queues"
FAMILIES = {
    NATIVE: "the names that brokers of RocketMQ 5.5 export",
    EXPORTER: "the names of rocketmq-exporter",
    OWN: "names of Tidemark's own",
    QUEUES: "a series for each queue of each group; off unless switched on",
}
"""The families of metrics that a setting switches, each with its contents."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        name: its name; of a counter it ends in ``_total``.
        help: one sentence with the unit.
        column: where its values are from, as documentation names it: table and column.
        value: the column of the source's SELECT that holds its values; NULL is no sample.
        kind: ``gauge`` | ``counter``.
    """

    name: str
    help: str
    column: str
    value: str
    kind: str = GAUGE


@dataclass(frozen=True, kw_only=True)
class Source:
    """The rows that several metrics take their samples from: one row for each set of labels.

    Attributes:
        family: one of `FAMILIES`.
        labels: names of the labels in order; columns of the SELECT.
        select: SQL over the newest rows of the tables.
        metrics: the metrics.
        cluster_if_several: whether ``cluster`` becomes the first label where there are rows of
            several clusters. rocketmq-exporter supports one cluster only, so some of its metrics
            lack that label and would collide.
        team_if_owned: whether ``team`` becomes the last label where groups have owners; the SELECT
            has ``cluster`` and ``consumer_group``. Without an owner it is empty, which Prometheus
            takes for no label.
    """

    family: str
    labels: Sequence[str]
    select: str
    metrics: Sequence[Metric]
    cluster_if_several: bool = False
    team_if_owned: bool = False


def metrics_of(sources: Sequence[Source]) -> Iterator[tuple[Source, Metric]]:
    """Yield every metric with its source, in order."""
    for source in sources:
        for metric in source.metrics:
            yield source, metric


TABLES: tuple[Table, ...] = (
    progress.SNAPSHOTS,
    progress.GROUPS,
    progress.QUEUES,
    progress.TOPICS,
    progress.OBJECTIVES,
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
        self._has_teams = False

    def __enter__(self) -> "Samples":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, name: str, rows: pa.Table) -> None:
        """Register rows that no table contains."""
        self._database.register(name, rows)

    def set_owners(self, owners: Owners) -> None:
        """Register the teams of groups."""
        if not owners.teams:
            return
        self._has_teams = True
        names = [name_in_sql(table) for table in TABLES if "consumer_group" in table.column_names]
        pairs = " UNION ".join(f"SELECT cluster, consumer_group FROM {name}" for name in names)
        dead = "SELECT cluster, substr(topic, length('%DLQ%') + 1) FROM progress_topics"
        dead = f"{dead} WHERE starts_with(topic, '%DLQ%')"
        groups = self._database.sql(f"{pairs} UNION {dead}").to_arrow_table()
        of_groups = zip(
            groups["cluster"].to_pylist(), groups["consumer_group"].to_pylist(), strict=True
        )
        teams = pa.array([owners.team_of(*pair) or "" for pair in of_groups], pa.string())
        self.add("group_teams", groups.append_column("team", teams))

    def set_clock(self, now: datetime) -> None:
        """Register the instant that ages are computed for."""
        self.add("clock", pa.table({"instant": pa.array([now], pa.timestamp("us", tz="UTC"))}))

    def rows(self, source: Source) -> SourceRows:
        """Return the rows of a source; samples without a value are None."""
        labels, select = source.labels, source.select
        if source.team_if_owned and self._has_teams:
            labels = (*labels, "team")
            select = f"SELECT * FROM ({select}) JOIN group_teams USING (cluster, consumer_group)"
        arrow_table = self._database.sql(select).to_arrow_table()
        if source.cluster_if_several and self._several:
            labels = ("cluster", *labels)
        label_texts = [_texts(arrow_table[label]) for label in labels]
        values = {name: arrow_table[name].to_pylist() for name in {m.value for m in source.metrics}}
        return SourceRows(labels, label_texts, [(m, values[m.value]) for m in source.metrics])


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


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

LEVEL = 1
"""The cheapest level of compression; labels repeat so much that it leaves a tenth."""

_GZIP = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"  # deflate, no name, no time, fastest, any system


class Page(NamedTuple):
    """One response to a scrape.

    Attributes:
        content_type: media type, as the client requested.
        encoding: ``gzip``, or empty.
        body: the text, compressed or not.
    """

    content_type: str
    encoding: str
    body: bytes


class _Families(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        yield from self._families


class Lines:
    """The lines of gauges, the same in both formats, kept as they are sent: compressed."""

    def __init__(self, rows: Iterable[SourceRows] = ()) -> None:
        """Write the lines of the rows, never all of them at once."""
        compressor = zlib.compressobj(LEVEL, wbits=-zlib.MAX_WBITS)
        self._crc = zlib.crc32(b"")
        self._length = 0
        parts = []
        for lines in _lines(rows):
            text = lines.encode()
            self._crc = zlib.crc32(text, self._crc)
            self._length += len(text)
            parts.append(compressor.compress(text))
        # A full flush ends at a byte, and no byte after it refers to one before.
        parts.append(compressor.flush(zlib.Z_FULL_FLUSH))
        self._deflated = b"".join(parts)

    @property
    def text(self) -> bytes:
        """The lines; few clients take them uncompressed."""
        return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(self._deflated)

    def gzip_with(self, rest: bytes) -> bytes:
        """Return these lines and the lines after them as one gzip stream."""
        compressor = zlib.compressobj(LEVEL, wbits=-zlib.MAX_WBITS)
        deflated = compressor.compress(rest) + compressor.flush()
        length = (self._length + len(rest)) % 2**32
        end = struct.pack("<II", zlib.crc32(rest, self._crc), length)
        return b"".join((_GZIP, self._deflated, deflated, end))


def page(kept: Lines, few: Iterable[Family], accept: str, accept_encoding: str) -> Page:
    """Return the page in the format and encoding that a client accepts.

    Args:
        kept: the lines of large sources.
        few: metric families of small sources.
        accept: the header ``Accept``: OpenMetrics where it names that, else Prometheus text.
        accept_encoding: the header ``Accept-Encoding``.
    """
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(few))
    rest: bytes = encode(registry)
    if "gzip" in accept_encoding:
        return Page(content_type, "gzip", kept.gzip_with(rest))
    return Page(content_type, "", kept.text + rest)


def _lines(rows: Iterable[SourceRows]) -> Iterator[str]:
    for source in rows:
        labels = _label_texts(source)
        for metric, values in source.values:
            name = metric.name
            yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
            yield "".join(
                f"{name}{label} {value}\n"
                for label, value in zip(labels, values, strict=True)
                if value is not None
            )


def _label_texts(source: SourceRows) -> list[str]:
    columns = [
        _escaped(label, texts)
        for label, texts in zip(source.labels, source.label_texts, strict=True)
    ]
    return [f"{{{','.join(row)}}}" for row in zip(*columns, strict=True)]


def _escaped(label: str, texts: list[str]) -> list[str]:
    written = {text: f'{label}="{text.translate(_ESCAPES)}"' for text in set(texts)}
    return [written[text] for text in texts]
