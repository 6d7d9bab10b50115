"""The page of settings, from the one model of the environment."""

from datetime import timedelta
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from docs.generate.markdown import code, page, table
from tidemark.settings.environment import Settings, variable_of

INTRODUCTION = """\
Every setting is an environment variable, read once when a process starts. The files of clusters,
health and quality are explained in [operations](../operations.md), rules in
[alerts](../alerts.md)."""


def settings_page() -> str:
    """Return the page of every setting with its type, unit, default and meaning."""
    rows = [
        (code(variable_of(name)), _kind(field), _unit(field), _default(field), _meaning(field))
        for name, field in Settings.model_fields.items()
    ]
    header = ("variable", "type", "unit", "default", "meaning")
    return page("Settings", INTRODUCTION, table(header, rows))


def _kind(field: FieldInfo) -> str:
    text = str(field.annotation)
    if "SecretStr" in text:
        return "secret text"
    for kind, words in (("bool", "`on` or `off`"), ("int", "whole number"), ("float", "number")):
        if kind in text:
            return words
    return "text"


def _unit(field: FieldInfo) -> str:
    extra: Any = field.json_schema_extra
    return str(extra.get("unit", "")) if isinstance(extra, dict) else ""


def _default(field: FieldInfo) -> str:
    default = field.default
    if isinstance(default, bool):
        return "`on`" if default else "`off`"
    if field.default_factory is not None or isinstance(default, SecretStr | timedelta):
        return ""
    return code(default)


def _meaning(field: FieldInfo) -> str:
    return field.description or ""
