"""An alert rule as evaluation needs it: SQL of its condition and texts for its evidence."""

from collections.abc import Mapping
from dataclasses import dataclass

Match = Mapping[str, tuple[str, ...]]
"""Column name to globs (``*``, ``?``), of which one must match."""


@dataclass(frozen=True)
class EvaluatedRule:
    """An alert rule as it applies to some subjects; at most one of a name applies to a subject.

    Attributes:
        name: unique among the alert rules.
        kind: its kind, for the evidence.
        source: the rows it is evaluated on, a key of `spark.alerts.sources.SOURCES`.
        severity: ``critical`` | ``warning`` | ``info``.
        value: SQL of the number it compares.
        threshold: the number that the value is compared with.
        condition: SQL of whether it is true of a row; NULL = unknown.
        matches: conditions of which a subject has to match all.
        excludes: conditions of which a subject must match none.
        words: the statement of the evidence when the condition is true.
        description: a sentence for people.
        runbook: address of the runbook, None without one.
        labels: names and values for the message.
    """

    name: str
    kind: str
    source: str
    severity: str
    value: str
    threshold: float
    condition: str
    matches: tuple[Match, ...]
    excludes: tuple[Match, ...] = ()
    words: str = ""
    description: str = ""
    runbook: str | None = None
    labels: Mapping[str, str] | None = None
