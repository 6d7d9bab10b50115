"""Rule files: YAML, one file or a folder of them, with links to the runbooks they name.

A file is a mapping. Under ``rules`` it has a list of mappings; `ready_made/default.yaml` shows
every kind. ``inhibit``, ``routes``, ``receivers`` and ``time_intervals`` may be in any of the
files. Each mistake is one line with file, line and field; all mistakes are reported at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails

from tidemark.alerting.rules.base import GroupRule
from tidemark.alerting.rules.kinds import KINDS
from tidemark.alerting.rules.model import Inhibition, Rule
from tidemark.alerting.rules.routing import (
    DEFAULT_RECEIVER,
    Node,
    Receiver,
    ReportSchedule,
    Route,
    Routing,
    compiled,
)
from tidemark.alerting.rules.time_intervals import NamedIntervals
from tidemark.model.spelling import nearest
from tidemark.settings.yaml_documents import (
    SCHEMA_DIALECT,
    Document,
    Item,
    field_names,
    item_at,
    items_of,
    kind,
    read_sections,
    reason,
)

LISTS = ("inhibit", "receivers", "time_intervals", "reports")
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
    receivers, mistakes = _by_name(read, "receivers", "a receiver", Receiver)
    intervals, wrong = _by_name(read, "time_intervals", "a time interval", NamedIntervals)
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
    validate = Route.model_validate
    yield from item_at(file, document, ("routes",), value, validate, located=located, of=Route)


def _unknown_names(
    item: Item[Route], is_list: bool, receivers: Sequence[str], intervals: Sequence[str]
) -> Iterator[str]:
    """Yield a line for each unknown name, and for each field that the root cannot have."""
    root = item.value
    if root.match.globs or root.continue_ or root.active_time_intervals or root.mute_time_intervals:
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
    read: Read, key: str, noun: str, model: type[Named]
) -> tuple[dict[str, Item[Named]], list[str]]:
    """Return the valid entries of a list of all files by name, and a line for each mistake."""
    items: dict[str, Item[Named]] = {}
    mistakes: list[str] = []
    for file, document in read:
        validate = model.model_validate
        for item in items_of(file, document, key, noun, validate, words=_without_secrets, of=model):
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


FOLDER = "docs"
"""Folder of the repository that holds the pages of the documentation."""


def runbook_link(runbook: str | None, docs_url: str = "") -> str | None:
    """Return where a runbook can be read.

    Args:
        runbook: an http(s) address, or a page of the documentation: ``runbooks/lag-high.md``.
        docs_url: address of the documentation site; empty when there is none.

    Returns:
        The address as it is, the address of the page on the site, or without a site the path of
        the page in the repository. None without a runbook.
    """
    if runbook is None or "://" in runbook:
        return runbook
    if docs_url:
        return f"{docs_url.rstrip('/')}/{runbook.removesuffix('.md')}.html"
    return f"{FOLDER}/{runbook}"


def with_links(rules: Iterable[Rule], docs_url: str = "") -> list[Rule]:
    """Return the rules with the link to the runbook in place of its page."""
    return [
        rule.model_copy(update={"runbook": runbook_link(rule.runbook, docs_url)}) for rule in rules
    ]


DEFAULT_RULES = Path(__file__).parent / "ready_made"
"""The folder of the ready-made rules."""

_RULE: TypeAdapter[Rule] = TypeAdapter(Rule)


class RuleError(ValueError):
    """Rule files have mistakes.

    Attributes:
        mistakes: one line each, ``FILE:LINE: FIELD: mistake``.
    """

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


_SECTIONS: dict[str, TypeAdapter[Any]] = {
    "rules": TypeAdapter(list[Rule]),
    "inhibit": TypeAdapter(list[Inhibition]),
    "receivers": TypeAdapter(list[Receiver]),
    "time_intervals": TypeAdapter(list[NamedIntervals]),
    "routes": TypeAdapter(Route | list[Route]),
    "reports": TypeAdapter(list[ReportSchedule]),
}


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a rule file, for editors."""
    inputs: list[Any] = [(name, "validation", adapter) for name, adapter in _SECTIONS.items()]
    sections, definitions = TypeAdapter.json_schemas(
        inputs, by_alias=True, ref_template="#/$defs/{model}"
    )
    return {
        "$schema": SCHEMA_DIALECT,
        "title": "Tidemark rules",
        "type": "object",
        "properties": {name: sections[name, "validation"] for name in _SECTIONS},
        "additionalProperties": False,
        "$defs": definitions.get("$defs", {}),
    }


