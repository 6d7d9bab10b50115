"""Alert rules of each kind and inhibitions, as rule files define them; `files` reads them."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from tidemark.alerting.rules.base import BaseRule, GroupRule, IncidentMatch
from tidemark.alerting.rules.kinds import KINDS, Kind
from tidemark.lake.bounds import MINIMA, SUMS
from tidemark.lake.schema import BIGINT, DOUBLE, INT
from tidemark.lake.tables.progress import GROUPS
from tidemark.settings.fields import (
    BrokerMatch,
    ClusterMatch,
    Count,
    Limit,
    Messages,
    Seconds,
    Share,
    Strict,
    TableMatch,
    TopicMatch,
    as_tuple,
)
from tidemark.settings.objectives import LONGEST_HOURS, MinuteState

Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(as_tuple)]


class Inhibition(Strict, frozen=True):
    """While a source fires, its targets are not notified.

    Attributes:
        source: the incidents that inhibit.
        target: the incidents that are inhibited; none that is a source as well.
        equal: labels that have to be the same of both.
        only: ``hidden`` limits it to incidents that depend on numbers that the source hides. An
            unreachable broker hides its own queues and makes the snapshots incomplete; an
            unreadable cluster hides all its numbers. The inhibition then applies from the first
            observation on, before the source fires, and to targets that opened, or last reopened,
            no earlier.
    """

    source: IncidentMatch
    target: IncidentMatch
    equal: Names = ()
    only: Literal["hidden"] | None = None


NUMBERS = tuple(
    column.name
    for column in GROUPS.columns
    if column.type in (BIGINT, INT, DOUBLE) and not column.name.endswith("_id")
)
"""Columns that a rule of kind ``column`` can compare."""


class LagRule(GroupRule[Messages], frozen=True):
    """More than `threshold` readable messages wait for the group on a topic.

    Expired messages do not count, as no consumer can read them; see kind ``lost``.
    ``filtered_lag`` counts only the messages that pass the group's filter.

    Attributes:
        filtered: true selects groups with a filter whose matching share is known; false selects all
            other groups. So one of two rules applies to each group.
    """

    kind: Literal["lag", "filtered_lag"]
    threshold: Messages
    filtered: bool | None = None

    def conditions(self) -> tuple[str, ...]:
        """Return SQL of the least volume and age, and of the groups with or without a filter."""
        if self.filtered is None:
            return super().conditions()
        is_filtered = "coalesce(match_method, 'none') <> 'none'"
        mine = is_filtered if self.filtered else f"NOT ({is_filtered})"
        return (*super().conditions(), mine)


class MessagesRule(GroupRule[Messages], frozen=True):
    """A state of the group that concerns more than `threshold` messages."""

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
        "redelivery",
        "dlq_growth",
        "rewound",
    ]
    threshold: Messages = 0.0


class CountRule(GroupRule[Count], frozen=True):
    """More than `threshold` queues or members are in a wrong state.

    Wrong states of queues, idle members and subscriptions are known only from deep snapshots with
    reports of the group's members; the count is 0 without any member.
    """

    kind: Literal[
        "contested_queues",
        "unowned_queues",
        "idle_clients",
        "inconsistent_subscription",
        "duplicate_client_ids",
    ]
    threshold: Count = 0.0


class FactRule(GroupRule[Messages], frozen=True):
    """A fact about a group that is true or not, whatever its numbers."""

    kind: Literal["mixed_members", "unregistered"]


class ShareRule(GroupRule[Share], frozen=True):
    """Less than `threshold`, a share of the usual value at this time of day."""

    kind: Literal["throughput_drop"]
    threshold: Share = 0.5


_MINUTE = 60

_LONGEST_WINDOW = LONGEST_HOURS * 60 * _MINUTE


class UnusualRule(GroupRule[Count], frozen=True):
    """Delay and lag are both more than `threshold` times the usual ones at this hour of the week.

    The usual range is that of ``progress.baselines``; without it the rule is neither true nor
    untrue. The floors keep small numbers quiet, however unusual they are.
    """

    kind: Literal["unusual"]
    threshold: Count = 3.0
    min_messages: Messages = 100.0
    min_age: Seconds = 60.0


class BurnRateRule(GroupRule[Count], frozen=True):
    """The budget of an objective is used more than `threshold` times as fast as it lasts.

    It is in both windows: the long one keeps short faults from firing, the short one ends the
    incident soon after the fault. The minutes are those before the snapshot. A window speaks where
    at least half of its minutes are known; unknown minutes count neither as good nor as bad. At 1
    the budget lasts exactly for the window of the objective.

    Attributes:
        long: the long window in seconds, whole minutes.
        short: the short window in seconds, a twelfth of the long one as a rule.
    """

    kind: Literal["burn_rate"]
    threshold: Count = 14.4
    long: Seconds = 3600.0
    short: Seconds = 300.0

    @model_validator(mode="after")
    def _are_windows(self) -> "BurnRateRule":
        if self.long % _MINUTE or self.short % _MINUTE:
            raise ValueError("`long` and `short` are whole minutes")
        if not _MINUTE <= self.short < self.long <= _LONGEST_WINDOW:
            raise ValueError(f"`short` is less than `long`, which is at most {LONGEST_HOURS}h")
        return self

    @property
    def value(self) -> str:
        """SQL of the lower of both rates, of the objective where that is highest."""
        both = ", ".join(map(_burn_rate, (self.long, self.short)))
        return f"array_max(transform(objective_minutes, o -> least({both})))"

    def compared(self, threshold: float) -> str:
        """Return SQL of whether both rates of an objective are beyond a threshold."""
        both = " AND ".join(
            f"{_burn_rate(window)} > {threshold!r}D" for window in (self.long, self.short)
        )
        return f"exists(objective_minutes, o -> {both})"


def _burn_rate(seconds: float) -> str:
    """Return SQL of the burn rate of an objective ``o`` over a window; NULL = unknown."""
    minutes = round(seconds / _MINUTE)
    signs = f"right(o.minutes, {minutes})"
    known = f"length(replace({signs}, '{MinuteState.UNKNOWN}'))"
    bad = f"({minutes} - length(replace({signs}, '{MinuteState.BAD}')))"
    return f"(CASE WHEN 2 * {known} >= {minutes} THEN {bad} / {known} / o.allowed END)"


class TimeRule(GroupRule[Seconds], frozen=True):
    """The first unconsumed, or not handed out, message is older, or may expire within it."""

    kind: Literal["delay", "ready_delay", "soon_lost"]
    threshold: Seconds


class ColumnRule(GroupRule[Limit], frozen=True):
    """Any number of ``progress.groups`` above or below a limit, where no other kind fits.

    Attributes:
        column: name of the column.
        above: limit above which it is true.
        below: limit below which it is true.
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
    def kind_definition(self) -> Kind:
        """The definition of its kind, for its column and the side of its limit."""
        below = self.below is not None
        return replace(
            KINDS["column"],
            words=f"{self.column} is {{value}}",
            below=below,
            part_suffices=self.column in (MINIMA if below else SUMS),
        )

    @property
    def value(self) -> str:
        """Its column, as SQL."""
        return self.column

    @property
    def limit(self) -> float:
        """Its limit."""
        limit = self.above if self.above is not None else self.below
        return limit if limit is not None else 0.0


