"""Rule files: YAML, one file or a folder of them.

A file is a mapping with the one key ``rules``, a list of mappings; `ready_made/default.yaml` shows
every kind. Each mistake is one line with file, line and field; all mistakes are reported at once.
"""

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import ErrorDetails

from alerting.rules.model import Rule
from settings.yaml_documents import Item, read_items

DEFAULT_RULES = Path(__file__).parent / "ready_made"
"""The folder of the ready-made rules."""

_RULE: TypeAdapter[Rule] = TypeAdapter(Rule)


class RuleError(ValueError):
    """Rule files have mistakes.

    Attributes:
        mistakes: one line each, ``FILE:LINE: FIELD: what is wrong``.
    """

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a rule file, for editors."""
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


def rules_path(named: str = "") -> Path:
    """Return where the rules are: a file or folder that is named, else the ready-made ones."""
    return Path(named or DEFAULT_RULES)


def load_rules(path: Path | str) -> list[Rule]:
    """Read the rules of a file, or of every ``*.yaml`` and ``*.yml`` of a folder by name.

    Args:
        path: file or folder; mistakes name it as it is given here.

    Raises:
        RuleError: with every mistake of every file.
    """
    rules, mistakes = valid_rules(path)
    if mistakes:
        raise RuleError(mistakes)
    return rules


def valid_rules(path: Path | str) -> tuple[list[Rule], list[str]]:
    """Return the valid rules, and a line for each mistake; a wrong rule stops no other.

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