def rules_path(named: str = "") -> Path:
    """Return the path of the rules: the named file or folder, else that of the ready-made rules."""
    return Path(named or DEFAULT_RULES)


def load_rules(path: Path | str) -> list[Rule]:
    """Read the rules of a file, or of every ``*.yaml`` and ``*.yml`` of a folder by name.

    Args:
        path: file or folder; mistakes name it as it is given here.

    Raises:
        RuleError: with every mistake of every file.
    """
    rule_set = read_rule_set(path)
    if rule_set.mistakes:
        raise RuleError(list(rule_set.mistakes))
    return rule_set.rules


def valid_rules(path: Path | str) -> tuple[list[Rule], list[str]]:
    """Return the valid rules, and a line for each mistake; a wrong rule stops no other.

    Args:
        path: see `load_rules`.
    """
    rule_set = read_rule_set(path)
    return rule_set.rules, list(rule_set.rule_mistakes)


@dataclass(frozen=True, kw_only=True)
class RuleSet:
    """The declarations of all rule files.

    Attributes:
        rules: the valid rules; the ready-made ones where no file has any.
        inhibitions: the valid ones; the ready-made ones where no file has any.
        routing: where incidents go.
        reports: the weekly reports that are sent.
        rule_mistakes: a line for each mistake of a file as a whole or of a rule.
        mistakes: these, and the mistakes of all other sections.
    """

    rules: list[Rule] = field(default_factory=list)
    inhibitions: tuple[Inhibition, ...] = ()
    routing: Routing = field(default_factory=Routing)
    reports: tuple[ReportSchedule, ...] = ()
    rule_mistakes: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()

    @property
    def report_receivers(self) -> tuple[Receiver, ...]:
        """The receivers of the rule files that get a report, with routes or without."""
        names = {schedule.receiver for schedule in self.reports}
        return tuple(it for it in self.routing.receivers if it.name in names)


def read_rule_set(path: Path | str) -> RuleSet:
    """Read everything that a file or folder declares; a wrong part stops no other.

    Args:
        path: see `load_rules`.
    """
    try:
        files = _files(Path(path))
    except RuleError as error:
        return RuleSet(
            rules=[],
            inhibitions=ready_made_inhibitions(),
            routing=Routing(),
            rule_mistakes=error.mistakes,
            mistakes=error.mistakes,
        )
    mistakes: list[str] = []
    read: list[tuple[Path, Document]] = []
    written: list[Item[Rule]] = []
    whole = True
    for file in files:
        document, wrong = read_sections(file, ("rules", *LISTS), ("routes",))
        mistakes += wrong
        whole = whole and document is not None and document.value.keys() <= _SECTIONS.keys()
        if document:
            read.append((file, document))
            items, wrong = _entries(file, document, "rules", "a rule", _validated, _location, Rule)
            mistakes += wrong
            written += items
    mistakes += _duplicates(written)
    first = {entry.value.name: entry for entry in reversed(written)}
    rules = [entry.value for entry in written if first[entry.value.name] is entry]
    if whole and not any("rules" in document.value for _, document in read):
        # A file of routes switches no rule off: all open incidents would resolve.
        rules = list(ready_made_rules())
    inhibitions, of_inhibitions = _inhibitions(read)
    routing, of_routes = read_routing(read, whole=whole)
    reports, of_reports = _reports(read, routing.receivers)
    all_mistakes = (*mistakes, *of_inhibitions, *of_routes, *of_reports)
    return RuleSet(
        rules=rules,
        inhibitions=inhibitions,
        routing=routing,
        reports=reports,
        rule_mistakes=tuple(mistakes),
        mistakes=all_mistakes,
    )


def _reports(
    read: Read, receivers: Sequence[Receiver]
) -> tuple[tuple[ReportSchedule, ...], list[str]]:
    """Return the valid reports, of which a receiver gets one a team; and mistakes."""
    known = [DEFAULT_RECEIVER, *(receiver.name for receiver in receivers)]
    valid: dict[str, Item[ReportSchedule]] = {}
    mistakes: list[str] = []
    names: list[str] = []
    for file, document in read:
        items, wrong = _entries(
            file,
            document,
            "reports",
            "a report",
            ReportSchedule.model_validate,
            lambda detail: detail["loc"],
            ReportSchedule,
        )
        mistakes += wrong
        for item in items:
            schedule = item.value
            if schedule.receiver not in known:
                names.append(
                    f"{item.place('receiver')}: {schedule.receiver!r} is no receiver, known are "
                    f"{', '.join(known)}"
                )
            elif schedule.key in valid:
                where = valid[schedule.key].place()
                names.append(f"{item.place()}: another report has this receiver and team ({where})")
            else:
                valid[schedule.key] = item
    return tuple(item.value for item in valid.values()), [*mistakes, *names]


