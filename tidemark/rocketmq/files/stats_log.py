"""``stats.log``: every counter of a broker, printed each minute, hour and day for years.

A line has an instant (``%d{yyy-MM-dd HH:mm:ss,GMT+8}``: always eight hours ahead of UTC, whatever
the host's zone), a counter, and the window that ends at the instant. Numbers are printed in the
locale of the JVM, so a fraction may begin with a comma.
"""

import gzip
import heapq
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from tidemark.model.snapshots import SnapshotSource, SnapshotStatus
from tidemark.rocketmq.files.mapped_files import FileError, reason_of
from tidemark.rocketmq.records import BrokerStats, Problem, Snapshot

ZONE = timezone(timedelta(hours=8))
OPERATION = "READ stats.log"

_NUMBER = r"(-?\d+(?:[.,\u066b]\d+)?|-?NaN|-?Infinity)"
_LINE = re.compile(
    r"([0-9]{4}-[0-9-]{5} [0-9:]{8}) \w+ +- \[(\w+)\] \[([^\]]*)\] "
    r"Stats In One (Minute|Hour|Day), "
    rf"(?:SUM: (-?\d+) TPS: {_NUMBER} AVGPT: {_NUMBER}|TIMES: \d+ AVGRT: {_NUMBER})\s*"
)
"""A counter or a round trip; "Stats Every 5 Minutes" has momentary values, which are not rates.
For a round trip only the number of calls and their mean are printed: the sum is unknown."""

_BY_GROUP = frozenset(
    {
        *("GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS", "GROUP_ACK_NUMS"),
        *("GROUP_CK_NUMS", "GROUP_GET_FROM_DISK_NUMS", "GROUP_GET_FROM_DISK_SIZE"),
    }
)
_BY_QUEUE = frozenset({"QUEUE_PUT_NUMS", "QUEUE_PUT_SIZE", "QUEUE_GET_NUMS", "QUEUE_GET_SIZE"})
_BY_TOPIC = frozenset({"TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"})
_LATENCY = frozenset({"GROUP_GET_LATENCY", "TOPIC_PUT_LATENCY"})

Line = tuple[datetime, BrokerStats]
"""(instant of a line, its counter)."""

MAX_LINE = 4096
"""Bytes read of a line: names are short, and a file may have no line ends at all."""


def read_stats_log(
    files: Iterable[Path | str], *, cluster: str, broker: str, broker_id: int = 0
) -> Iterator[Snapshot]:
    """Read logs of one broker, rolled ones (``.gz``) too, into one snapshot per instant.

    A snapshot is built only when the caller takes it, and earlier ones are not kept in memory.
    Files may be in any order and overlap.

    Args:
        files: logs of one and the same broker.
        cluster: Tidemark's name of the cluster; the files do not contain it.
        broker: name of the broker group; the files do not contain it.
        broker_id: 0 for a master.

    Yields:
        Snapshots in the order of time, each with ``broker_stats`` only. Where a file breaks off or
        cannot be read, the next snapshot is ``PARTIAL`` and has the problem. It is also
        ``PARTIAL`` when its logs have two values for a counter, as logs of two brokers do. Such a
        counter is left out.

    Raises:
        FileError: at the end, when a file could not be read and no later snapshot has the problem.
    """
    problems: list[FileError] = []
    logs = [_lines(Path(path), broker, broker_id, problems) for path in files]
    merged = heapq.merge(*logs, key=itemgetter(0))
    for at, lines in groupby(merged, key=itemgetter(0)):
        rows, item = _once((row for _, row in lines), broker)
        item += [error.problem(OPERATION) for error in problems]
        problems.clear()
        # Instants are whole seconds, and all brokers print at the begin of each minute.
        part = f"{broker}@{broker_id}" if broker_id else broker
        yield _snapshot(cluster, part, at, rows, item)
    if problems:
        raise problems[0]


def _once(rows: Iterable[BrokerStats], broker: str) -> tuple[list[BrokerStats], list[Problem]]:
    """Return each counter of an instant once, and the problem of counters with two values."""
    first: dict[tuple[int, str, str, str], BrokerStats] = {}
    conflicting: dict[tuple[int, str, str, str], BrokerStats] = {}
    for row in rows:
        key = row.broker_id, row.stats_name, row.stats_key, row.stats_window
        if first.setdefault(key, row) != row:
            conflicting[key] = row
    if not conflicting:
        return list(first.values()), []
    one = next(iter(conflicting.values()))
    which = f"{len(conflicting)} counters have two values, such as {one.stats_name}"
    message = f"{which} {one.stats_key}: are these logs of one broker?"
    rest = [row for key, row in first.items() if key not in conflicting]
    return rest, [Problem(endpoint=broker, operation=OPERATION, code=None, message=message)]


def _snapshot(
    cluster: str, part: str, at: datetime, rows: list[BrokerStats], problems: list[Problem]
) -> Snapshot:
    return Snapshot(
        cluster=cluster,
        source=SnapshotSource.STATS_LOG,
        observed_at=at,
        finished_at=at,
        status=SnapshotStatus.PARTIAL if problems else SnapshotStatus.COMPLETE,
        brokers_expected=1,
        brokers_answered=1,
        problems=problems,
        broker_stats=rows,
        part=part,
    )


def _lines(path: Path, broker: str, broker_id: int, problems: list[FileError]) -> Iterator[Line]:
    """Yield the counters of one file; a file that breaks off is a problem."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while line := file.readline(MAX_LINE):
                counter = parse_line(line.decode(errors="replace"), broker, broker_id)
                if counter:
                    yield counter
    except (OSError, EOFError, zlib.error) as error:
        problems.append(FileError(path, reason_of(error)))


def parse_line(line: str, broker: str, broker_id: int = 0) -> Line | None:
    """Return the counter of a line; None for other lines."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    printed, name, key, window, total, tps, average, round_trip = match.groups()
    try:
        at = datetime.fromisoformat(printed).replace(tzinfo=ZONE).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    topic, group = key_parts(name, key)
    row = BrokerStats(
        broker=broker,
        broker_id=broker_id,
        stats_name=name,
        stats_key=key,
        topic=topic,
        consumer_group=group,
        stats_window=window.lower(),
        sum=_long(total),
        tps=_number(tps),
        avgpt=_number(average or round_trip),
    )
    return at, row


def key_parts(name: str, key: str) -> tuple[str | None, str | None]:
    """Return (topic, consumer group) of a counter's key; None for a part it lacks.

    Args:
        name: of the counter, e.g. ``GROUP_GET_NUMS``.
        key: the subject of the count, e.g. ``topic@group``; other parts are queue ids.
    """
    parts: Sequence[str] = key.split("@")
    if name in _BY_TOPIC:
        return key, None
    if name in _BY_GROUP and len(parts) == 2:
        return parts[0], parts[1]
    if name in _BY_QUEUE:
        return parts[0], parts[2] if len(parts) == 3 else None
    if name in _LATENCY:
        rest = parts[1:] if parts[0].isdecimal() and len(parts) > 1 else parts
        return rest[0], rest[1] if len(rest) == 2 else None
    return None, None


def _long(text: str | None) -> int | None:
    value = None if text is None else int(text)
    return value if value is not None and -(2**63) <= value < 2**63 else None


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    value = float(text.replace(",", ".").replace("\u066b", "."))
    return value if math.isfinite(value) else None
