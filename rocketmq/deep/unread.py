"""What lies before each group on each queue of a snapshot, and samples of it. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from rocketmq.rows import ConsumerOffset, QueueOffset, Snapshot


@dataclass(slots=True, frozen=True)
class Unread:
    """The messages of one queue that one group can still read and has not consumed.

    Attributes:
        row: the group's progress on the queue.
        queue: how far the queue is written.
        offsets: from the first such message to the last.
    """

    row: ConsumerOffset
    queue: QueueOffset
    offsets: range


def unread(snapshot: Snapshot) -> Iterator[Unread]:
    """Everything unread in a snapshot; of a queue never committed all that is stored.

    Queues without unread messages, and such whose offsets are not known, are left out.
    """
    queues = {
        (queue.broker, queue.topic, queue.queue_id): queue for queue in snapshot.queue_offsets
    }
    for row in snapshot.consumer_offsets:
        queue = queues.get((row.broker, row.topic, row.queue_id))
        if queue is None or queue.min_offset is None or queue.max_offset is None:
            continue
        first = max(queue.min_offset, row.consumer_offset or 0)
        if first < queue.max_offset:
            yield Unread(row, queue, range(first, queue.max_offset))


def stratified(offsets: range, size: int, run: int, random: Random) -> list[range]:
    """A sample over the whole of a range: it is cut into equal strata, each gives one run.

    A run starts anywhere in its stratum: producers write tags in turn, and with equal steps a
    sample could meet the same tag every time.

    Args:
        offsets: where to sample, in steps of 1.
        size: offsets to take; all where the range holds no more.
        run: neighbours taken at once, as one request gives them.
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
