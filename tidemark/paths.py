"""Files and folders as people name them on the command line."""

from pathlib import Path

import typer


def path(text: str) -> Path:
    """Return a path; an empty one is no name, though Python takes it for the working folder.

    Raises:
        BadParameter: the text is empty, as a variable without a value leaves it.
    """
    if not text:
        raise typer.BadParameter("it is empty: name a file or folder, . for the working folder")
    return Path(text)
