"""Comparison of this host's clock with those of the servers that the tables need, for `doctor`.

Snapshots, silences and ages have the time of the host that makes them. Brokers' clocks are measured
with each snapshot; this needs no broker.
"""

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from sqlalchemy.engine import make_url

from lake.catalog_config import CatalogConfig, place_of
from lake.leases import UnreachableError
from lake.postgresql import server_time
from settings.catalog import HTTP, REST
from tidemark.errors import CommandError

WAITS_SECONDS = 10.0
"""Longest wait for a server's response; other checks report a server without one."""

MINUTE = timedelta(minutes=1)


def check_clock(config: CatalogConfig) -> str:
    """Compare this host's clock with those of the database and of servers that speak HTTP.

    A difference counts from half a minute on: a ``Date`` has seconds, and a round trip takes some.

    Args:
        config: how the catalog is reached.

    Raises:
        CommandError: the clock of this host is minutes off one of them.
    """
    compared = []
    for place, read in _clocks(config):
        ahead = _ahead(read)
        if ahead is None:
            continue
        if minutes := abs(round(ahead / MINUTE)):
            side = "behind" if ahead > timedelta(0) else "ahead of"
            raise CommandError(
                f"the clock of this host is {minutes} min {side} that of {place}: synchronize it, "
                "snapshots have its time"
            )
        compared.append(place)
    if not compared:
        return "not compared: no server of the settings has one"
    return f"within a minute of {', '.join(compared)}"


def _clocks(config: CatalogConfig) -> Iterator[tuple[str, Callable[[], datetime | None]]]:
    """Yield the servers of a catalog, and how the clock of each is read."""
    if config.database:
        yield place_of(make_url(config.database)), lambda: server_time(config.database)
    of_catalog = config.python["uri"] if config.python["type"] == REST else ""
    for address in (of_catalog, config.python.get("s3.endpoint", "")):
        if address.startswith(HTTP):
            yield address, lambda address=address: _date_of(address)


def _ahead(read: Callable[[], datetime | None]) -> timedelta | None:
    """Return how far a clock is ahead of ours; None where it cannot be read."""
    started, at = time.monotonic(), datetime.now(UTC)
    with suppress(OSError, ValueError, UnreachableError):
        if found := read():
            return found - at - timedelta(seconds=time.monotonic() - started) / 2
    return None


def _date_of(address: str) -> datetime | None:
    """Return the ``Date`` of a response, of an error too; None without one."""
    request = urllib.request.Request(address, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=WAITS_SECONDS) as response:
            date = response.headers["Date"]
    except urllib.error.HTTPError as error:
        date = error.headers["Date"]
    return parsedate_to_datetime(date) if date else None
