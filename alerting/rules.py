"""Rules: what counts as wrong. `alerting.rule_files` reads them from where they are written."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from alerting.fields import (
    Count,
    For,
    Limit,
    Messages,
    QuietHours,
    Seconds,
    Share,
    Span,
    Strict,
    fits,
)
from alerting.kinds import KINDS, MINIMA, SUMS, Kind, holds
from alerting.matching import BrokerMatch, ClusterMatch, GroupMatch, Match, TableMatch
from lake.schema import BIGINT, DOUBLE, INT
from lake.tables.progress import GROUPS

CLEAR = Span(5)
"""How long a rule has to be untrue for its incident to end, unless it says."""

NUMBERS = tuple(
    column.name
    for column in GROUPS.columns
    if column.type in (BIGINT, INT, DOUBLE) and not column.name.endswith("_id")
)
"""Columns that a rule of kind ``column`` can look at."""

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True)
class Variant:
    """A rule as it holds for the subjects that fit it: the rule itself, or one of its overrides.

    Attributes:
        rule: the rule.
        severity: ``critical`` | ``warning`` | ``info``.
        threshold: what the value is compared with.
        for_: how long it has to be true to fire.
        clear_for: how long it has to be untrue to end.
        matches: what a subject has to fit, all of them.
        unless: what it must not fit, none of them: the overrides before this one.
    """

    rule: "BaseRule"
    severity: Severity
    threshold: float
    for_: Span
    clear_for: Span
    matches: tuple[Match, ...]
    unless: tuple[Match, ...] = ()

    @property
    def source(self) -> str:
        """The rows it is asked of."""
        return self.rule.looks_at.source

    @property
    def holds(self) -> str:
        """SQL of whether it is true of a row of the rule's source; NULL = not known."""
        rule = self.rule
        return holds(rule.looks_at, rule.value, self.threshold, *rule.conditions())

    def means(self, columns: Mapping[str, Any]) -> bool:
        """Whether it counts for a subject with these columns."""
        return all(fits(match, columns) for match in self.matches) and not any(
            fits(match, columns) for match in self.unless
        )


