"""The page of commands, from the `tidemark` command itself."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup

from docs.generate.markdown import code, page, table
from tidemark.cli.main import app

COMPLETION = {"--install-completion", "--show-completion"}
"""Options of the shell that typer adds to every command."""


def commands_page() -> str:
    """Return the page of every command with its arguments and options."""
    parts = [part for path, command in commands() for part in _command(path, command)]
    return page(
        "Commands",
        "Exit code 0 is success, 2 bad usage, 1 anything else with one line on standard error. "
        "`--debug` before the command shows the traceback, `--home` names another home.",
        *parts,
    )


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command that can be run, with its path: ``rules check``."""
    yield from _below("", typer.main.get_command(app))


def options(command: Any) -> list[Any]:
    """Return the arguments and options of a command, without those of every command."""
    return [param for param in command.params if not COMPLETION.intersection(param.opts)]


def _below(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(command, TyperGroup):
        yield path, command
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        yield from _below(f"{path} {name}".strip(), command.get_command(context, name))


def _command(path: str, command: Any) -> list[str]:
    rows = [
        (code(_spelling(option)), _value(option), getattr(option, "help", None) or "")
        for option in options(command)
    ]
    text = (command.help or "").strip()
    cases = [f"## tidemark {path}", text]
    return [*cases, table(("option", "value", "meaning"), rows)] if rows else cases


def _spelling(parameter: Any) -> str:
    if isinstance(parameter, TyperArgument):
        return parameter.human_readable_name
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


def _value(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if parameter.default in (None, "", False) or callable(parameter.default):
        return ""
    return f"default {code(getattr(parameter.default, 'value', parameter.default))}"
