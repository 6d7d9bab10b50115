"""Secrets in settings files: ``${NAME}`` is replaced by a variable of the environment."""

import os
import re
from collections.abc import Mapping

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
    return _VARIABLE.sub(lambda found: known[found[1]], text)
