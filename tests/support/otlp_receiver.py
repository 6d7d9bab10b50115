"""A collector of OpenTelemetry that takes metrics by OTLP over HTTP and keeps them."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from tests.support.scrape import Samples


@dataclass
class Receiver:
    """The requests that a collector has received."""

    address: str = ""
    status: int = 200
    requests: list[ExportMetricsServiceRequest] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def metrics(self) -> Iterator[Any]:
        for request in self.requests:
            for of_resource in request.resource_metrics:
                for of_scope in of_resource.scope_metrics:
                    yield from of_scope.metrics

    def samples(self) -> Samples:
        """Return the samples; a repeated one is an error."""
        samples: Samples = {}
        for metric in self.metrics():
            for point in getattr(metric, metric.WhichOneof("data")).data_points:
                labels = frozenset((it.key, it.value.string_value) for it in point.attributes)
                by_labels = samples.setdefault(metric.name, {})
                assert labels not in by_labels, (metric.name, labels)
                by_labels[labels] = getattr(point, point.WhichOneof("value"))
        return samples


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    """Receive at a port of this machine; any free one unless given."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.headers["Content-Type"] == "application/x-protobuf"
            receiver.paths.append(self.path)
            receiver.headers.append({name.lower(): text for name, text in self.headers.items()})
            if receiver.status == 200:
                receiver.requests.append(ExportMetricsServiceRequest.FromString(body))
            answer = ExportMetricsServiceResponse().SerializeToString()
            self.send_response(receiver.status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        receiver.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
