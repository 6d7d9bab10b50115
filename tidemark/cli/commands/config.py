"""`tidemark config`: every setting with its value and the source of the value."""

from typing import TYPE_CHECKING, Any

import typer

from tidemark.cli.invocation import invocation
from tidemark.cli.output import Format, print_rows, to_json

if TYPE_CHECKING:
    from tidemark.settings.environment import Settings

app = typer.Typer()

COLUMNS = ("name", "value", "source", "unit", "description")

HOME_FILES = {
    **{
        name: f"{name}.yaml"
        for name in ("clusters", "health", "quality", "capacity", "objectives", "owners")
    },
    "expectations": "expectations",
}
"""Fields of `Settings` that name a file or folder, and that of the home that counts without."""

MASK = "***"


@app.command()
def config(format: Format = Format.table) -> None:
    """Print each setting: value, source (environment, home file, default), unit, description."""
    rows = setting_rows(invocation().settings)
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        print_rows(rows, COLUMNS, nothing="There is no setting.")


def setting_rows(settings: "Settings") -> list[dict[str, Any]]:
    """Return a row per setting; the value of a secret is masked."""
    from pydantic import SecretStr

    from tidemark.settings.environment import variable_of

    rows = []
    for name, field in type(settings).model_fields.items():
        value, source = getattr(settings, name), "default"
        if name in settings.model_fields_set:
            source = "environment"
        elif name in HOME_FILES and (settings.home.path / HOME_FILES[name]).exists():
            value, source = str(settings.home.path / HOME_FILES[name]), "home file"
        is_secret = isinstance(value, SecretStr)
        if isinstance(value, SecretStr):
            value = MASK if value.get_secret_value() else None
        extra = field.json_schema_extra
        rows.append(
            {
                "name": variable_of(name),
                "value": _shown(value),
                "source": source,
                "unit": (extra.get("unit") or None) if isinstance(extra, dict) else None,
                "secret": is_secret,
                "description": field.description,
            }
        )
    return rows


def _shown(value: Any) -> Any:
    from tidemark.settings.home import Home

    if isinstance(value, Home):
        return str(value.path)
    if isinstance(value, bool):
        return "on" if value else "off"
    return None if value == "" else value
