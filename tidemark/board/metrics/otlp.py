"""OTLP: the samples of ``/metrics``, sent to a collector of OpenTelemetry at intervals.

The SDK encodes, compresses, sends and tries again. It is an extra, so it is imported where it is
used.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

from tidemark.board.metrics.endpoint import ExportOutcome, Exports
from tidemark.board.metrics.exposition import COUNTER, Metric, SourceRows
from tidemark.host.failures import one_line
from tidemark.settings.sections import OtlpSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData, NumberDataPoint

PATH = "/v1/metrics"
"""Path of metrics behind the address of a collector, as the protocol has it."""

POINTS = 5000
"""Samples of a request at most, about 1 MB before compression; collectors bound what they take."""

SECONDS = 10.0
"""Longest time of a request with its repetitions."""

END_SECONDS = 1.0
"""Longest wait for an export when the board ends."""

_log = logging.getLogger(__name__)

_SDK = logging.getLogger("opentelemetry.exporter.otlp.proto.http")


class _Reasons(logging.Handler):
    """Keeps the first and the last line that the SDK logs; its result states no reason."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines = [*self._lines[:1], record.getMessage()]

    @property
    def text(self) -> str:
        """Why an export failed: the first line names the cause, the last what became of it."""
        return " ".join(dict.fromkeys(self._lines)) or "no reason is known"


class OtlpExporter:
    """Sends samples in a thread of its own; a collector that is down disturbs nothing else."""

    def __init__(
        self, settings: OtlpSettings, rows: Callable[[], Iterable[SourceRows]], exports: Exports
    ) -> None:
        """Nothing is sent yet.

        Args:
            settings: where samples are sent, and how often.
            rows: returns the samples as they are now.
            exports: counts what became of exports.
        """
        self._settings = settings
        self._rows = rows
        self._exports = exports
        self._ended = threading.Event()
        self._failed = False

    def start(self) -> Callable[[], None]:
        """Send at intervals in a thread; return a function that ends it."""
        thread = threading.Thread(target=self._follow, name="board-otlp", daemon=True)
        thread.start()

        def end() -> None:
            self._ended.set()
            # A collector that does not respond must not keep the board from ending.
            thread.join(timeout=END_SECONDS)

        return end

    def _follow(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            self.export()
            self._ended.wait(max(0.0, self._settings.seconds - (time.monotonic() - began)))

    def export(self) -> None:
        """Send all samples once, count the outcome, and log a change of it in one line."""
        try:
            reason = self._sent()
        # Whatever the error is, the board serves on and the next interval tries again.
        except Exception as error:
            reason = one_line(error)
        self._exports.count(ExportOutcome.FAILED if reason else ExportOutcome.DELIVERED)
        if bool(reason) is not self._failed:
            self._failed = bool(reason)
            if reason:
                _log.warning("metrics are not delivered to %s: %s", self._settings.endpoint, reason)
            else:
                _log.warning("metrics are delivered to %s again", self._settings.endpoint)

    def _sent(self) -> str:
        """Send all samples; return why the collector did not take them, empty where it did.

        Raises:
            SettingsError: the file of headers cannot be read.
        """
        from opentelemetry.exporter.otlp.proto.http import Compression
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics.export import MetricExportResult

        # Made anew, because tokens in the file of headers may change.
        exporter = OTLPMetricExporter(
            endpoint=self._settings.endpoint.removesuffix("/").removesuffix(PATH) + PATH,
            headers=self._settings.headers(),
            timeout=SECONDS,
            compression=Compression.Gzip,
        )
        reasons = _Reasons()
        _SDK.addHandler(reasons)
        _SDK.propagate = False
        try:
            for data in batches(self._rows(), time.time_ns()):
                if self._ended.is_set():
                    return ""
                if exporter.export(data) is not MetricExportResult.SUCCESS:
                    return reasons.text
            return ""
        finally:
            _SDK.removeHandler(reasons)
            exporter.shutdown()


def batches(rows: Iterable[SourceRows], now: int) -> "Iterator[MetricsData]":
    """Yield samples as data of OpenTelemetry, at most `POINTS` at a time.

    Args:
        rows: the samples; one without a value is unknown, and no data point.
        now: the present instant in nanoseconds since 1970. Samples have no instants of their own.
    """
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Gauge,
        MetricsData,
        ResourceMetrics,
        ScopeMetrics,
        Sum,
    )
    from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    program = version("tidemark")
    resource = Resource.create({"service.name": "tidemark", "service.version": program})
    scope = InstrumentationScope("tidemark", program)

    def metric_of(metric: Metric, points: "list[NumberDataPoint]") -> OtlpMetric:
        data = (
            Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
            if metric.kind == COUNTER
            else Gauge(points)
        )
        return OtlpMetric(metric.name, metric.help, "", data)

    def made(metrics: list[OtlpMetric]) -> MetricsData:
        return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])

    batch: list[OtlpMetric] = []
    room = POINTS
    for metric, points in _points(rows, now):
        while len(points) > room:
            if room:
                batch.append(metric_of(metric, points[:room]))
            yield made(batch)
            batch, points, room = [], points[room:], POINTS
        if points:
            batch.append(metric_of(metric, points))
            room -= len(points)
    if batch:
        yield made(batch)


def _points(
    rows: Iterable[SourceRows], now: int
) -> "Iterator[tuple[Metric, list[NumberDataPoint]]]":
    """Yield each metric with its data points; an empty label is none, as for Prometheus."""
    from opentelemetry.sdk.metrics.export import NumberDataPoint

    for source in rows:
        texts = zip(*source.label_texts, strict=True) if source.labels else None
        labels = [
            {name: text for name, text in zip(source.labels, of_row, strict=True) if text}
            for of_row in texts or ()
        ]
        for metric, values in source.values:
            # The start of counters is 0, unknown: brokers do not report since when they count.
            yield (
                metric,
                [
                    NumberDataPoint(labels[number] if source.labels else {}, 0, now, value)
                    for number, value in enumerate(values)
                    if value is not None
                ],
            )
