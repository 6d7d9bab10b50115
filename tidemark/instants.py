"""Instants as people write them on the command line."""

from datetime import datetime

import typer

from settings.instants import utc_instant


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
