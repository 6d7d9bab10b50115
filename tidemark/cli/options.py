"""Options that several commands share: paths, persons, instants, name servers."""

import getpass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from tidemark.settings.times import utc_instant


def path(text: str) -> Path:
    """Return a path; an empty one is no name, though Python takes it for the working folder.

    Raises:
        BadParameter: the text is empty, as a variable without a value leaves it.
    """
    if not text:
        raise typer.BadParameter("it is empty: name a file or folder, . for the working folder")
    return Path(text)


def me() -> str:
    """Return the name of their account."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def parse(text: str) -> datetime:
    """Return an ISO 8601 instant in UTC, which is also the zone of a text without one.

    Raises:
        BadParameter: the text is not an instant.
    """
    try:
        return utc_instant(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not an ISO 8601 instant, e.g. 2026-11-19T08:00:00Z"
        ) from None


NamesrvOption = Annotated[
    str,
    typer.Option(
        "--namesrv",
        help="Name servers, HOST:PORT separated by ';', else TIDEMARK_NAMESRV.",
    ),
]
