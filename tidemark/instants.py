"""Instants as people write them on the command line."""

from datetime import UTC, datetime

import typer


def parse(text: str) -> datetime:
    """An ISO 8601 instant; UTC without a zone.

    Raises:
        BadParameter: it is none.
    """
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no ISO 8601 instant, e.g. 2026-11-19T08:00:00Z"
        ) from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
