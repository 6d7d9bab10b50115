"""Base of all alert rules: fields, overrides, globs, and the rule as applied to a subject."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator, Field, field_validator

from tidemark.alerting.rules.kinds import GROUPS, KINDS, Kind, known
from tidemark.model.incidents import Severity
from tidemark.settings.fields import (
    For,
    Globs,
    GroupMatch,
    Match,
    Messages,
    QuietHours,
    Seconds,
    Span,
    Strict,
    fits,
    fits_text,
)

OWN_LABELS = (
    *("severity", "rule", "kind", "subject"),
    *("cluster", "consumer_group", "topic", "broker"),
)
"""Names that every incident has; the labels of its rule cannot replace them."""


class IncidentMatch(Strict, frozen=True):
    """A condition on incidents: every field that is set has to match by one of its globs.

    Attributes:
        severity: ``critical`` | ``warning`` | ``info``.
        rule: name of the rule.
        kind: kind of the rule.
        subject: the whole subject, ``cluster/group/topic``.
        cluster: of the newest row for which the rule is true, like those below.
        consumer_group: the group.
        topic: the topic.
        broker: the broker.
        labels: name to globs of a label of the rule.
    """

    severity: Globs | None = None
    rule: Globs | None = None
    kind: Globs | None = None
    subject: Globs | None = None
    cluster: Globs | None = None
    consumer_group: Globs | None = None
    topic: Globs | None = None
    broker: Globs | None = None
    labels: dict[Annotated[str, Field(min_length=1)], Globs] = Field(default_factory=dict)

    @cached_property
    def globs(self) -> dict[str, tuple[str, ...]]:
        """Label to globs, of all fields that are set."""
        own = {name: getattr(self, name) for name in OWN_LABELS}
        return {name: globs for name, globs in (own | self.labels).items() if globs}

    @field_validator("labels")
    @classmethod
    def _no_fields(cls, value: dict[str, Globs]) -> dict[str, Globs]:
        for name in value.keys() & set(OWN_LABELS):
            raise ValueError(f"{name} is a field of the match, write it next to `labels`")
        return value

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an incident with these labels is meant."""
        return all(fits_text(globs, labels.get(name, "")) for name, globs in self.globs.items())


CLEAR = Span(5)
"""Default of the time for which a rule has to be untrue until its incident resolves."""

RUNBOOK = r"^(https?://\S+|runbooks/[A-Za-z0-9._-]+\.md)$"
"""An http(s) address, or a page of the documentation; see `tidemark.alerting.rules.files`."""

Labels = dict[Annotated[str, Field(min_length=1)], str]
"""Names and values that incidents carry, such as the team and the service."""

SeverityName = Annotated[Severity, Field(strict=False)]
"""A severity as a file names it."""


