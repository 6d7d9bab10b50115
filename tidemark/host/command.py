"""The `tidemark` command as a shell finds it, for lines that a person pastes."""

import os
import re
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path

_NAME = "tidemark"
_CALL = re.compile(rf"(?<![\w./-]){_NAME} (?=[a-z])")


def here() -> str:
    """Return the command for the shell that this process was started from.

    That is its name where the shell finds it on PATH, else the path as it was typed.
    """
    script = Path(sys.argv[0])
    if script.name != _NAME:
        script = _script()
    return _NAME if _is_on_path(script) else shlex.quote(str(script))


def elsewhere() -> str:
    """Return the command for any other shell of this machine.

    A virtual environment is on PATH only in shells that have activated it.
    """
    if "VIRTUAL_ENV" not in os.environ and _is_on_path(_script()):
        return _NAME
    return shlex.quote(str(_script()))


def pasteable(text: str, command: str) -> str:
    """Return a text with its calls of the command as a shell finds it, by `here` or `elsewhere`."""
    return _CALL.sub(lambda _: f"{command} ", text)


def _is_on_path(script: Path) -> bool:
    """Return whether the shell finds this command, and not that of another installation."""
    first = shutil.which(_NAME)
    with suppress(OSError):
        return first is not None and Path(first).samefile(script)
    return False


def _script() -> Path:
    return Path(sys.executable).with_name(_NAME)
