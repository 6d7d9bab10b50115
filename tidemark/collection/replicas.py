"""Replication in time: how long ago a master's commit log ended where its slave's ends now.

Brokers report bytes only. The ends of the master's commit log at earlier snapshots date them, as
offsets of a queue date its messages.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter

from tidemark.rocketmq.records import Broker

Ends = Sequence[tuple[datetime, int]]
"""Instants of snapshots, in order, each with the end of a master's commit log at it."""

REMEMBERED = timedelta(hours=24)
"""Time that ends are remembered."""

FINENESS = 6
"""An end between two others is forgotten when these are closer than this part of its age, so a day
takes some fifty ends, and an age is off by a sixth at most."""


def advanced(ends: Ends, at: datetime, end: int) -> list[tuple[datetime, int]]:
    """Return the ends with one more, without those that are no longer needed.

    A commit log that is shorter than before is another one, as after a failover: nothing that was
    remembered dates it. Nor does a clock that was set back.
    """
    if ends and (ends[-1][1] > end or ends[-1][0] >= at):
        ends = []
    kept: list[tuple[datetime, int]] = []
    for place, (instant, value) in enumerate(ends):
        if at - instant > REMEMBERED:
            continue
        following = ends[place + 1][0] if place + 1 < len(ends) else at
        if kept and (following - kept[-1][0]) * FINENESS < at - instant:
            continue
        kept.append((instant, value))
    return [*kept, (at, end)]


@dataclass(frozen=True)
class Behind:
    """How long ago a commit log ended somewhere.

    Attributes:
        time: the time since; at least so much where `is_lower_bound`.
        is_lower_bound: whether it ended there before everything that is remembered.
    """

    time: timedelta
    is_lower_bound: bool = False


NOTHING = timedelta()


def behind(ends: Ends, own: int) -> Behind | None:
    """Return how far a slave is behind; None where no earlier end is known.

    Args:
        ends: those of its master, with that of this snapshot.
        own: the end of the slave's commit log.
    """
    at, end = ends[-1]
    if own >= end:
        return Behind(NOTHING)
    if len(ends) == 1:
        return None
    place = bisect_right(ends, own, key=itemgetter(1))
    if place == 0:
        return Behind(at - ends[0][0], is_lower_bound=True)
    (since, low), (until, high) = ends[place - 1], ends[place]
    return Behind(at - since - (until - since) * ((own - low) / (high - low)))


def date_replicas(
    brokers: Iterable[Broker], at: datetime, remembered: Mapping[str, Ends]
) -> dict[str, list[tuple[datetime, int]]]:
    """Fill how long slaves are behind their masters, and return what is remembered from now on.

    Args:
        brokers: the rows of a snapshot, filled here.
        at: its instant.
        remembered: the ends of masters with slaves, by broker group.
    """
    rows = list(brokers)
    with_slaves = {row.broker for row in rows if row.broker_id}
    ends = {
        row.broker: advanced(remembered.get(row.broker, ()), at, row.commit_log_max_offset)
        for row in rows
        if row.broker_id == 0
        and row.commit_log_max_offset is not None
        and row.broker in with_slaves
    }
    for row in rows:
        if row.replica_behind_bytes is None or row.commit_log_max_offset is None:
            continue
        result = behind(ends[row.broker], row.commit_log_max_offset)
        if result:
            row.replica_behind_ms = round(result.time / timedelta(milliseconds=1))
            row.replica_behind_is_lower_bound = result.is_lower_bound
    # A master that did not respond is as far as it was: its ends still date its slaves later.
    unresponsive = with_slaves - ends.keys()
    return ends | {name: list(remembered[name]) for name in unresponsive & remembered.keys()}
