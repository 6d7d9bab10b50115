"""Rules: what counts as wrong, written in YAML, one file or a folder of them.

A file is a mapping with the one key ``rules``, a list of mappings; `rules/default.yaml` shows every
kind. A wrong file gives one line per mistake, naming file, line and field; all mistakes are told at
once.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from lake.documents import Document, field, kind, read_list, reason

DEFAULT_RULES = Path(__file__).resolve().parent.parent / "rules"
"""The folder of the ready-made rules."""

MOST_SNAPSHOTS = 60
"""Largest ``for_snapshots``: a rule looks back one hour (`spark.alerts.HISTORY`) and the usual
interval is a minute, so a longer streak could never be seen."""

Severity = Literal["critical", "warning", "info"]


def _one_or_many(value: Any) -> Any:
    return (
        (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
    )


Globs = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    BeforeValidator(_one_or_many, json_schema_input_type=str | list[str]),
    Field(min_length=1),
]
"""One glob or a list of which one must fit: ``*`` is any text, ``?`` any character, case counts."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class GroupMatch(_Strict):
    """Which groups and topics a rule is about.

    Everything by default, ``%RETRY%`` topics too: messages that wait there for another attempt are
    waiting like any others, and the alert's subject names the topic.
    """

    cluster: Globs = ("*",)
    consumer_group: Globs = ("*",)
    topic: Globs = ("*",)


class BrokerMatch(_Strict):
    """Which brokers a rule is about, by default all, masters and slaves."""

    cluster: Globs = ("*",)
    broker: Globs = ("*",)


class BaseRule(_Strict):
    """What rules of every kind have.

    Attributes:
        name: unique over all files.
        severity: how bad it is when true.
        for_snapshots: how many observations in a row must be so; unknown ones are passed over.
        description: what it means, in a sentence, for the message.
        runbook: address of what to do about it.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
    severity: Severity = "warning"
    for_snapshots: Annotated[int, Field(ge=1, le=MOST_SNAPSHOTS)] = 1
    description: str = ""
    runbook: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None


Threshold = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Messages; a rule is true *above* it."""


class _GroupRule(BaseRule):
    match: GroupMatch = GroupMatch()

    def globs(self) -> dict[str, tuple[str, ...]]:
        """Column name to globs, of which one must fit."""
        return self.match.model_dump()


class LagRule(_GroupRule):
    """More than `threshold` messages that can still be read wait for the group on a topic.

    Messages that expired unread are no lag that anybody can work off: `LostRule` tells them.
    """

    kind: Literal["lag"]
    threshold: Threshold
    for_snapshots: Annotated[int, Field(ge=1, le=MOST_SNAPSHOTS)] = 3


class NobodyOnlineRule(_GroupRule):
    """More than `threshold` readable messages wait and no member of the group is online."""

    kind: Literal["nobody_online"]
    threshold: Threshold = 0
    for_snapshots: Annotated[int, Field(ge=1, le=MOST_SNAPSHOTS)] = 3


class LostRule(_GroupRule):
    """More than `threshold` messages expired before the group read them."""

    kind: Literal["lost"]
    threshold: Threshold = 0


class BrokerDownRule(BaseRule):
    """A broker address did not answer."""

    kind: Literal["broker_down"]
    match: BrokerMatch = BrokerMatch()

    @property
    def threshold(self) -> float:
        """An answer is there or it is not."""
        return 0.0

    def globs(self) -> dict[str, tuple[str, ...]]:
        """Column name to globs, of which one must fit."""
        return self.match.model_dump()


Rule = Annotated[
    LagRule | NobodyOnlineRule | LostRule | BrokerDownRule, Field(discriminator="kind")
]

_RULE: TypeAdapter[Rule] = TypeAdapter(Rule)


class RuleError(ValueError):
    """Rules that cannot be used.

    Attributes:
        mistakes: one line each, ``FILE:LINE: FIELD: what is wrong``.
    """

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


@dataclass(frozen=True)
class _Written:
    """A valid rule and where its name stands, as ``FILE:LINE: FIELD``."""

    rule: Rule
    place: str


def load_rules(path: Path | str) -> list[Rule]:
    """Reads the rules of a file, or of every ``*.yaml`` and ``*.yml`` of a folder by name.

    Args:
        path: file or folder; mistakes name it as it is given here.

    Raises:
        RuleError: with every mistake of every file.
    """
    mistakes: list[str] = []
    written: list[_Written] = []
    for file in _files(Path(path)):
        for found in _read(file):
            (mistakes if isinstance(found, str) else written).append(found)  # pyright: ignore
    mistakes += _duplicates(written)
    if mistakes:
        raise RuleError(mistakes)
    return [entry.rule for entry in written]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
    if not files:
        raise RuleError([f"{path}: no rule file (*.yaml) in this folder"])
    return files


def _read(file: Path) -> Iterator[_Written | str]:
    """The rules of one file, and its mistakes as lines."""
    document, mistakes = read_list(file, "rules")
    yield from mistakes
    if document is None:
        return
    for index, item in enumerate(document.value["rules"]):
        yield from _rule(file, document, index, item)


def _rule(file: Path, document: Document, index: int, item: Any) -> Iterator[_Written | str]:
    base = ("rules", index)
    if not isinstance(item, dict):
        line = document.line(base)
        yield f"{file}:{line}: {field(base)}: a rule is a mapping, not {kind(item)}"
        return
    try:
        rule = _RULE.validate_python(item)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            path = (*base, *_location(detail))
            yield f"{file}:{document.line(path)}: {field(path)}: {reason(detail)}"
        return
    place = (*base, "name")
    yield _Written(rule, f"{file}:{document.line(place)}: {field(place)}")


def _duplicates(written: list[_Written]) -> list[str]:
    """A line for every rule whose name another one has already."""
    count = Counter(entry.rule.name for entry in written)
    first: dict[str, str] = {}
    lines: list[str] = []
    for entry in written:
        name = entry.rule.name
        if count[name] > 1 and name in first:
            lines.append(f"{entry.place}: {name!r} is the name of another rule ({first[name]})")
        first.setdefault(name, entry.place)
    return lines


def _location(detail: ErrorDetails) -> tuple[str | int, ...]:
    """The field below the rule; pydantic puts the kind in front of it."""
    if detail["type"].startswith("union_tag"):
        return ("kind",)
    return detail["loc"][1:]