@dataclass(frozen=True, kw_only=True)
class AppliedRule:
    """A rule as it applies to some subjects: the rule itself, or one of its overrides.

    Attributes:
        rule: the rule.
        severity: ``critical`` | ``warning`` | ``info``.
        threshold: the number that the value is compared with.
        for_: how long it has to be true until its incident fires.
        clear_for: how long it has to be untrue until its incident resolves.
        matches: conditions of which a subject has to match all.
        excludes: conditions of earlier overrides, of which a subject must match none.
        labels: names and values that its incidents carry.
    """

    rule: "BaseRule"
    severity: Severity
    threshold: float
    for_: Span
    clear_for: Span
    matches: tuple[Match, ...]
    excludes: tuple[Match, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self.rule.name

    @property
    def kind(self) -> str:
        """The kind of the rule."""
        return self.rule.kind

    @property
    def source(self) -> str:
        """The rows that it is evaluated on."""
        return self.rule.kind_definition.source

    @property
    def about_group(self) -> bool:
        """Whether only one row of a group is evaluated."""
        return self.rule.kind_definition.about_group

    @property
    def value(self) -> str:
        """SQL of the number that is compared."""
        return self.rule.value

    @property
    def words(self) -> str:
        """The statement of notifications when it is true."""
        return self.rule.words

    @property
    def description(self) -> str:
        """Its meaning in a sentence."""
        return self.rule.description

    @property
    def runbook(self) -> str | None:
        """The address of its runbook."""
        return self.rule.runbook

    @property
    def condition(self) -> str:
        """SQL of whether it is true of a row of the rule's source; NULL = unknown."""
        kind = self.rule.kind_definition
        conditions = [known(self.rule.compared(self.threshold), part_suffices=kind.part_suffices)]
        conditions += map(known, self.rule.conditions())
        if kind.source == GROUPS and not kind.of_unregistered:
            conditions.append("coalesce(registered, true)")
        return " AND ".join([*conditions, *([f"({kind.condition})"] if kind.condition else [])])

    def applies_to(self, columns: Mapping[str, Any]) -> bool:
        """Return whether it applies to a subject with these columns."""
        return all(fits(match, columns) for match in self.matches) and not any(
            fits(match, columns) for match in self.excludes
        )


class BaseRule(Strict, frozen=True):
    """The fields of rules of every kind.

    Attributes:
        name: unique over all files.
        kind: one of `tidemark.alerting.rules.kinds.KINDS`.
        severity: severity of its incidents.
        for_: how long it has to be true until its incident fires.
        clear_for: how long it has to be untrue until its incident resolves.
        description: its meaning in a sentence, for notifications.
        runbook: its runbook: an http(s) address, or a page of the documentation.
        labels: names and values that notifications carry.
        quiet_hours: hours of the day in which its notifications are muted.
        match: the subjects that it applies to.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
    kind: str
    severity: SeverityName = Severity.WARNING
    for_: Annotated[For | None, Field(alias="for")] = None
    clear_for: For = CLEAR
    description: str = ""
    runbook: Annotated[str, Field(pattern=RUNBOOK)] | None = None
    labels: Labels = Field(default_factory=dict)
    quiet_hours: QuietHours | None = None
    match: Strict

    @property
    def kind_definition(self) -> Kind:
        """The definition of its kind."""
        return KINDS[self.kind]

    @property
    def value(self) -> str:
        """SQL of the number compared."""
        return self.kind_definition.value

    @property
    def words(self) -> str:
        """The statement of notifications when the rule is true."""
        return self.kind_definition.words

    @property
    def limit(self) -> float:
        """The threshold that the value is compared with; 0 for a kind without one."""
        return getattr(self, "threshold", 0.0)

    def compared(self, threshold: float) -> str:
        """Return SQL of whether the number is beyond a threshold; NULL = unknown."""
        return f"({self.value}) {'<' if self.kind_definition.below else '>'} {threshold!r}D"

    def conditions(self) -> tuple[str, ...]:
        """Return SQL of further conditions; an unknown part of a row makes none of them untrue."""
        return ()

    def applied_rules(self) -> list[AppliedRule]:
        """Return its overrides in order, then itself; at most one applies to a subject."""
        return [
            AppliedRule(
                rule=self,
                severity=self.severity,
                threshold=self.limit,
                for_=self.for_ or Span(self.kind_definition.for_observations),
                clear_for=self.clear_for,
                matches=(self.match.model_dump(),),
                labels=self.labels,
            )
        ]


_T = TypeVar("_T")


class Override(Strict, Generic[_T], frozen=True):
    """Fields of a rule that differ for some groups; the others are as in the rule.

    Labels are added to those of the rule.
    """

    match: GroupMatch
    enabled: bool = True
    severity: SeverityName | None = None
    threshold: _T | None = None
    for_: Annotated[For | None, Field(alias="for")] = None
    clear_for: For | None = None
    labels: Labels = Field(default_factory=dict)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class GroupRule(BaseRule, Generic[_T], frozen=True):
    """A rule about groups on topics.

    Attributes:
        min_messages: least number of waiting readable messages for which it can be true.
        min_age: least age in seconds of the oldest of them.
        overrides: fields that differ for some groups; the first match counts.
    """

    match: GroupMatch = GroupMatch()
    min_messages: Messages = 0.0
    min_age: Seconds = 0.0
    overrides: Annotated[tuple[Override[_T], ...], BeforeValidator(_tuple)] = ()

    def conditions(self) -> tuple[str, ...]:
        """Return SQL of the least volume and age."""
        volume = f"readable_lag >= {self.min_messages!r}D" if self.min_messages else ""
        age = f"delay_ms >= {self.min_age * 1000!r}D" if self.min_age else ""
        return tuple(value for value in (volume, age) if value)

    def applied_rules(self) -> list[AppliedRule]:
        """Return its overrides in order, then itself; at most one applies to a subject."""
        (own,) = super().applied_rules()
        applied_rules: list[AppliedRule] = []
        before: tuple[Match, ...] = ()
        for override in self.overrides:
            match = override.match.model_dump()
            threshold: Any = own.threshold if override.threshold is None else override.threshold
            if override.enabled:
                applied_rules.append(
                    AppliedRule(
                        rule=self,
                        severity=override.severity or own.severity,
                        threshold=threshold,
                        for_=override.for_ or own.for_,
                        clear_for=override.clear_for or own.clear_for,
                        matches=(*own.matches, match),
                        excludes=before,
                        labels={**own.labels, **override.labels},
                    )
                )
            before = (*before, match)
        return [*applied_rules, replace(own, excludes=before)]