class BaseRule(Strict):
    """What rules of every kind have.

    Attributes:
        name: unique over all files.
        kind: one of `alerting.kinds.KINDS`.
        severity: how bad it is when true.
        for_: how long it has to be true before anybody is told.
        clear_for: how long it has to be untrue before it is over.
        description: what it means, in a sentence, for the message.
        runbook: address of what to do about it.
        labels: more for the message and for whom it goes on to.
        quiet_hours: when nobody is told.
        match: which subjects it is about.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
    kind: str
    severity: Severity = "warning"
    for_: Annotated[For | None, Field(alias="for")] = None
    clear_for: For = CLEAR
    description: str = ""
    runbook: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    labels: dict[Annotated[str, Field(min_length=1)], str] = Field(default_factory=dict)
    quiet_hours: QuietHours | None = None
    match: Strict

    @property
    def looks_at(self) -> Kind:
        """What its kind looks at."""
        return KINDS[self.kind]

    @property
    def value(self) -> str:
        """SQL of the number compared."""
        return self.looks_at.value

    @property
    def words(self) -> str:
        """What is so when it is true."""
        return self.looks_at.words

    @property
    def limit(self) -> float:
        """What the value is compared with; where a kind has no threshold, a thing is or is not."""
        return getattr(self, "threshold", 0.0)

    def conditions(self) -> tuple[str, ...]:
        """SQL of what has to be so as well; what is unknown of the row can make none untrue."""
        return ()

    def variants(self) -> list[Variant]:
        """Its overrides in their order, then itself; a subject is meant by one of them at most."""
        return [
            Variant(
                rule=self,
                severity=self.severity,
                threshold=self.limit,
                for_=self.for_ or Span(self.looks_at.for_observations),
                clear_for=self.clear_for,
                matches=(self.match.model_dump(),),
            )
        ]


_T = TypeVar("_T")


class Override(Strict, Generic[_T]):
    """What is different for some groups; what it does not say is as the rule says."""

    match: GroupMatch
    enabled: bool = True
    severity: Severity | None = None
    threshold: _T | None = None
    for_: Annotated[For | None, Field(alias="for")] = None
    clear_for: For | None = None


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class _GroupRule(BaseRule, Generic[_T]):
    """A rule about groups on topics.

    Attributes:
        min_messages: so many readable messages have to wait for it to be true.
        min_age: so old has the oldest of them to be, in seconds.
        overrides: what is different for some groups; the first that fits counts.
    """

    match: GroupMatch = GroupMatch()
    min_messages: Messages = 0.0
    min_age: Seconds = 0.0
    overrides: Annotated[tuple[Override[_T], ...], BeforeValidator(_tuple)] = ()

    def conditions(self) -> tuple[str, ...]:
        """SQL of the minimum volume and age."""
        volume = f"readable_lag >= {self.min_messages!r}D" if self.min_messages else ""
        age = f"delay_ms >= {self.min_age * 1000!r}D" if self.min_age else ""
        return tuple(each for each in (volume, age) if each)

    def variants(self) -> list[Variant]:
        """Its overrides in their order, then itself; a subject is meant by one of them at most."""
        (own,) = super().variants()
        found: list[Variant] = []
        before: tuple[Match, ...] = ()
        for other in self.overrides:
            match = other.match.model_dump()
            threshold: Any = own.threshold if other.threshold is None else other.threshold
            if other.enabled:
                found.append(
                    Variant(
                        rule=self,
                        severity=other.severity or own.severity,
                        threshold=threshold,
                        for_=other.for_ or own.for_,
                        clear_for=other.clear_for or own.clear_for,
                        matches=(*own.matches, match),
                        unless=before,
                    )
                )
            before = (*before, match)
        return [*found, replace(own, unless=before)]


class LagRule(_GroupRule[Messages]):
    """More than `threshold` messages that can still be read wait for the group on a topic.

    Messages that expired unread are no lag that anybody can work off: kind ``lost`` tells them.
    ``filtered_lag`` counts only those that pass the group's filter.

    Attributes:
        filtered: true: only groups that ask for a part of the topic's messages, and it is known how
            large; false: only all others. So two rules share the groups, and none is told by both.
    """

    kind: Literal["lag", "filtered_lag"]
    threshold: Messages
    filtered: bool | None = None

    def conditions(self) -> tuple[str, ...]:
        """SQL of the minimum volume and age, and of who is meant."""
        if self.filtered is None:
            return super().conditions()
        is_filtered = "coalesce(match_method, 'none') <> 'none'"
        mine = is_filtered if self.filtered else f"NOT ({is_filtered})"
        return (*super().conditions(), mine)


class MessagesRule(_GroupRule[Messages]):
    """Something is so, and more than `threshold` messages are concerned."""

    kind: Literal[
        "nobody_online",
        "never_committed",
        "lost",
        "losing",
        "falling_behind",
        "stalled",
        "blocked",
        "stopped",
        "retry_growth",
        "dlq_growth",
        "rewound",
    ]
    threshold: Messages = 0.0


class CountRule(_GroupRule[Count]):
    """More than `threshold` queues or members are not as they should be.

    Known only at deep looks of groups whose members are asked.
    """

    kind: Literal["contested_queues", "unowned_queues", "idle_clients", "inconsistent_subscription"]
    threshold: Count = 0.0


class ShareRule(_GroupRule[Share]):
    """Less than `threshold`, a share of what is usual at this time of day."""

    kind: Literal["throughput_drop"]
    threshold: Share = 0.5


class TimeRule(_GroupRule[Seconds]):
    """The first unread message is older than `threshold`, or may expire within it."""

    kind: Literal["delay", "soon_lost"]
    threshold: Seconds


class ColumnRule(_GroupRule[Limit]):
    """Any number of ``progress.groups`` above or below a limit, for what no kind is for.

    Attributes:
        column: its name.
        above: true above it.
        below: true below it.
    """

    kind: Literal["column"]
    column: str
    above: Limit | None = None
    below: Limit | None = None

    @field_validator("column")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in NUMBERS:
            raise ValueError(
                f"{value!r} is no number of progress.groups, those are {', '.join(NUMBERS)}"
            )
        return value

    @model_validator(mode="after")
    def _one_limit(self) -> "ColumnRule":
        if (self.above is None) == (self.below is None):
            raise ValueError("one of `above` and `below` is wanted")
        return self

    @property
    def looks_at(self) -> Kind:
        """Its column, on the side of its limit."""
        below = self.below is not None
        return replace(
            KINDS["column"],
            words=f"{self.column} is {{value}}",
            below=below,
            of_part=self.column in (MINIMA if below else SUMS),
        )

    @property
    def value(self) -> str:
        """The column."""
        return self.column

    @property
    def limit(self) -> float:
        """Its limit."""
        limit = self.above if self.above is not None else self.below
        return limit if limit is not None else 0.0


class BrokerDownRule(BaseRule):
    """A broker address did not answer."""

    kind: Literal["broker_down"]
    match: BrokerMatch = BrokerMatch()


class DiskRule(BaseRule):
    """A broker's disk is fuller than `threshold`, a share."""

    kind: Literal["disk"]
    threshold: Share
    match: BrokerMatch = BrokerMatch()


class CollectionIncompleteRule(BaseRule):
    """A snapshot could not read everything."""

    kind: Literal["collection_incomplete"]
    match: ClusterMatch = ClusterMatch()


class CollectionLateRule(BaseRule):
    """The newest computed snapshot of a cluster is older than `threshold`: nothing is watched."""

    kind: Literal["collection_late"]
    threshold: Seconds = 300.0
    match: ClusterMatch = ClusterMatch()


class QualityRule(BaseRule):
    """An expectation failed in the newest run that asked it."""

    kind: Literal["quality"]
    match: TableMatch = TableMatch()


class RunFailedRule(BaseRule):
    """More than `threshold` runs of Tidemark failed, and none succeeded since."""

    kind: Literal["run_failed"]
    threshold: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    match: Strict = Strict()


Rule = Annotated[
    LagRule
    | MessagesRule
    | TimeRule
    | CountRule
    | ShareRule
    | ColumnRule
    | BrokerDownRule
    | DiskRule
    | CollectionIncompleteRule
    | CollectionLateRule
    | QualityRule
    | RunFailedRule,
    Field(discriminator="kind"),
]