class UnreadableMessagesRule(BaseRule, frozen=True):
    """More than `threshold` messages of a topic are where no consumer can read them.

    Only topics that producers write: not retry and dead-letter topics, nor those of RocketMQ.
    """

    kind: Literal["unreadable_messages"]
    threshold: Messages = 0.0
    match: TopicMatch = TopicMatch()


class DeadLetterAgeRule(BaseRule, frozen=True):
    """The oldest message of a dead-letter topic is older than `threshold`.

    A topic is that of its group: ``%DLQ%`` and the group's name.
    """

    kind: Literal["dead_letter_age"]
    threshold: Seconds
    match: TopicMatch = TopicMatch()


class BrokerDownRule(BaseRule, frozen=True):
    """A broker address did not respond."""

    kind: Literal["broker_down"]
    match: BrokerMatch = BrokerMatch()


class SlaveOffsetsRule(BaseRule, frozen=True):
    """A slave's copy lacks consumer offsets of its master."""

    kind: Literal["slave_offsets_behind"]
    match: BrokerMatch = BrokerMatch()


class BrokerTimeRule(BaseRule, frozen=True):
    """A slave is behind its master, or a send waits for a thread, for longer than `threshold`."""

    kind: Literal["replica_behind", "send_wait"]
    threshold: Seconds
    match: BrokerMatch = BrokerMatch()


class UnstoredMessagesRule(BaseRule, frozen=True):
    """A broker did not store more than `threshold` messages or sends since their last count."""

    kind: Literal["failed_writes", "sends_refused", "sends_failed"]
    threshold: Messages = 0.0
    match: BrokerMatch = BrokerMatch()


class LightQueuesRule(BaseRule, frozen=True):
    """A broker holds more than `threshold` of the light queues that it may, a share."""

    kind: Literal["light_queues"]
    threshold: Share
    match: BrokerMatch = BrokerMatch()


class DiskRule(BaseRule, frozen=True):
    """A broker's disk is fuller than `threshold`, a share."""

    kind: Literal["disk"]
    threshold: Share
    match: BrokerMatch = BrokerMatch()


class ProxyDownRule(BaseRule, frozen=True):
    """A Proxy that `proxies` of a cluster names did not respond."""

    kind: Literal["proxy_down"]
    match: ClusterMatch = ClusterMatch()


class CollectionIncompleteRule(BaseRule, frozen=True):
    """A snapshot does not hold the whole cluster."""

    kind: Literal["collection_incomplete"]
    match: ClusterMatch = ClusterMatch()


class CollectionLateRule(BaseRule, frozen=True):
    """The newest computed snapshot of a cluster is older than `threshold`."""

    kind: Literal["collection_late"]
    threshold: Seconds = 300.0
    match: ClusterMatch = ClusterMatch()


class QualityRule(BaseRule, frozen=True):
    """The newest validation result of an expectation is a failure."""

    kind: Literal["quality"]
    match: TableMatch = TableMatch()


class RunFailedRule(BaseRule, frozen=True):
    """More than `threshold` runs of Tidemark failed, and none succeeded since."""

    kind: Literal["run_failed"]
    threshold: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    match: Strict = Strict()


Rule = Annotated[
    LagRule
    | MessagesRule
    | TimeRule
    | CountRule
    | FactRule
    | ShareRule
    | BurnRateRule
    | UnusualRule
    | ColumnRule
    | UnreadableMessagesRule
    | DeadLetterAgeRule
    | BrokerDownRule
    | DiskRule
    | SlaveOffsetsRule
    | BrokerTimeRule
    | UnstoredMessagesRule
    | LightQueuesRule
    | ProxyDownRule
    | CollectionIncompleteRule
    | CollectionLateRule
    | QualityRule
    | RunFailedRule,
    Field(discriminator="kind"),
]