def _inhibitions(read: Read) -> tuple[tuple[Inhibition, ...], list[str]]:
    """Return the valid inhibitions, the ready-made ones where no file has any; and mistakes."""
    if not any("inhibit" in document.value for _, document in read):
        return ready_made_inhibitions(), []
    valid: list[Inhibition] = []
    mistakes: list[str] = []
    for file, document in read:
        items, wrong = _entries(
            file,
            document,
            "inhibit",
            "an inhibition",
            Inhibition.model_validate,
            lambda detail: detail["loc"],
            Inhibition,
        )
        valid += [item.value for item in items]
        mistakes += wrong
    return tuple(valid), mistakes


@cache
def ready_made_rules() -> tuple[Rule, ...]:
    """Return the rules that hold where no rule file declares any."""
    return tuple(read_rule_set(DEFAULT_RULES).rules)


@cache
def ready_made_inhibitions() -> tuple[Inhibition, ...]:
    """Return the inhibitions that hold where no rule file declares any."""
    return read_rule_set(DEFAULT_RULES).inhibitions


T = TypeVar("T")


def _validated(entry: Any) -> Rule:
    """Return a rule.

    Raises:
        ValidationError: with all its mistakes: those of its other fields too where its kind is
            unknown, as far as they do not depend on it.
    """
    try:
        return _RULE.validate_python(entry)
    except ValidationError as error:
        (wrong_kind, *_) = details = error.errors(include_url=False)
        if not wrong_kind["type"].startswith("union_tag"):
            raise
        details += _other_mistakes(entry)
        lines = [
            InitErrorDetails(
                type=detail["type"],  # pyright: ignore[reportArgumentType] - a name of pydantic's
                loc=detail["loc"],
                input=detail["input"],
                ctx=detail.get("ctx", {}),
            )
            for detail in details
        ]
        raise ValidationError.from_exception_data(error.title, lines) from error


def _other_mistakes(entry: Any) -> list[ErrorDetails]:
    """Return the mistakes of a rule of an unknown kind, by the nearest kind if one is near."""
    meant = nearest(str(entry.get("kind", "")), KINDS)
    try:
        if meant:
            _RULE.validate_python(entry | {"kind": meant})
        else:
            _OtherFields.model_validate(entry)
    except ValidationError as error:
        details = error.errors(include_url=False)
        if meant:
            return details
        # As those of a rule, whose place begins with its kind.
        return [
            {**detail, "loc": ("", *detail["loc"])}
            for detail in details
            if detail["loc"] != ("kind",) and not _is_of_some_kind(detail)
        ]
    return []


class _OtherFields(GroupRule[Any], frozen=True):
    """The fields that most rules have, whatever their kind."""

    kind: Any


def _is_of_some_kind(detail: ErrorDetails) -> bool:
    return detail["type"] == "extra_forbidden" and detail["loc"][-1] in field_names(Rule)


def _entries(
    file: Path,
    document: Document,
    key: str,
    noun: str,
    validate: Callable[[Any], T],
    located: Callable[[ErrorDetails], tuple[str | int, ...]],
    of: Any,
) -> tuple[list[Item[T]], list[str]]:
    """Return the valid entries of a list of a file, and a line for each mistake in it."""
    items: list[Item[T]] = []
    mistakes: list[str] = []
    for item in items_of(file, document, key, noun, validate, located=located, of=of):
        if isinstance(item, str):
            mistakes.append(item)
        else:
            items.append(item)
    return items, mistakes


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
    if not files:
        raise RuleError([f"{path}: no rule file (*.yaml) in this folder"])
    return files


def _duplicates(written: list[Item[Rule]]) -> list[str]:
    """Return a line for every rule whose name an earlier rule has."""
    first: dict[str, str] = {}
    lines: list[str] = []
    for entry in written:
        name, place = entry.value.name, entry.place("name")
        if name in first:
            lines.append(f"{place}: {name!r} is the name of another rule ({first[name]})")
        first.setdefault(name, place)
    return lines


def _location(detail: ErrorDetails) -> tuple[str | int, ...]:
    """Return the field below the rule; pydantic puts the kind in front of it."""
    if detail["type"].startswith("union_tag"):
        return ("kind",)
    return detail["loc"][1:]
