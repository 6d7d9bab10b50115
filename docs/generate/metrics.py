"""The page of metrics, from their declarations and the expressions that people already have."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from docs.generate.markdown import code, page, table
from tidemark.board.metrics.endpoint import SOURCES
from tidemark.board.metrics.exposition import FAMILIES, Metric, Source, metrics_of
from tidemark.settings.environment import variable_of

EXPRESSIONS = Path(__file__).with_name("known-expressions.yml")


def metrics_page() -> str:
    """Return the page of every metric with its labels, and of metrics that are not served."""
    parts = [part for family, words in FAMILIES.items() for part in _family(family, words)]
    return page(
        "Metrics",
        "`GET /metrics` of `tidemark serve` answers in Prometheus text, or in OpenMetrics where a "
        "client requests it. All values are of the newest computed snapshot of each cluster. An "
        "unknown value is no sample, never 0; sums over queues that are not all known are unknown. "
        "Samples have no timestamps: `tidemark_snapshot_age_seconds` is their age. "
        "[Prometheus and Grafana](../metrics.md) shows how to use them.",
        *parts,
        *_expressions(),
    )


def _family(family: str, words: str) -> Iterator[str]:
    yield f"## Family {family}"
    yield f"{words[0].upper()}{words[1:]}. {code(variable_of(f'metrics_{family}'))} switches it."
    own = [(source, metric) for source, metric in metrics_of(SOURCES) if source.family == family]
    yield table(("metric", "kind", "labels", "meaning", "from"), map(_row, own))


def _row(declared: tuple[Source, Metric]) -> tuple[str, ...]:
    source, metric = declared
    labels = [code(label) for label in source.labels]
    if source.cluster_if_several:
        labels.append("`cluster` where there are several")
    return (
        code(metric.name),
        metric.kind,
        ", ".join(labels),
        metric.help,
        code(metric.column) if "." in metric.column else metric.column,
    )


def _expressions() -> Iterator[str]:
    known: Iterable[dict[str, Any]] = yaml.safe_load(EXPRESSIONS.read_text())
    yield "## Known dashboards and rules"
    yield (
        "The expressions of rocketmq-exporter's two dashboards and example rules, and those about "
        "consumers of RocketMQ 5. A test runs each through Prometheus against the board."
    )
    counts = [
        (row["from"], str(len(row["answered"])), str(len(row.get("unanswered", ()))))
        for row in known
    ]
    yield table(("expressions of", "answered", "not answered"), counts)
    reasons = [
        (code(expression), reason)
        for row in known
        for expression, reason in row.get("unanswered", {}).items()
    ]
    yield "### Not answered"
    yield table(("expression", "reason"), reasons)
