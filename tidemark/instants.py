"""Instants as people write them on the command line."""

from datetime import UTC, datetime

import typer


def parse(text: str) -> datetime:
    """Return an ISO 8601 instant in UTC, which is also the zone of a text without one.

    Raises:
        BadParameter: the text is not an instant.
    """
    try:
        instant = datetime.fromisoformat(text)
        return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not an ISO 8601 instant, e.g. 2026-11-19T08:00:00Z"
        ) from None
