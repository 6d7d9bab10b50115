"""Declaration of a metric: its name, help and labels, and the SELECT that yields its samples.

Metrics that share labels share one `Source`: a SELECT of label columns, then value columns, over
the newest rows of the tables. A table of the SELECT is named like the declared one, with ``_``
for the dot: ``progress_groups``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    """

    family: str
    labels: Sequence[str]
    select: str
    metrics: Sequence[Metric]
    cluster_if_several: bool = False


def metrics_of(sources: Sequence[Source]) -> Iterator[tuple[Source, Metric]]:
    """Yield every metric with its source, in order."""
    for source in sources:
        for metric in source.metrics:
            yield source, metric
