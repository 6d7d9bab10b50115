"""Routing: receivers that an incident reaches, as Alertmanager decides it, and weekly reports."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from jinja2 import TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BeforeValidator, Field, field_validator

from tidemark.alerting.rules.base import IncidentMatch
from tidemark.alerting.rules.model import Names
from tidemark.alerting.rules.time_intervals import WEEKDAYS, NamedIntervals
from tidemark.lake.clocks import Week
from tidemark.settings.fields import Strict, as_tuple, known_zone
from tidemark.settings.times import positive_seconds
from tidemark.settings.times import seconds as any_seconds

DEFAULT_RECEIVER = "default"
"""The receiver that always exists: the addresses of ``TIDEMARK_NOTIFY_URLS``."""

EVERY_LABEL = "..."
"""Value of ``group_by`` by which each combination of labels is a group of its own."""

TEMPLATES = ImmutableSandboxedEnvironment(autoescape=False, trim_blocks=True, lstrip_blocks=True)
"""Jinja2 in a sandbox with access to plain values only. Messages are text, so nothing is escaped;
values are never read as templates."""

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_DURATION = {"json_schema_input_type": Annotated[str, Field(pattern=r"^\d")] | float}

Wait = Annotated[float, BeforeValidator(any_seconds, **_DURATION)]
Interval = Annotated[float, BeforeValidator(positive_seconds, **_DURATION)]


class Route(Strict, frozen=True):
    """One route of the tree, which inherits the fields that it leaves out from the route above.

    Attributes:
        receiver: name of the receiver.
        match: the incidents that take this route; all unless set.
        continue_: whether the routes after it are tried as well.
        group_by: labels by which incidents are put into one message; ``...`` for all of them.
        group_wait: seconds from the first transition of a group to its first message.
        group_interval: least seconds between two messages of a group.
        repeat_interval: seconds until a message is repeated, while an incident fires without an
            acknowledgement.
        escalate_after: seconds after which `escalate_to` is notified too, while the incident is
            not acknowledged.
        escalate_to: another receiver.
        active_time_intervals: it notifies only within these; not inherited.
        mute_time_intervals: it notifies only outside of these; not inherited.
        routes: routes below it; the first that matches is taken.
    """

    receiver: Annotated[str, Field(pattern=_NAME)] | None = None
    match: IncidentMatch = IncidentMatch()
    continue_: Annotated[bool, Field(alias="continue")] = False
    group_by: Names | None = None
    group_wait: Wait | None = None
    group_interval: Interval | None = None
    repeat_interval: Interval | None = None
    escalate_after: Interval | None = None
    escalate_to: Annotated[str, Field(pattern=_NAME)] | None = None
    active_time_intervals: Names = ()
    mute_time_intervals: Names = ()
    routes: Annotated[tuple["Route", ...], BeforeValidator(as_tuple)] = ()


class WebhookTarget(Strict, frozen=True):
    """An address that gets the JSON of the incident and its transition.

    Attributes:
        url: http(s) address; ``${NAME}`` stands for a variable of the environment.
        secret: key of the signature.
    """

    url: Annotated[str, Field(min_length=1)]
    secret: Annotated[str, Field(min_length=1)] | None = None


def _webhook(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


def _template(value: Any) -> Any:
    if isinstance(value, str):
        try:
            TEMPLATES.parse(value)
        except TemplateSyntaxError as error:
            raise ValueError(f"no template: {error.message} (its line {error.lineno})") from error
    return value


class Receiver(Strict, frozen=True):
    """A person or team to notify, with addresses. Any field may be a secret, so none is shown.

    Attributes:
        name: unique over all files.
        urls: apprise addresses; ``${NAME}`` stands for a variable of the environment, which may
            hold several, separated by blanks.
        alertmanager: addresses of Alertmanagers, whose API v2 gets the alerts.
        webhook: addresses that get JSON.
        language: of the ready-made messages.
        title: Jinja2 template of the title instead of the ready-made one.
        body: Jinja2 template of the text instead of the ready-made one.
    """

    name: Annotated[str, Field(pattern=_NAME, max_length=100)]
    urls: Names = ()
    alertmanager: Names = ()
    webhook: Annotated[
        tuple[Annotated[WebhookTarget, BeforeValidator(_webhook)], ...], BeforeValidator(as_tuple)
    ] = ()
    language: Annotated[str, Field(pattern="^(en|zh)$")] = "en"
    title: Annotated[str | None, BeforeValidator(_template)] = None
    body: Annotated[str | None, BeforeValidator(_template)] = None

    @field_validator("name")
    @classmethod
    def _free(cls, value: str) -> str:
        if value == DEFAULT_RECEIVER:
            raise ValueError(f"{value!r} is the receiver of TIDEMARK_NOTIFY_URLS, take another")
        return value


GROUP_WAIT, GROUP_INTERVAL, REPEAT_INTERVAL = 30.0, 300.0, 14_400.0
"""Alertmanager's defaults, in seconds."""

