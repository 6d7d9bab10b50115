"""The one way to read an instant that a person wrote: ISO 8601, in UTC unless it names a zone."""

from datetime import UTC, datetime


def utc_instant(text: str) -> datetime:
    """Return an instant in UTC, which is also the zone of a text without one.

    Raises:
        ValueError: the text is no ISO 8601 instant.
        OverflowError: its year is one in its own zone, and none in UTC.
    """
    instant = datetime.fromisoformat(text)
    return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)
