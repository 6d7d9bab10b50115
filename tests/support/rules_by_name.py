"""Rules by their names."""

from typing import Any

from pydantic import TypeAdapter

from tidemark.alerting.rules.base import AppliedRule
from tidemark.alerting.rules.model import Rule

_RULE: TypeAdapter[Rule] = TypeAdapter(Rule)


def named(kind: str, threshold: Any = None, name: str = "", **other: Any) -> list[AppliedRule]:
    """A rule as it would be read from a file, and its overrides."""
    limit = {} if threshold is None else {"threshold": threshold}
    return _RULE.validate_python(
        {"name": name or kind, "kind": kind} | limit | other
    ).applied_rules()