INHERITED = (
    *("receiver", "group_by", "group_wait", "group_interval", "repeat_interval"),
    *("escalate_after", "escalate_to"),
)
"""Fields that a route has from the one above it, unless it has its own."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A route with everything that it inherits.

    Attributes:
        place: its place in the file: ``routes``, ``routes.routes[0]``.
        receiver: name of the receiver.
        match: see `Route`.
        continue_: see `Route`.
        group_by: see `Route`.
        group_wait: in seconds.
        group_interval: in seconds.
        repeat_interval: in seconds.
        escalate_after: in seconds; None = no escalation.
        escalate_to: another receiver.
        active: the time intervals in which it notifies; empty = always.
        mute: the time intervals in which it does not.
        routes: those below it.
    """

    place: str
    receiver: str = DEFAULT_RECEIVER
    match: IncidentMatch = field(default_factory=IncidentMatch)
    continue_: bool = False
    group_by: tuple[str, ...] = ()
    group_wait: float = GROUP_WAIT
    group_interval: float = GROUP_INTERVAL
    repeat_interval: float = REPEAT_INTERVAL
    escalate_after: float | None = None
    escalate_to: str | None = None
    active: tuple[NamedIntervals, ...] = ()
    mute: tuple[NamedIntervals, ...] = ()
    routes: tuple["Node", ...] = ()

    def matching(self, labels: Mapping[str, str]) -> list["Node"]:
        """Return the routes that an incident with these labels takes, in order."""
        if not self.match.matches(labels):
            return []
        nodes: list[Node] = []
        for node in self.routes:
            below = node.matching(labels)
            nodes += below
            if below and not node.continue_:
                break
        return nodes or [self]

    def group_key(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the labels that incidents of one message share, by which they are grouped."""
        names = sorted(labels) if EVERY_LABEL in self.group_by else self.group_by
        return (self.place, *(f"{name}={labels.get(name, '')}" for name in names))

    def mute_reason(self, now: datetime) -> str | None:
        """Return why it does not notify now; None when it does."""
        for named_intervals in self.mute:
            if named_intervals.hold(now):
                return f"in the mute time {named_intervals.name}"
        if self.active and not any(named_intervals.hold(now) for named_intervals in self.active):
            names = ", ".join(named_intervals.name for named_intervals in self.active)
            return f"outside of the active time {names}"
        return None

    def walk(self) -> Iterator["Node"]:
        """Yield it and every route below it."""
        yield self
        for node in self.routes:
            yield from node.walk()


@dataclass(frozen=True)
class Routing:
    """The compiled routes of incidents, and the receivers.

    Attributes:
        root: the tree; None = every incident goes to `TIDEMARK_NOTIFY_URLS`, at once.
        receivers: the receivers of the rule files.
        broadcasts: whether every incident goes to every receiver, because the routes have a
            mistake: too many notifications are better than none.
    """

    root: Node | None = None
    receivers: tuple[Receiver, ...] = ()
    broadcasts: bool = False

    @property
    def used_receivers(self) -> tuple[Receiver, ...]:
        """Receivers of the rule files that can be notified; none without routes."""
        return self.receivers if self.root or self.broadcasts else ()

    def routes(self, labels: Mapping[str, str]) -> list[Node]:
        """Return the routes that an incident takes; none without a tree."""
        return self.root.matching(labels) if self.root else []


def compiled(
    route: Route,
    intervals: Mapping[str, NamedIntervals],
    place: str = "routes",
    above: Node | None = None,
) -> Node:
    """Return a route with everything that it inherits.

    Args:
        route: as the file has it.
        intervals: time intervals by name; unknown ones are left out.
        place: its place in the file.
        above: the route above it; None for the root.
    """
    base = above or Node(place=place)
    own = {name: value for name in INHERITED if (value := getattr(route, name)) is not None}
    node = replace(
        base,
        **own,
        place=place,
        match=route.match,
        continue_=route.continue_,
        active=_named(route.active_time_intervals, intervals),
        mute=_named(route.mute_time_intervals, intervals),
        routes=(),
    )
    below = (
        compiled(item, intervals, f"{place}.routes[{number}]", node)
        for number, item in enumerate(route.routes)
    )
    return replace(node, routes=tuple(below))


def _named(
    names: Sequence[str], intervals: Mapping[str, NamedIntervals]
) -> tuple[NamedIntervals, ...]:
    return tuple(intervals[name] for name in names if name in intervals)


_AT = re.compile(r"([a-z]+) +(([01]\d|2[0-3]):[0-5]\d)", re.IGNORECASE)


def _at(value: Any) -> Any:
    match = _AT.fullmatch(value.strip()) if isinstance(value, str) else None
    days = [day for day in WEEKDAYS if match and day.startswith(match[1].lower())]
    if not match or len(match[1]) < 3 or len(days) != 1:
        raise ValueError(
            f"a day of the week and a time are wanted, e.g. monday 09:00, not {value!r}"
        )
    return f"{days[0]} {match[2]}"


class ReportSchedule(Strict, frozen=True):
    """A weekly report for a receiver.

    Attributes:
        receiver: name of the receiver; `DEFAULT_RECEIVER` for ``TIDEMARK_NOTIFY_URLS``.
        at: day of the week and time at which the last whole week is sent: ``monday 09:00``.
        location: time zone of `at`, and of the week, which begins on Monday 00:00 there.
        team: the team whose groups it is about; all groups unless set.
    """

    receiver: str = DEFAULT_RECEIVER
    at: Annotated[str, BeforeValidator(_at)]
    location: Annotated[str, BeforeValidator(known_zone)] = "UTC"
    team: Annotated[str, Field(min_length=1)] | None = None

    @property
    def key(self) -> str:
        """Its key among all reports."""
        return f"{self.receiver}/{self.team or ''}"

    @property
    def zone(self) -> ZoneInfo:
        """Its time zone."""
        return ZoneInfo(self.location)

    def last_due(self, now: datetime) -> datetime:
        """Return when a report was last due, at `now` or before."""
        day, text = self.at.split()
        here = now.astimezone(self.zone)
        # Weekdays of intervals begin on Sunday, those of Python on Monday.
        behind = (here.weekday() - (WEEKDAYS.index(day) - 1)) % 7
        due = datetime.combine(here.date() - timedelta(behind), time.fromisoformat(text), self.zone)
        if due > now:
            due = datetime.combine(due.date() - timedelta(7), due.time(), self.zone)
        return due

    def last_week(self, now: datetime) -> Week:
        """Return the week that the last due report is about: the whole one before it."""
        return Week.of(self.last_due(now), self.zone).before
