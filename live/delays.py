"""Store times behind the delays of a snapshot: from its brokers, and from the history."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from live import broker_times
from live.clocks import ByOurClock
from live.store_times import StoreTime, StoreTimes, group_queue, undated
from rocketmq.deep.unconsumed import Unconsumed
from rocketmq.records import Snapshot
from rocketmq.snapshot.target import ClusterTarget
from tidemark.model.queues import DelaySource

if TYPE_CHECKING:
    from lake.catalog_config import CatalogConfig

FEW_REQUESTS = 200
"""Requests to one broker that cost it less than reading the history costs us."""

PRECISE = 10
"""A delay from the history is precise when its error is at most this fraction (1/n) of it."""


def store_times(
    catalog: "Callable[[], CatalogConfig] | None", target: ClusterTarget, snapshot: ByOurClock
) -> StoreTimes:
    """Date the first unconsumed messages of all lagging queues, at a bounded cost.

    Brokers date a few messages, which is exact. With many messages, the history dates those that it
    knows precisely: they are old, and a broker reads old messages from disk. The brokers date the
    rest. Messages that they cannot date are dated by the history, however imprecise.

    Args:
        catalog: returns the configuration of the history's catalog; None without a history.
        target: the cluster of the snapshot.
        snapshot: its snapshot of a moment ago.

    Returns:
        Store times; a queue without one keeps the bound that the snapshot gives.
    """
    wanted = list(undated(snapshot))
    if not wanted:
        return StoreTimes()
    history = None
    if broker_times.requests_needed(wanted) > FEW_REQUESTS:
        history = _history(catalog, snapshot, wanted)
        precise = {key for key, time in history.known.items() if _is_precise(time, snapshot)}
        found = broker_times.requested(
            target, snapshot, [it for it in wanted if group_queue(it.row) not in precise]
        )
    else:
        found = broker_times.requested(target, snapshot, wanted)
    missing = [it for it in wanted if group_queue(it.row) not in found.known]
    if missing and history is None:
        history = _history(catalog, snapshot, missing)
    if history:
        found.known = history.known | found.known
        found.problems += history.problems
    return found


def _is_precise(time: StoreTime, snapshot: Snapshot) -> bool:
    if time.source == DelaySource.AT_LEAST or time.error_ms is None:
        return False
    age = snapshot.observed_at - time.at
    return age.total_seconds() * 1000 >= PRECISE * time.error_ms


def _history(
    catalog: "Callable[[], CatalogConfig] | None", snapshot: Snapshot, wanted: Sequence[Unconsumed]
) -> StoreTimes:
    """Read the history, if there is one; a history that cannot be read is a problem."""
    if catalog is None:
        return StoreTimes()
    # Imported here: without a history `tidemark lag` prints before PyIceberg would be imported.
    from lake.failures import one_line
    from live import history_times

    try:
        return history_times.read(catalog(), snapshot, wanted)
    except Exception as error:
        return StoreTimes(problems=[f"progress.timeline: {one_line(error)}"])
