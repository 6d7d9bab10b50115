"""The sections of rule files that route incidents: routes, receivers and time intervals."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import ErrorDetails

from tidemark.alerting.rules.routing import (
    DEFAULT_RECEIVER,
    Node,
    Receiver,
    Route,
    Routing,
    compiled,
)
from tidemark.alerting.rules.time_intervals import NamedIntervals
from tidemark.settings.yaml_documents import Document, Item, item_at, items_of, kind, reason

LISTS = ("inhibit", "receivers", "time_intervals")
"""Keys of a rule file, other than ``rules``, that hold a list."""

Read = Sequence[tuple[Path, Document]]

Escalation = tuple[float | None, str | None]
"""Seconds after which a route escalates, and the receiver; a route may inherit both."""

_NOBODY = "escalate_after", "escalate_to, the receiver that is notified then"

Named = TypeVar("Named", Receiver, NamedIntervals)


def read_routing(read: Read, *, whole: bool = True) -> tuple[Routing, list[str]]:
    """Return where incidents go, and a line for each mistake.

    Args:
        read: the rule files.
        whole: whether this is all that the files declare. Otherwise routes may be missing, which
            is a mistake in them.
    """
    receivers, mistakes = _by_name(read, "receivers", "a receiver", Receiver.model_validate)
    intervals, wrong = _by_name(
        read, "time_intervals", "a time interval", NamedIntervals.model_validate
    )
    mistakes += wrong
    trees: list[tuple[Item[Route], bool]] = []
    wrong = []
    for file, document in read:
        if "routes" in document.value:
            for values in _tree(file, document):
                if isinstance(values, str):
                    wrong.append(values)
                else:
                    trees.append((values, isinstance(document.value["routes"], list)))
    wrong += [f"{item.place()}: only one file may have routes" for item, _ in trees[1:]]
    known = (DEFAULT_RECEIVER, *receivers)
    for item, is_list in trees[:1]:
        wrong += _unknown_names(item, is_list, known, tuple(intervals))
    mistakes += wrong
    values = tuple(item.value for item in receivers.values())
    if wrong or not trees:
        return Routing(None, values, broadcasts=bool(wrong) or not whole), mistakes
    root, is_list = trees[0]
    named = {name: item.value for name, item in intervals.items()}
    return Routing(_root(root.value, is_list, named), values), mistakes


def _root(route: Route, is_list: bool, intervals: dict[str, NamedIntervals]) -> Node:
    root = compiled(route, intervals)
    return _renamed(root, "routes.routes", "routes") if is_list else root


def _renamed(node: Node, before: str, after: str) -> Node:
    """Return the tree with places as a list of routes has them, which has no root of its own."""
    place = after + node.place.removeprefix(before) if node.place != "routes" else node.place
    below = tuple(_renamed(route, before, after) for route in node.routes)
    return replace(node, place=place, routes=below)


def _tree(file: Path, document: Document) -> Iterator[Item[Route] | str]:
    """Yield the root of a file's routes: a mapping, or a list of the routes below it."""
    routes = document.value["routes"]
    if not isinstance(routes, dict | list):
        line = document.line(["routes"])
        yield f"{file}:{line}: routes: a mapping or a list of routes is wanted, not {kind(routes)}"
        return
    is_list = isinstance(routes, list)

    def located(detail: ErrorDetails) -> tuple[str | int, ...]:
        return detail["loc"][1:] if is_list else detail["loc"]

    value = {"routes": routes} if is_list else routes
    yield from item_at(file, document, ("routes",), value, Route.model_validate, located=located)


def _unknown_names(
    item: Item[Route], is_list: bool, receivers: Sequence[str], intervals: Sequence[str]
) -> Iterator[str]:
    """Yield a line for each unknown name, and for each field that the root cannot have."""
    root = item.value
    if (
        root.match.globs()
        or root.continue_
        or root.active_time_intervals
        or root.mute_time_intervals
    ):
        yield f"{item.place()}: the root takes everything: no match, continue or time intervals"
    pending: list[tuple[Route, Escalation, tuple[str | int, ...]]] = [(root, (None, None), ())]
    while pending:
        route, above, path = pending.pop(0)
        prefix = path[1:] if is_list else path
        after, to = escalation = route.escalate_after or above[0], route.escalate_to or above[1]
        if escalation != above and (after is None or to is None):
            has, lacks = ("escalate_to", "escalate_after") if to else _NOBODY
            yield f"{item.place(*prefix)}: {has} needs {lacks}"
        for name in ("receiver", "escalate_to"):
            value = getattr(route, name)
            if value is not None and value not in receivers:
                known = ", ".join(receivers)
                yield f"{item.place(*prefix, name)}: {value!r} is no receiver, known are {known}"
        for name in ("active_time_intervals", "mute_time_intervals"):
            for value in getattr(route, name):
                if value not in intervals:
                    yield f"{item.place(*prefix, name)}: {value!r} is no time interval"
        below = enumerate(route.routes)
        pending += [(route, escalation, (*path, "routes", n)) for n, route in below]


def _by_name(
    read: Read, key: str, noun: str, validate: Callable[[Any], Named]
) -> tuple[dict[str, Item[Named]], list[str]]:
    """Return the valid entries of a list of all files by name, and a line for each mistake."""
    items: dict[str, Item[Named]] = {}
    mistakes: list[str] = []
    for file, document in read:
        for item in items_of(file, document, key, noun, validate, words=_without_secrets):
            if isinstance(item, str):
                mistakes.append(item)
            elif item.value.name in items:
                where = items[item.value.name].place("name")
                name = item.value.name
                mistakes.append(f"{item.place('name')}: {name!r} is another one's name ({where})")
            else:
                items[item.value.name] = item
    return items, mistakes


def _without_secrets(detail: ErrorDetails) -> str:
    return reason(detail, show=False)
