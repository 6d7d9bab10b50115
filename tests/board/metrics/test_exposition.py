"""The page in both formats, compressed or not, whatever the names hold."""

import gzip
import zlib

import pytest

from tests.support.scrape import ALL_FAMILIES, scraped, value
from tests.support.table_rows import arrow
from tidemark.board.metrics.endpoint import KEPT, SOURCES, Facts, Metrics
from tidemark.board.metrics.exposition import (
    COUNTER,
    FAMILIES,
    Lines,
    Samples,
    families,
    metrics_of,
    page,
)
from tidemark.lake.tables import TABLES, progress
from tidemark.settings.sections import MetricsSettings

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

HOSTILE = [
    '<script>alert("1")</script>',
    "back\\slash",
    'quote"quote',
    "line\nbreak",
    "\x1b[31mred",
    "\u202eright-to-left",
    "{{7*7}}",
    "'; DROP TABLE groups; --",
    "名前",
    "t" * 255,
]


def tables(*names):
    rows = [
        {"at": 1, "consumer_group": name, "topic": f"{name}-topic", "complete": True}
        | {"lag": number, "delay_ms": 10, "health": "OK", "lost": 2**60, "drain_seconds": 1e-7}
        for number, name in enumerate(names)
    ]
    return {"progress.groups": arrow(progress.GROUPS, rows)}


def refreshed(*names):
    metrics = Metrics(ALL_FAMILIES)
    metrics.refresh(tables(*names), Facts(version="1"))
    return metrics


@pytest.mark.parametrize(("accept", "is_openmetrics"), [("", False), (OPENMETRICS, True)])
def test_hostile_names_are_text(accept, is_openmetrics):
    result = refreshed(*HOSTILE).page(accept)
    assert result.content_type.startswith(
        "application/openmetrics-text" if is_openmetrics else "text/plain"
    )
    samples = scraped(result.body.decode(), is_openmetrics)
    for number, name in enumerate(HOSTILE):
        labels = {"consumer_group": name, "topic": f"{name}-topic"}
        assert value(samples, "rocketmq_consumer_lag_messages", **labels) == number


def test_both_formats_have_the_same_samples():
    metrics = refreshed("g", "h")
    text = scraped(metrics.page().body.decode())
    opened = scraped(metrics.page(OPENMETRICS).body.decode(), is_openmetrics=True)
    # The age of the newest snapshot would differ; there is none here.
    assert text == opened


def test_the_compressed_page_is_the_page():
    metrics = refreshed("g", "h")
    plain, packed = metrics.page(), metrics.page(accept_encoding="gzip, deflate")
    assert (plain.encoding, packed.encoding) == ("", "gzip")
    assert gzip.decompress(packed.body) == plain.body
    single = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    assert single.decompress(packed.body) == plain.body and not single.unused_data


def test_lines_are_what_prometheus_client_writes():
    with Samples(tables("g", *HOSTILE)) as samples:
        rows = [samples.rows(source) for source in KEPT]
    ours = scraped(Lines(rows).text.decode())
    theirs = scraped(page(Lines(), families(rows), "", "").body.decode())
    assert ours == theirs and ours["tidemark_group_drain_seconds"]


def test_before_the_first_refresh_the_page_is_empty():
    assert Metrics(MetricsSettings()).page().body == b""


def test_declarations():
    names = [metric.name for _, metric in metrics_of(SOURCES)]
    assert len(names) == len(set(names))
    for source, metric in metrics_of(SOURCES):
        assert source.family in FAMILIES
        assert metric.help.endswith(".") and not set('"\\\n') & set(metric.help)
        assert metric.kind != COUNTER or metric.name.endswith("_total"), metric.name
        table = ".".join(metric.column.split(".")[:2])
        assert table in TABLES or metric.column in ("", "every table"), metric
        if metric.column.count(".") == 2:
            assert metric.column.split(".")[2] in TABLES[table].column_names, metric


def test_what_is_kept_as_lines_are_gauges():
    """Counters have another header in OpenMetrics."""
    assert {metric.kind for _, metric in metrics_of(KEPT)} == {"gauge"}
