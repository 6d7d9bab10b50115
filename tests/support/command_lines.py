"""Command lines of deployment files, read by the programs that they name, without being run."""

import contextlib
import io
from collections.abc import Sequence

import click
import typer

from tests.support.checkout import ROOT
from tidemark.settings.environment import Settings, variable_of

SETTINGS = {variable_of(field) for field in Settings.model_fields}
"""Every variable of Tidemark."""

DEPLOY = ROOT / "deploy"

WORKSPACE = DEPLOY / "dagster" / "workspace.yaml"

GUARDED = ["tidemark", "webserver"]
"""How deployments serve Dagster's pages: behind the guard."""

PLACES = ("/etc/dagster/workspace.yaml", "/etc/tidemark/workspace.yaml")
"""Where deployments put the workspace."""


def mistake(words: Sequence[str]) -> str | None:
    """Return why a program would not take this command line; None where it does."""
    program, *arguments = (str(WORKSPACE) if word in PLACES else word for word in words)
    if [program, *arguments[:1]] == GUARDED:
        # It passes its options on.
        program, arguments = "dagster-webserver", arguments[1:]
    root = _programs().get(program)
    if root is None:
        return f"{program}: no program of the image"
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            _parse(root, program, arguments)
    except click.ClickException as error:
        return error.format_message()
    except Exception as error:  # typer carries a click of its own
        return f"{type(error).__name__}: {error}"
    return None


def _programs():
    from dagster._cli import create_dagster_cli
    from dagster._daemon.cli import create_dagster_daemon_cli
    from dagster_webserver.cli import dagster_webserver

    from tidemark.cli.main import app

    return {
        "tidemark": typer.main.get_command(app),
        "dagster": create_dagster_cli(),
        "dagster-daemon": create_dagster_daemon_cli(),
        "dagster-webserver": dagster_webserver,
    }


def _parse(command, name: str, arguments: Sequence[str]) -> None:
    """Parse a command and the commands below it, as a group would call them."""
    context = command.make_context(name, [*arguments])
    if not hasattr(command, "get_command"):
        return
    rest = [*getattr(context, "_protected_args", []), *context.args]
    assert rest, f"{name} needs a command"
    result = command.get_command(context, rest[0])
    assert result is not None, f"{name} has no command {rest[0]!r}"
    _parse(result, rest[0], rest[1:])
