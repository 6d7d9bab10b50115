"""An alert rule as evaluation needs it: SQL of its condition and texts for its evidence."""

from collections.abc import Mapping
from typing import Protocol

Match = Mapping[str, tuple[str, ...]]
"""Column name to globs (``*``, ``?``), of which one must match."""


class EvaluatedRule(Protocol):
    """An alert rule as it applies to some subjects; at most one of a name applies to a subject.

    Attributes:
        name: unique among the alert rules.
        kind: its kind, for the evidence.
        source: the rows it is evaluated on, a key of `spark.alerts.sources.SOURCES`.
        about_group: whether only one row of a group is evaluated; see `spark.alerts.speakers`.
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

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def source(self) -> str: ...  # noqa: D102
    @property
    def about_group(self) -> bool: ...  # noqa: D102
    @property
    def severity(self) -> str: ...  # noqa: D102
    @property
    def value(self) -> str: ...  # noqa: D102
    @property
    def threshold(self) -> float: ...  # noqa: D102
    @property
    def condition(self) -> str: ...  # noqa: D102
    @property
    def matches(self) -> tuple[Match, ...]: ...  # noqa: D102
    @property
    def excludes(self) -> tuple[Match, ...]: ...  # noqa: D102
    @property
    def words(self) -> str: ...  # noqa: D102
    @property
    def description(self) -> str: ...  # noqa: D102
    @property
    def runbook(self) -> str | None: ...  # noqa: D102
    @property
    def labels(self) -> Mapping[str, str]: ...  # noqa: D102
