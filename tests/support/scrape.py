"""Samples of a page of metrics, as prometheus_client reads them back."""

from collections.abc import Mapping

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from tidemark.board.metrics.endpoint import Facts, Metrics
from tidemark.settings.sections import MetricsSettings

Samples = dict[str, dict[frozenset[tuple[str, str]], float]]
"""By name of the sample and its labels, its value."""

ALL_FAMILIES = MetricsSettings(queues=True)


def scraped(text: str, is_openmetrics: bool = False) -> Samples:
    """Return the samples of a page; a repeated sample is an error."""
    parse = (
        openmetrics.text_string_to_metric_families
        if is_openmetrics
        else text_string_to_metric_families
    )
    samples: Samples = {}
    for family in parse(text):
        for sample in family.samples:
            assert sample.timestamp is None, sample
            labels = frozenset(sample.labels.items())
            by_labels = samples.setdefault(sample.name, {})
            assert labels not in by_labels, sample
            by_labels[labels] = sample.value
    return samples


def metrics_of(tables: Mapping, facts: Facts | None = None, settings=ALL_FAMILIES) -> Samples:
    """Return the samples of the newest rows."""
    metrics = Metrics(settings)
    metrics.refresh(tables, facts or Facts())
    return scraped(metrics.page().body.decode())


def value(samples: Samples, name: str, **labels: str) -> float | None:
    """Return the one sample with these labels, whatever its others; None where there is none."""
    wanted = set(labels.items())
    numbers = [number for has, number in samples.get(name, {}).items() if wanted <= has]
    assert len(numbers) <= 1, (name, labels, numbers)
    return numbers[0] if numbers else None
