"""Settings files that a process reads, and the secrets that they name as ``${NAME}``."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidemark.settings.home import Home

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def expanded(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Return a text with the values of the variables that it names.

    Args:
        text: as a file has it.
        environ: the environment; None = that of this process.

    Raises:
        ValueError: a variable is not set; the message names it and no value.
    """
    known = os.environ if environ is None else environ
    for name in _VARIABLE.findall(text):
        if not known.get(name):
            raise ValueError(f"the variable {name} is not set")
    return _VARIABLE.sub(lambda match: known[match[1]], text)


@dataclass(frozen=True)
class SettingsFile:
    """A settings file, or a folder of them.

    Attributes:
        path: where it is.
        required: whether it has to exist, because a variable names it.
    """

    path: Path
    required: bool = False

    @classmethod
    def of(cls, home: Home, default_name: str, named: str = "") -> "SettingsFile":
        """Return the file that a variable names, else that of the default name in the home."""
        return cls(Path(named), required=True) if named else cls(home.path / default_name)

    @property
    def missing(self) -> bool:
        """Whether it does not exist and need not."""
        return not self.required and not self.path.exists()
