"""Instants and durations as people write them on the command line."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer


@dataclass(frozen=True)
class Written:
    """An instant, and how it was written.

    Attributes:
        at: the instant, with zone.
        text: as it was written.
    """

    at: datetime
    text: str


def parse(text: str) -> Written:
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
    return Written(instant if instant.tzinfo else instant.replace(tzinfo=UTC), text)


Instant = Annotated[Written, typer.Option(parser=parse, metavar="ISO")]
