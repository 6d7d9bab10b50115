"""The unconsumed messages of each group on each queue of a snapshot, and samples of them. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from rocketmq import names
from rocketmq.records import ConsumerOffset, QueueOffset, Snapshot


@dataclass(slots=True, frozen=True)
class Unconsumed:
    """The messages of one queue that one group can still read and has not consumed.

    Attributes:
        row: the group's progress on the queue.
        queue: how far the queue is written.
        offsets: from the first such message to the last.
    """

    row: ConsumerOffset
    queue: QueueOffset
    offsets: range


def unconsumed(snapshot: Snapshot) -> Iterator[Unconsumed]:
    """Yield the unconsumed messages of a snapshot; without a commit, the whole retained range.

    Queues without unconsumed messages, and queues with unknown offsets, are left out. So are lite
    topics, because no further request about them is sent (`rocketmq.admin.lite`).
    """
    queues = {
        (queue.broker, queue.topic, queue.queue_id): queue for queue in snapshot.queue_offsets
    }
    for row in snapshot.consumer_offsets:
        queue = queues.get((row.broker, row.topic, row.queue_id))
        if names.is_lite_topic(row.topic):
            continue
        if queue is None or queue.min_offset is None or queue.max_offset is None:
            continue
        first = max(queue.min_offset, row.consumer_offset or 0)
        if first < queue.max_offset:
            yield Unconsumed(row, queue, range(first, queue.max_offset))


def lags_by_pair(behind: Iterable[Unconsumed]) -> dict[str, dict[tuple[str, str], int]]:
    """Return the unconsumed messages of each (topic, consumer group), by broker."""
    found: dict[str, dict[tuple[str, str], int]] = {}
    for it in behind:
        lags = found.setdefault(it.row.broker, {})
        pair = it.row.topic, it.row.consumer_group
        lags[pair] = lags.get(pair, 0) + len(it.offsets)
    return found


def stratified(offsets: range, size: int, run: int, random: Random) -> list[range]:
    """Return a sample of a whole range: one run from each of its equal strata.

    A run starts anywhere in its stratum: producers write tags in turn, and equal steps could meet
    the same tag every time.

    Args:
        offsets: the range to sample, in steps of 1.
        size: offsets to sample; all where the range has no more.
        run: neighbouring offsets that one request reads.
        random: where in its stratum a run starts.

    Returns:
        Runs in order, without overlap, together at most ``size`` offsets.
    """
    run = min(run, size)
    if len(offsets) <= size or run <= 0:
        return [offsets[at : at + size] for at in range(0, len(offsets), size)] if size > 0 else []
    strata = size // run
    runs = []
    for number in range(strata):
        stratum = offsets[len(offsets) * number // strata : len(offsets) * (number + 1) // strata]
        start = random.randrange(len(stratum) - run + 1)
        runs.append(stratum[start : start + run])
    return runs
