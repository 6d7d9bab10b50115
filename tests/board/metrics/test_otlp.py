"""Samples by OTLP, to a receiver that parses the protocol: the same as those of ``/metrics``."""

import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home, metrics_home
from tests.support.lake_copies import copied
from tests.support.scrape import ALL_FAMILIES, Samples, scraped, value
from tidemark.board.application import application
from tidemark.board.metrics import otlp
from tidemark.board.metrics.endpoint import ExportOutcome, Exports, Facts, Metrics
from tidemark.board.metrics.exposition import COUNTER, GAUGE, Metric, SourceRows
from tidemark.board.metrics.otlp import OtlpExporter
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.settings.basics import SettingsError
from tidemark.settings.home import Home
from tidemark.settings.sections import OtlpSettings

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otlp is missing")

from tests.support.otlp_receiver import Receiver, receiving

EXPORTS = "tidemark_otlp_exports_total"

AGE = "tidemark_snapshot_age_seconds"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture(scope="module")
def lake(empty_lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A home with a value for every metric."""
    made = copied(empty_lake, Home.of(tmp_path_factory.mktemp("otlp") / "home"))
    metrics_home.fill(made, board_home.now())
    return made


def settings(address: str, headers_file: Path | None = None, seconds: int = 3600) -> OtlpSettings:
    return OtlpSettings(endpoint=address, headers_file=headers_file, seconds=seconds)


def without_empty_labels(samples: Samples) -> Samples:
    return {
        name: {frozenset(it for it in labels if it[1]): number for labels, number in rows.items()}
        for name, rows in samples.items()
    }


def until(check, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not check() and time.monotonic() < end:
        time.sleep(0.05)
    assert check()


def few(value: float | None = 1.0) -> list[SourceRows]:
    metric = Metric(name="a", help="A.", column="", value="a")
    return [SourceRows((), (), [(metric, [value])])]


@pytest.mark.slow
def test_the_samples_are_those_of_a_scrape(lake: Lake, receiver: Receiver) -> None:
    board = application(Store(lake), ALL_FAMILIES, otlp=settings(receiver.address, seconds=1))
    with TestClient(board, base_url="http://127.0.0.1") as client:
        until(lambda: receiver.requests)
        sent = Receiver(requests=receiver.requests[:1]).samples()
        page = client.get("/metrics").text
        until(lambda: value(scraped(client.get("/metrics").text), EXPORTS, outcome="delivered"))
    scrape = without_empty_labels(scraped(page))
    assert len(sent) > 60 and sent.keys() == scrape.keys()
    for name in sent.keys() - {EXPORTS, AGE}:
        assert sent[name] == scrape[name], name
    assert sent[AGE].keys() == scrape[AGE].keys()
    (request,) = receiver.requests[:1]
    (of_resource,) = request.resource_metrics
    attributes = {it.key: it.value.string_value for it in of_resource.resource.attributes}
    assert attributes["service.name"] == "tidemark" and attributes["service.version"]
    assert set(receiver.paths) == {"/v1/metrics"}


@pytest.mark.slow
def test_a_collector_that_is_down_is_counted_and_disturbs_nothing(
    lake: Lake, monkeypatch, caplog
) -> None:
    """It is logged once, and once more when it is back."""
    monkeypatch.setattr(otlp, "SECONDS", 2.5)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    caplog.set_level(logging.WARNING)
    down = settings(f"http://127.0.0.1:{port}", seconds=1)
    with TestClient(application(Store(lake), otlp=down), base_url="http://127.0.0.1") as client:

        def exported(outcome: str) -> float:
            return value(scraped(client.get("/metrics").text), EXPORTS, outcome=outcome) or 0

        until(lambda: exported("failed") >= 2)
        assert client.get("/healthz").status_code == 200
        assert exported("delivered") == 0
        with receiving(port):
            until(lambda: exported("delivered") >= 1)
    lines = [record.getMessage() for record in caplog.records if "opentel" not in record.name]
    assert [line for line in lines if "not delivered to" in line] == [lines[0]], lines
    assert "refused" in lines[0] and "Failed to export" in lines[0], lines
    assert lines[1:] == [f"metrics are delivered to http://127.0.0.1:{port} again"]
    assert not [it for it in caplog.records if it.name.startswith("opentelemetry")]


@pytest.mark.slow
def test_a_collector_that_never_responds_does_not_keep_the_board(lake: Lake) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"http://127.0.0.1:{mute.getsockname()[1]}"
        board = application(Store(lake), otlp=settings(address))
        with TestClient(board, base_url="http://127.0.0.1") as client:
            mute.settimeout(60)
            connection, _ = mute.accept()
            assert client.get("/metrics").status_code == 200
            ends = time.monotonic()
        assert time.monotonic() - ends < otlp.SECONDS / 2
        connection.close()


@pytest.mark.parametrize("status", [400, 401, 413])
def test_a_refusal_is_a_failure_with_its_reason(receiver: Receiver, status: int, caplog) -> None:
    receiver.status = status
    exports = Exports()
    OtlpExporter(settings(receiver.address), few, exports).export()
    (line,) = [record.getMessage() for record in caplog.records]
    assert receiver.address in line and str(status) in line
    assert exports._counts == {ExportOutcome.FAILED: 1}


def test_unknown_is_no_sample_and_a_counter_is_a_sum(receiver: Receiver) -> None:
    gauge = Metric(name="lag", help="Lag.", column="", value="lag")
    counter = Metric(name="sent_total", help="Sent.", column="", value="sent", kind=COUNTER)
    hostile = 'a\nb"c\\ <script>'
    rows = SourceRows(
        ("group", "team"),
        (["a", "b", hostile], ["", "x", ""]),
        [(gauge, [0.0, None, 2.5]), (counter, [None, 7, None])],
    )
    OtlpExporter(settings(receiver.address), lambda: [rows, *few(None)], Exports()).export()
    assert receiver.samples() == {
        "lag": {frozenset({("group", "a")}): 0.0, frozenset({("group", hostile)}): 2.5},
        "sent_total": {frozenset({("group", "b"), ("team", "x")}): 7},
    }
    kinds = {it.name: it.WhichOneof("data") for it in receiver.metrics()}
    assert kinds == {"lag": GAUGE, "sent_total": "sum"}
    (total,) = [it.sum for it in receiver.metrics() if it.name == "sent_total"]
    assert total.is_monotonic and total.aggregation_temporality == 2, "cumulative"


@pytest.mark.parametrize("most", [1, 3, 7, 100])
def test_requests_are_bounded_and_lose_nothing(receiver: Receiver, monkeypatch, most: int) -> None:
    monkeypatch.setattr(otlp, "POINTS", most)
    metrics = [Metric(name=name, help="A.", column="", value=name) for name in "abc"]
    texts = [str(number) for number in range(7)]
    values = [float(number) for number in range(7)]
    rows = SourceRows(("n",), (texts,), [(metric, values) for metric in metrics])
    OtlpExporter(settings(receiver.address), lambda: [rows], Exports()).export()
    sizes = [
        sum(len(it.gauge.data_points) for it in Receiver(requests=[request]).metrics())
        for request in receiver.requests
    ]
    assert max(sizes) <= most and sum(sizes) == 21
    samples = receiver.samples()
    assert {name: len(rows) for name, rows in samples.items()} == {"a": 7, "b": 7, "c": 7}


def test_headers_are_read_at_each_export(receiver: Receiver, tmp_path: Path, caplog) -> None:
    """A token that changes needs no restart; without a readable file nothing is sent."""
    file = tmp_path / "headers"
    file.write_text("# of the collector\nAuthorization: Bearer first\nx-scope: a b\n\n")
    exporter = OtlpExporter(settings(receiver.address + "/v1/metrics", file), few, Exports())
    exporter.export()
    file.write_text("Authorization: Bearer second\n")
    exporter.export()
    file.unlink()
    exporter.export()
    tokens = [headers.get("authorization") for headers in receiver.headers]
    assert tokens == ["Bearer first", "Bearer second"]
    assert receiver.headers[0]["x-scope"] == "a b"
    assert "TIDEMARK_OTLP_HEADERS_FILE" in caplog.text and "second" not in caplog.text


@pytest.mark.parametrize("line", ["Authorization Bearer s3cret", "a: s3cret\x07", ": s3cret"])
def test_a_line_that_is_no_header_is_named_without_its_value(tmp_path: Path, line: str) -> None:
    file = tmp_path / "headers"
    file.write_text(f"a: b\n{line}\n")
    with pytest.raises(SettingsError) as refused:
        settings("http://h", file).headers()
    assert "line 2: NAME: VALUE is wanted" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_rows_of_many_are_kept_for_exports_alone(lake: Lake) -> None:
    store = Store(lake)
    store.refresh()
    for exports in (None, Exports()):
        metrics = Metrics(ALL_FAMILIES, exports)
        metrics.refresh(store.newest.rows, Facts())
        names = {metric.name for rows in metrics.rows() for metric, _ in rows.values}
        assert ("tidemark_group_health" in names) is (exports is not None)
