"""Rule files: YAML, one file or a folder of them.

A file is a mapping with the one key ``rules``, a list of mappings; `rules/default.yaml` shows every
kind. A wrong file gives one line per mistake, naming file, line and field; all mistakes are told at
once.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import ErrorDetails

from alerting.rules import Rule
from lake.documents import Item, read_items

DEFAULT_RULES = Path(__file__).resolve().parent.parent / "rules"
"""The folder of the ready-made rules."""

_RULE: TypeAdapter[Rule] = TypeAdapter(Rule)


class RuleError(ValueError):
    """Rules that cannot be used.

    Attributes:
        mistakes: one line each, ``FILE:LINE: FIELD: what is wrong``.
    """

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


def schema() -> dict[str, Any]:
    """The JSON Schema of a rule file, for editors."""
    inner = _RULE.json_schema(by_alias=True, ref_template="#/$defs/{model}")
    definitions = inner.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tidemark rules",
        "type": "object",
        "properties": {"rules": {"type": "array", "items": inner}},
        "required": ["rules"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def rules_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the rules are: ``TIDEMARK_RULES``, a file or a folder, else the ready-made ones."""
    return Path(environment.get("TIDEMARK_RULES") or DEFAULT_RULES)


def load_rules(path: Path | str) -> list[Rule]:
    """Reads the rules of a file, or of every ``*.yaml`` and ``*.yml`` of a folder by name.

    Args:
        path: file or folder; mistakes name it as it is given here.

    Raises:
        RuleError: with every mistake of every file.
    """
    rules, mistakes = sound_rules(path)
    if mistakes:
        raise RuleError(mistakes)
    return rules


def sound_rules(path: Path | str) -> tuple[list[Rule], list[str]]:
    """The rules that can be used, and a line for each mistake: one rule never stops another.

    Args:
        path: see `load_rules`.
    """
    mistakes: list[str] = []
    written: list[Item[Rule]] = []
    try:
        files = _files(Path(path))
    except RuleError as error:
        return [], list(error.mistakes)
    for file in files:
        for found in read_items(file, "rules", "a rule", _RULE.validate_python, located=_location):
            (mistakes if isinstance(found, str) else written).append(found)  # pyright: ignore
    mistakes += _duplicates(written)
    first = {entry.value.name: entry for entry in reversed(written)}
    return [entry.value for entry in written if first[entry.value.name] is entry], mistakes


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
    if not files:
        raise RuleError([f"{path}: no rule file (*.yaml) in this folder"])
    return files


def _duplicates(written: list[Item[Rule]]) -> list[str]:
    """A line for every rule whose name another one has already."""
    first: dict[str, str] = {}
    lines: list[str] = []
    for entry in written:
        name, place = entry.value.name, entry.place("name")
        if name in first:
            lines.append(f"{place}: {name!r} is the name of another rule ({first[name]})")
        first.setdefault(name, place)
    return lines


def _location(detail: ErrorDetails) -> tuple[str | int, ...]:
    """The field below the rule; pydantic puts the kind in front of it."""
    if detail["type"].startswith("union_tag"):
        return ("kind",)
    return detail["loc"][1:]
