"""The tree of routes: which receivers an incident reaches, as Alertmanager decides it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from alerting.rules.matching import IncidentMatch
from alerting.rules.routes import DEFAULT_RECEIVER, EVERY_LABEL, Receiver, Route
from alerting.rules.time_intervals import NamedIntervals

GROUP_WAIT, GROUP_INTERVAL, REPEAT_INTERVAL = 30.0, 300.0, 14_400.0
"""Alertmanager's defaults, in seconds."""

INHERITED = (
    *("receiver", "group_by", "group_wait", "group_interval", "repeat_interval"),
    *("escalate_after", "escalate_to"),
)
"""Fields that a route has from the one above it, unless it has its own."""


@dataclass(frozen=True)
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
        found: list[Node] = []
        for each in self.routes:
            below = each.matching(labels)
            found += below
            if below and not each.continue_:
                break
        return found or [self]

    def group_key(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the labels that incidents of one message share, by which they are grouped."""
        names = sorted(labels) if EVERY_LABEL in self.group_by else self.group_by
        return (self.place, *(f"{name}={labels.get(name, '')}" for name in names))

    def mute_reason(self, now: datetime) -> str | None:
        """Return why it does not notify now; None when it does."""
        for each in self.mute:
            if each.hold(now):
                return f"in the mute time {each.name}"
        if self.active and not any(each.hold(now) for each in self.active):
            return f"outside of the active time {', '.join(each.name for each in self.active)}"
        return None

    def walk(self) -> Iterator["Node"]:
        """Yield it and every route below it."""
        yield self
        for each in self.routes:
            yield from each.walk()


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
    base = above or Node(place)
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
        compiled(each, intervals, f"{place}.routes[{number}]", node)
        for number, each in enumerate(route.routes)
    )
    return replace(node, routes=tuple(below))


def _named(
    names: Sequence[str], intervals: Mapping[str, NamedIntervals]
) -> tuple[NamedIntervals, ...]:
    return tuple(intervals[name] for name in names if name in intervals)
