"""Mistakes of a command line, with the option or the command that was probably meant."""

from collections.abc import Iterator
from typing import Any

import typer

from tidemark.model.spelling import nearest

UsageError: Any = typer.BadParameter.__base__
"""The error of every mistake in a command line; Typer exports only a kind of it."""


def explain(error: Any, commands: Any, ctx: Any) -> None:
    """Add to the message of a mistake what was probably meant, where that is clear.

    Args:
        error: the mistake.
        commands: the group of all commands.
        ctx: its context, which has the name of the program.
    """
    place = error.ctx
    option = getattr(error, "option_name", None)
    if option and place is not None:
        meant = _takers(option, place, commands, ctx)
        if meant:
            error.possibilities = None
            error.message = f"No such option here: {option}. {meant}"
    elif place is ctx and error.message.startswith("No such command"):
        word = error.message.split("'")[1]
        below = [
            f"{group} {name}"
            for group, name in _nested(commands, ctx)
            if name == word or word == f"{group}-{name}"
        ]
        near = nearest(word, commands.list_commands(ctx))
        known = below or ([near] if near else [])
        if known:
            meant = " or ".join(f"'{ctx.info_name} {name}'" for name in known)
            error.message = f"{error.message.rstrip('.')}. Did you mean {meant}?"


def _takers(option: str, place: Any, commands: Any, root: Any) -> str:
    """Return where an option stands: before the command, or after one of a group."""
    if place is not root and option in _options(commands):
        path = place.command_path.removeprefix(root.info_name).strip()
        value = " VALUE" if not _options(commands)[option].is_flag else ""
        return f"It stands before the command: {root.info_name} {option}{value} {path}"
    if hasattr(place.command, "list_commands"):
        named = [
            name
            for name in place.command.list_commands(place)
            if place is not root and option in _options(place.command.get_command(place, name))
        ]
        if named:
            choices = " or ".join(f"{place.command_path} {name} {option}" for name in named)
            return f"It stands after a command: {choices}"
    return ""


def _options(command: Any) -> dict[str, Any]:
    return {name: option for option in command.params for name in option.opts}


def _nested(commands: Any, ctx: Any) -> Iterator[tuple[str, str]]:
    """Yield all commands that belong to a group, with its name."""
    for group in commands.list_commands(ctx):
        command = commands.get_command(ctx, group)
        if hasattr(command, "list_commands"):
            for name in command.list_commands(ctx):
                yield group, name
