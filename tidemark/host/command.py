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
    found = shutil.which(_NAME)
    with suppress(OSError):
        if found and Path(found).samefile(script):
            return _NAME
    return shlex.quote(str(script))


def elsewhere() -> str:
    """Return the command for any other shell of this machine.

    A virtual environment is on PATH only in shells that have activated it.
    """
    found = shutil.which(_NAME)
    if found and "VIRTUAL_ENV" not in os.environ:
        return _NAME
    return shlex.quote(str(_script()))


def pasteable(text: str, command: str) -> str:
    """Return a text with its calls of the command as a shell finds it, by `here` or `elsewhere`."""
    return _CALL.sub(lambda _: f"{command} ", text)


def _script() -> Path:
    return Path(sys.executable).with_name(_NAME)
