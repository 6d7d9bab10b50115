"""Health: each state on a few observations, and its independence of how history is split."""

import json
import random
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from spark.progress.health import with_health
from tests.support.plan_readers import reader_with
from tests.support.table_rows import frame, minute, minutes, snapshot_id
from tidemark.board.pages.wording import CHINESE, reason
from tidemark.lake.tables import progress, raw
from tidemark.model.health import FACTS, CacheLimit, HealthReason
from tidemark.planning.history import LoadedSnapshot
from tidemark.planning.run_plan import Observation, recent_observations
from tidemark.settings.health import DEFAULTS, Override

pytestmark = pytest.mark.spark

RECORDED = Path(__file__).parents[2] / "fixtures" / "health_reasons.json"
"""State and text of every case, as recorded with version 0.2.0."""

LAST = 9
"""The minute of the newest observation of a case; it has one a minute."""


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue at an observation.

    Attributes:
        commit: next offset to consume, None when never committed.
        maximum: next offset to be written.
        pull: next offset to hand out.
        minimum: first offset stored.
        cached: messages of it that a client reports to hold.
        most: cached messages above which that client does not pull.
    """

    commit: int | None
    maximum: int
    pull: int | None = None
    minimum: int = 0
    cached: int | None = None
    most: int | None = 1000
    rank: int | None = None

    @property
    def lost(self):
        return None if self.commit is None else max(0, self.minimum - self.commit)

    @property
    def upper(self):
        return self.maximum - max(self.commit or 0, self.minimum)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """An observation of a group: its queues by id, none when nothing is known."""

    queues: tuple[Queue, ...] = ()
    online: bool | None = True
    tps: float | None = None
    model: str = "CLUSTERING"
    store: str = "broker"
    clients: int | None = 1
    mode: str | None = None
    ack_tps: float | None = None
    topic: str = "orders"
    bound: bool | None = None
    inflight: int | None = None
    redelivered_tps: float | None = 0.0
    witness: int | None = None


def popped(observations, *ack_tps):
    """The same of a POP group; what brokers counted at the last of them, None = not requested."""
    rates = [None] * (len(observations) - len(ack_tps)) + list(ack_tps)
    return [
        replace(seen, mode="pop", ack_tps=rate, bound=True)
        for seen, rate in zip(observations, rates, strict=True)
    ]


def flying(observations, *inflight):
    """The same, with a known number of messages in flight at the last of them."""
    counts = [None] * (len(observations) - len(inflight)) + list(inflight)
    return [
        replace(seen, inflight=count, bound=seen.bound and count is None)
        for seen, count in zip(observations, counts, strict=True)
    ]


def without_subscriptions(observations):
    """The same, with members that report no subscription."""
    return [replace(seen, clients=None) for seen in observations]


def lags(*values, online=True, tps=None, start=1000):
    """One queue, consumed on and on, with that lag at each observation."""
    return [
        Seen(
            queues=(Queue(commit=start + 100 * at, maximum=start + 100 * at + lag),),
            online=online,
            tps=tps,
        )
        for at, lag in enumerate(values)
    ]


def stands(*maxima, commit: int | None = 50, pulls=(), online: bool | None = True, **other):
    """One queue with the same commit at each observation."""
    pulls = pulls or [None] * len(maxima)
    return [
        Seen(queues=(Queue(commit=commit, maximum=high, pull=pull, **other),), online=online)
        for high, pull in zip(maxima, pulls, strict=True)
    ]


def holding(observations, cached, most: int | None = 1000):
    """The same, with messages of each queue in the cache of a client."""
    return [
        replace(seen, queues=tuple(replace(it, cached=cached, most=most) for it in seen.queues))
        for seen in observations
    ]


def offline(observations, since):
    """The same, with no client online from one of them on."""
    return [
        replace(seen, online=False) if at >= since else seen for at, seen in enumerate(observations)
    ]


def of_lite_topic(observations):
    """The same on a lite topic: popped, with a commit that follows the acknowledgements."""
    return [replace(seen, mode="pop", topic="%LMQ%$sessions$alice") for seen in observations]


UNKNOWN = Seen()
MOVING = Queue(commit=500, maximum=500)

CASES = {
    # New losses come before any other state; earlier losses do not count.
    "loses": (
        [Seen(queues=(Queue(commit=10, maximum=100, minimum=low),)) for low in (0, 15, 40)],
        "LOSING",
        "expired messages 30, were 0 over 3 observations (120 s): broker-a/0: 30 expired, were 0",
    ),
    "loses and is hidden": (
        [Seen(queues=(Queue(commit=10, maximum=100, minimum=low),)) for low in (0, 15)] + [UNKNOWN],
        "LOSING",
        "expired messages 5, were 0",
    ),
    "loses after its first commit": (
        [
            Seen(queues=(Queue(commit=commit, maximum=100, minimum=low),))
            for commit, low in ((None, 0), (10, 0), (10, 60))
        ],
        "LOSING",
        "expired messages 50, were 0",
    ),
    "lost long ago": (
        [Seen(queues=(Queue(commit=10, maximum=100, minimum=40),))] * 3,
        "STALLED",
        None,
    ),
    # Unknown.
    "hidden now": (
        [*lags(5, 5, 5, 5), UNKNOWN],
        "UNKNOWN",
        "2 of 2 queues unknown",
    ),
    "known twice": (lags(5, 5), "UNKNOWN", "too few observations to judge: 2 of 2 known"),
    "known twice, hidden once": (
        [*lags(5), UNKNOWN, *lags(5)],
        "UNKNOWN",
        "too few observations to judge: 2 of 3 known",
    ),
    "known three times": (lags(5, 5, 5), "OK", "readable lag 5, was 5 over 3 observations (120 s)"),
    "hidden in between": (
        [*lags(9, 8), UNKNOWN, *lags(7, start=1300)],
        "OK",
        "readable lag 7, was 9",
    ),
    # No client online.
    "stopped": (
        stands(*[80] * 10, online=False),
        "STOPPED",
        "no client online and no commit advances: readable lag 30, most on broker-a/0 (30), "
        "over 10 observations (540 s)",
    ),
    "stopped a minute ago": (offline(lags(*[9] * 10), since=9), "OK", None),
    "stopped two minutes ago": (
        [
            *lags(*[9] * 8),
            *[Seen(queues=(Queue(commit=1700, maximum=1800 + at),), online=False) for at in (0, 9)],
        ],
        "STOPPED",
        None,
    ),
    "consumed by an unknown client": (offline(lags(*[9] * 10), since=0), "OK", None),
    "stopped with nothing left": (stands(*[50] * 10, online=False), "IDLE", None),
    # Whoever is online: a standstill is one.
    "stands with members unknown": (
        stands(*[80] * 10, online=None),
        "STALLED",
        "standing, members unknown: broker-a/0: commit stays at 50, 30 unconsumed messages",
    ),
    "holds messages with members unknown": (
        stands(80, 90, 100, pulls=(80, 90, 100), online=None),
        "BLOCKED",
        "standing, members unknown: broker-a/0: commit stays at 50, 50 unconsumed messages, "
        "pull offset advanced from 80 to 100",
    ),
    "dead gRPC group behind a proxy that nobody requested": (
        popped(stands(*range(80, 90), online=None)),
        "STALLED",
        "standing, members unknown: broker-a/0: commit stays at 50, ≥ 39 unconsumed messages, "
        "acknowledgements unknown",
    ),
    "FIFO group with one message that never ends": (
        popped(stands(*range(80, 90)), 0.0, *[None] * 4),
        "STALLED",
        "broker-a/0: commit stays at 50, ≥ 39 unconsumed messages",
    ),
    "the same before acknowledgements were counted": (
        popped(stands(*range(80, 90))),
        "STALLED",
        "broker-a/0: commit stays at 50, ≥ 39 unconsumed messages, acknowledgements unknown",
    ),
    "one queue stands while nobody seen consumes another": (
        [
            Seen(queues=(replace(MOVING, commit=at), Queue(commit=7, maximum=9)), online=False)
            for at in (400, 410, 420)
        ],
        "STOPPED|STALLED",
        None,
    ),
    # Acknowledgements are progress of a POP group, whose commit moves when it pops.
    "popped and acknowledged": (popped(stands(*[50] * 10), 0.5, None), "OK", None),
    # A lag of 0 of a POP group means that all is popped, not that all is finished.
    "popped, acknowledgements unknown": (
        popped(stands(*[50] * 10)),
        "UNKNOWN",
        "messages in flight unknown, acknowledgements unknown, readable lag ≥ 0, was ≥ 0",
    ),
    "popped and nothing acknowledged": (
        popped(stands(*[50] * 10), 0.0, None),
        "UNKNOWN",
        "messages in flight unknown, no acknowledgement counted, readable lag ≥ 0, was ≥ 0",
    ),
    "pops on and acknowledges nothing": (popped(lags(*[5] * 10), 0.0, None), "UNKNOWN", None),
    "pops on and acknowledges": (popped(lags(*[5] * 10), 0.5, None), "OK", None),
    "popped and idle": (flying(popped(stands(*[50] * 10), 0.0), 0, 0), "IDLE", None),
    "popped in order, and an endpoint knows of messages in flight": (
        [replace(seen, bound=False, witness=7) for seen in popped(stands(*[50] * 10), 0.0)],
        "UNKNOWN",
        None,
    ),
    "popped and in flight": (flying(popped(stands(*[50] * 10), 0.0), 0, 9), "OK", None),
    "holds what it popped": (
        flying(popped(stands(*[50] * 10), 0.0), 144, 144),
        "BLOCKED",
        "144 messages in flight, were 144 over 10 observations (540 s), no acknowledgement counted",
    ),
    "finishes what it popped": (flying(popped(stands(*[50] * 10), 0.0), 144, 90), "OK", None),
    "popped in flight, and acknowledges": (
        flying(popped(stands(*[50] * 10), 0.5), 144, 144),
        "OK",
        None,
    ),
    "pops nothing and acknowledges": (popped(stands(*[80] * 10), 0.5, None), "OK", None),
    "pops and acknowledges nothing": (popped(stands(*[80] * 10), 0.0), "STALLED", None),
    "pops no more, cache full": (
        popped(stands(*[80] * 10, cached=9), 0.5),
        "OK",
        None,
    ),
    "acknowledged by an unknown client": (
        popped(stands(*[80] * 10, online=False), 0.5, None, None),
        "OK",
        None,
    ),
    "POP group stopped": (popped(stands(*[80] * 10, online=False), 0.0), "STOPPED", None),
    # Where a commit moves and no member is reported, `online` is unknown.
    "consumed now and then by an unknown client": (
        [
            Seen(
                queues=(Queue(commit=1000 + at // 3, maximum=1009),),
                online=None if at and at % 3 == 0 else False,
            )
            for at in range(9)
        ],
        "OK",
        None,
    ),
    # Queues of lower priority wait while those above them are consumed.
    "low priorities wait": (
        popped(
            [
                Seen(
                    queues=(
                        Queue(commit=7, maximum=9, rank=2),
                        Queue(commit=8, maximum=9, rank=1),
                        Queue(commit=at, maximum=at + 5, rank=0),
                    )
                )
                for at in (400, 410, 420)
            ],
            0.5,
        ),
        "OK",
        None,
    ),
    "low priorities wait, acknowledgements unknown": (
        popped(
            [
                Seen(
                    queues=(
                        Queue(commit=7, maximum=9, rank=1),
                        Queue(commit=at, maximum=at + 5, rank=0),
                    )
                )
                for at in (400, 410, 420)
            ],
        ),
        "UNKNOWN",
        "messages in flight unknown",
    ),
    "the highest priority stands": (
        popped(
            [
                Seen(
                    queues=(
                        Queue(commit=at, maximum=at + 5, rank=1),
                        Queue(commit=7, maximum=9, rank=0),
                    )
                )
                for at in (400, 410, 420)
            ],
            0.0,
        ),
        "STALLED",
        "broker-a/1: commit stays at 7, ≥ 2 unconsumed messages",
    ),
    "all priorities stand": (
        popped(
            [Seen(queues=(Queue(commit=7, maximum=9, rank=1), Queue(commit=8, maximum=9, rank=0)))]
            * 3,
            0.0,
        ),
        "STALLED",
        "broker-a/0: commit stays at 7, ≥ 2 unconsumed messages; broker-a/1: commit stays at 8",
    ),
    # A queue is standing.
    "blocked": (
        stands(80, 90, 100, pulls=(80, 90, 100)),
        "BLOCKED",
        "broker-a/0: commit stays at 50, 50 unconsumed messages, "
        "pull offset advanced from 80 to 100",
    ),
    "holds messages": (
        stands(80, 80, 80, pulls=(60, 60, 60), cached=10),
        "BLOCKED",
        "broker-a/0: commit stays at 50, 30 unconsumed messages, 10 in the cache of client",
    ),
    "holds all it may": (
        stands(2080, 2080, 2080, cached=1004),
        "BLOCKED",
        "broker-a/0: commit stays at 50, 2030 unconsumed messages, 1004 in the cache of client, "
        "which pulls no more (1004 of 1000 messages)",
    ),
    "hung from the start": (
        stands(80, 90, 99, commit=None, pulls=(80, 90, 99)),
        "BLOCKED",
        "broker-a/0: never committed, 99 unconsumed messages, pull offset advanced from 80 to 99",
    ),
    "stalled": (
        stands(80, 90, 100, pulls=(80, 80, 80)),
        "STALLED",
        "broker-a/0: commit stays at 50, 50 unconsumed messages",
    ),
    "one queue stalled": (
        [
            Seen(queues=(replace(MOVING, commit=at), Queue(commit=7, maximum=9)))
            for at in (400, 410, 420)
        ],
        "STALLED",
        "broker-a/1: commit stays at 7, 2 unconsumed messages",
    ),
    "six queues stalled": (
        [Seen(queues=(Queue(commit=7, maximum=9),) * 6)] * 3,
        "STALLED",
        "; ".join(f"broker-a/{at}: commit stays at 7, 2 unconsumed messages" for at in range(5))
        + "; and 1 more",
    ),
    "restarted broker forgets pulls": (stands(*[80] * 4, pulls=(80, 80, 50, 50)), "STALLED", None),
    "rewound and going": (
        [Seen(queues=(Queue(commit=at, maximum=100),)) for at in (90, 95, 10, 40, 70)],
        "STALLED",
        "broker-a/0: commit at 70, was at 90, 30 unconsumed messages",
    ),
    "rewound and further than before": (
        [Seen(queues=(Queue(commit=at, maximum=100),)) for at in (90, 95, 10, 40, 91)],
        "FALLING_BEHIND|OK|CATCHING_UP",
        None,
    ),
    "starts over again and again": (
        [
            Seen(queues=(Queue(commit=at, maximum=200),))
            for at in (50, 20, 45, 20, 45, 20, 45, 20, 45, 48)
        ],
        "STALLED",
        "broker-a/0: commit at 48, was at 50, 152 unconsumed messages",
    ),
    "starts over with nobody online": (
        [
            Seen(queues=(Queue(commit=at, maximum=200),), online=False)
            for at in (50, 20, 45, 20, 45, 20, 45, 20, 48, 48)
        ],
        "STOPPED",
        None,
    ),
    "rewound and stalled": (
        [*stands(100), *stands(*[100] * 3, commit=20)],
        "STALLED",
        "broker-a/0: commit at 20, was at 50, 80 unconsumed messages",
    ),
    "stalls once more": (
        [*stands(*[100] * 3, commit=20), *stands(100, commit=30), *stands(100, commit=20)],
        "STALLED",
        "broker-a/0: commit stays at 20, 80 unconsumed messages",
    ),
    "never committed and no client online": (
        stands(80, 90, 100, commit=None, online=False),
        "UNKNOWN",
        "no queue with a known lag",
    ),
    "commits from before it was broadcasting": (
        [replace(seen, model="BROADCASTING") for seen in stands(80, 90, 100, pulls=(80, 90, 100))],
        "OK",
        None,
    ),
    # A quiet topic is no alarm.
    "one new message": (
        [*stands(*[50] * 9, pulls=[50] * 9), *stands(51, pulls=[51])],
        "OK",
        "readable lag 1, was 0",
    ),
    "commit with the next poll": (
        [*stands(*[50] * 8, pulls=[50] * 8), *stands(51, 51, pulls=[51, 51])],
        "OK",
        None,
    ),
    "no commit with the poll after the next": (
        [*stands(*[50] * 7, pulls=[50] * 7), *stands(51, 51, 51, pulls=[51] * 3)],
        "BLOCKED",
        None,
    ),
    "no traffic": (
        stands(*[50] * 10),
        "IDLE",
        "no lag, nothing written or consumed, over 10 observations (540 s)",
    ),
    "every message comes back": (
        [replace(seen, redelivered_tps=0.1) for seen in stands(*[50] * 10)],
        "OK",
        "readable lag 0, was 0 over 10 observations (540 s), "
        "up to 0.10 messages a second come back",
    ),
    "busy without lag": (lags(*[0] * 10), "OK", "readable lag 0, was 0"),
    # The trend.
    "falls behind": (
        lags(100, 200, 300, 300, 250, 400, 390, 500, 600, 701, tps=10.0),
        "FALLING_BEHIND",
        "readable lag 701, was 100 over 10 observations (540 s), up or level in 7 of 9 steps; "
        "60 s of production are 600",
    ),
    "falls behind because its listener is slow": (
        holding(lags(*range(3000, 12_000, 1000), tps=10.0), 1001),
        "FALLING_BEHIND",
        "readable lag 11000, was 3000 over 9 observations (480 s), up or level in 8 of 8 steps; "
        "60 s of production are 600, flow control holds back the pulls of broker-a/0: "
        "1001 of 1000 messages in the cache of client",
    ),
    "catches up with full caches": (
        holding(lags(9000, 8000, 7000, tps=10.0), 1001),
        "CATCHING_UP",
        "readable lag 7000, was 9000 over 3 observations (120 s), "
        "flow control holds back the pulls of broker-a/0: 1001 of 1000 messages in",
    ),
    "rises by a minute of production": (
        lags(100, 200, 300, 300, 250, 400, 390, 500, 600, 700, tps=10.0),
        "OK",
        None,
    ),
    "rises in six steps": (
        lags(0, 9, 99, 98, 999, 998, 1999, 1998, 2999, 3999, tps=1.0),
        "OK",
        None,
    ),
    "seven steps are enough": (lags(*range(0, 800, 100), tps=1.0), "FALLING_BEHIND", None),
    "six are all there are": (lags(*range(0, 700, 100), tps=1.0), "OK", None),
    "catches up": (lags(90, 99, 20, tps=1.0), "CATCHING_UP", "readable lag 20, was 90"),
    # A healthy group leaves this between two commits.
    "ripples": (lags(6, 9, 3, 6, 2, tps=20.0), "OK", "readable lag 2, was 6"),
    "leaves a bit of a burst": (
        [*lags(6, 5, tps=20.0), *lags(3, tps=0.0, start=1300)],
        "OK",
        "readable lag 3, was 6",
    ),
    "a minute of production": (lags(60, 59, 58, tps=1.0), "OK", None),
    "stood, and catches up from little": (
        [*stands(58, 58, 58), *stands(58, commit=53), *stands(58, commit=56)],
        "CATCHING_UP",
        "readable lag 2, was 8",
    ),
    "has caught up": (lags(90, 20, 0), "OK", "readable lag 0, was 90"),
    # One message a queue every 15 minutes, and two queues had theirs since the last observation.
    "quiet, with its next messages": (
        [*lags(*[0] * 9, tps=0.0), *lags(2, tps=0.03346, start=1900)],
        "OK",
        "readable lag 2, was 0",
    ),
    # Lite topics: commits are acknowledgements there.
    "a lite topic stands": (of_lite_topic(stands(*[80] * 10)), "STALLED", None),
    # Brokers count at the topic of all lite topics, so this one may be the one that is finished.
    "a lite topic waits while its topic is acknowledged": (
        [replace(seen, ack_tps=0.05) for seen in of_lite_topic(stands(*[80] * 10))],
        "OK",
        None,
    ),
    "a lite topic is idle": (of_lite_topic(stands(*[50] * 10)), "IDLE", None),
    "a lite topic moves": (of_lite_topic(lags(*[9] * 10)), "OK", None),
    "a lite topic of a session that ended": (
        [replace(seen, clients=0) for seen in of_lite_topic(stands(*[80] * 10))],
        "UNSUBSCRIBED",
        None,
    ),
    # Members that are assigned queues, or pull by themselves, report no subscription.
    "stalled without subscriptions": (
        without_subscriptions(stands(*[80] * 4)),
        "STALLED",
        "broker-a/0: commit stays at 50, 30 unconsumed messages",
    ),
    "blocked without subscriptions": (
        without_subscriptions(stands(80, 90, 100, pulls=(80, 90, 100))),
        "BLOCKED",
        None,
    ),
    "falls behind without subscriptions": (
        without_subscriptions(lags(*range(0, 800, 100), tps=1.0)),
        "FALLING_BEHIND",
        None,
    ),
    "stopped without subscriptions": (
        without_subscriptions(stands(*[80] * 4, online=False)),
        "STOPPED",
        None,
    ),
    "consumes without subscriptions": (without_subscriptions(lags(*[9] * 4)), "OK", None),
    # Unsubscribed.
    "unsubscribed": (
        [replace(seen, clients=0) for seen in stands(80, 80, 80, 80)],
        "UNSUBSCRIBED",
        "no client subscribes to the topic: readable lag 30",
    ),
    "nobody subscribes because nobody is online": (
        [replace(seen, clients=0) for seen in stands(80, 80, 80, 80, online=False)],
        "STOPPED",
        None,
    ),
}


def rows_of(group, observations, last=LAST):
    """Rows of progress.groups, progress.queues and raw.client_queues of a group's observations."""
    groups, queues, client_queues = [], [], []
    previous = {}
    for at, seen in enumerate(observations, start=last + 1 - len(observations)):
        pair = {"at": at, "consumer_group": group, "topic": seen.topic}
        committed = [queue for queue in seen.queues if queue.commit is not None]
        readable = sum(queue.upper for queue in committed) if committed else None
        worst = max(range(len(seen.queues)), key=lambda n: seen.queues[n].upper, default=None)
        groups.append(
            pair
            | {
                "readable_lag": readable,
                "lag_upper": sum(queue.upper for queue in seen.queues) if seen.queues else None,
                "lost": sum(queue.lost for queue in committed) if committed else None,
                "queues": len(seen.queues) or 2,
                "queues_unknown": 0 if seen.queues else 2,
                "complete": bool(seen.queues),
                "online": seen.online,
                "clients": seen.clients,
                "produce_tps": seen.tps,
                "message_model": seen.model,
                "consume_mode": seen.mode,
                "ack_tps": seen.ack_tps,
                "lag_is_lower_bound": seen.bound,
                "inflight": seen.inflight,
                "inflight_witness": seen.witness,
                "redelivered_tps": seen.redelivered_tps,
                "worst_broker": "broker-a",
                "worst_queue_id": worst,
                "max_queue_lag": None if worst is None else seen.queues[worst].upper,
            }
        )
        for number, queue in enumerate(seen.queues):
            one = pair | {"broker": "broker-a", "queue_id": number}
            queues.append(
                one
                | {
                    "consumer_offset": queue.commit,
                    "previous_consumer_offset": previous.get(number),
                    "max_offset": queue.maximum,
                    "pull_offset": queue.pull,
                    "offset_store": seen.store,
                    "lag_upper": queue.upper,
                    "lost": queue.lost,
                    "priority_rank": queue.rank,
                }
            )
            previous[number] = queue.commit
            if queue.cached is not None:
                report = {"cached_messages": queue.cached, "most_messages": queue.most}
                client_queues.append(one | {"client_id": "client"} | report)
    return groups, queues, client_queues


def rows_of_all(histories, last=LAST):
    """The rows of many groups."""
    parts = [rows_of(group, seen, last) for group, seen in histories.items()]
    return [[row for part in parts for row in part[kind]] for kind in range(3)]


def computed(spark, rows, first, end, numbers, overrides=(), known=()):
    """Health by group and minute, from the window's observations and the nine before.

    ``known`` is the health of the observations before, by group and minute.
    """
    before = {place: health for place, (health, _) in dict(known).items()}
    groups = [
        row | {"health": before.get((row["consumer_group"], snapshot_id(row["at"])))}
        for row in rows[0]
    ]
    return {
        place: (row.health, row.health_reason)
        for place, row in computed_rows(
            spark, [groups, *rows[1:]], first, end, numbers, overrides
        ).items()
    }


def computed_rows(spark, rows, first, end, numbers, overrides=()):
    """Rows of progress.groups by group and minute."""
    groups, queues, client_queues = rows
    inside = {number: snapshot_id(at) for at, number in numbers.items() if first <= at < end}
    counts_for = {
        at: {inside[number + ago]: ago for ago in range(10) if number + ago in inside}
        for at, number in numbers.items()
        if at < end and number > min(inside) - 10
    }

    def of(table, candidates):
        return frame(spark, table, [row for row in candidates if row["at"] in counts_for])

    bare = of(progress.GROUPS, [row for row in groups if row["at"] >= first])
    outcome = with_health(
        bare.drop(*[column.name for column in progress.HEALTH]),
        of(progress.GROUPS, [row for row in groups if row["at"] < first]),
        of(progress.QUEUES, queues),
        of(raw.CLIENT_QUEUES, client_queues),
        reader_with(
            spark,
            observations=[
                Observation(snapshot_id(at), numbers[at], counts_for[at]) for at in counts_for
            ],
        ).observations(),
        minutes(first, end),
        overrides=overrides,
    )
    assert outcome.columns == progress.GROUPS.column_names
    result = {(row.consumer_group, row.snapshot_id): row for row in outcome.collect()}
    assert len(result) == sum(first <= row["at"] < end for row in groups)
    return result


@pytest.fixture(scope="module")
def newest_rows(spark):
    groups, *others = rows_of_all({name: seen for name, (seen, _, _) in CASES.items()})
    stood = ("stood, and catches up from little", LAST - 2)
    for row in groups:
        row["health"] = "STALLED" if (row["consumer_group"], row["at"]) == stood else None
    numbers = {at: at for at in range(LAST + 1)}
    rows = computed_rows(spark, [groups, *others], LAST, LAST + 1, numbers)
    return {group: row for (group, _), row in rows.items()}


@pytest.fixture(scope="module")
def newest(newest_rows):
    return {name: (row.health, row.health_reason) for name, row in newest_rows.items()}


@pytest.mark.parametrize("name", CASES)
def test_first_state_that_holds_wins(newest, name):
    _, state, reason = CASES[name]
    health, why = newest[name]
    assert health in state.split("|"), why
    assert why.startswith(reason or ""), why
    assert "null" not in why


def test_the_text_of_every_case_is_the_recorded_one(newest):
    """Texts are for readers of tables, who may search for them."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert {name: list(state) for name, state in newest.items()} == recorded


def test_a_reason_states_its_facts_and_no_others(newest_rows):
    """A queue that stands states its queues, and nothing about expired messages."""
    stated = {code: set() for code in HealthReason}
    for row in newest_rows.values():
        facts = row.health_facts.asDict()
        stated[row.health_reason_code] |= {
            name for name, value in facts.items() if value is not None
        }
    of_no_case = {
        HealthReason.MESSAGES_UNFINISHED: {"acks_counted"},
        HealthReason.CONSUMES: {"queues", "queues_named"},
    }
    assert stated == {code: set(FACTS[code]) - of_no_case.get(code, set()) for code in FACTS}


def test_the_facts_of_a_blocked_group(newest_rows):
    row = newest_rows["holds all it may"]
    assert row.health_reason_code == HealthReason.MESSAGES_UNFINISHED
    facts = row.health_facts.asDict(recursive=True)
    (queue,) = facts.pop("queues")
    assert {name: value for name, value in facts.items() if value is not None} == {
        "queues_named": 1
    }
    assert {name: value for name, value in queue.items() if value is not None} == {
        **{"broker": "broker-a", "queue_id": 0, "committed": 50, "committed_before": 50},
        **{"unconsumed": 2030, "lost": 0, "lost_before": 0},
        **{"cached": 1004, "cached_by": "client"},
        **{"cache_limit": CacheLimit.CACHED_MESSAGES, "cache_reached": 1004, "cache_most": 1000},
    }


def test_pages_word_facts_as_the_text_does(newest_rows):
    for row in newest_rows.values():
        assert reason(row.asDict(recursive=True), str.format) == row.health_reason


def test_every_phrase_of_a_reason_has_chinese_words(newest_rows):
    phrases = set()

    def phrase(text, **values):
        phrases.add(text)
        return text.format(**values)

    for row in newest_rows.values():
        reason(row.asDict(recursive=True), phrase)
    assert sorted(phrases - CHINESE.keys()) == []


def test_queues_that_flow_control_holds_back_are_counted(spark):
    full, free = (
        Queue(commit=0, maximum=5000, cached=1001),
        Queue(commit=0, maximum=5000, cached=1000),
    )
    histories = {
        "full": [Seen(queues=(full, full, free))] * 3,
        "free": [Seen(queues=(free,))] * 3,
        "full once": [
            Seen(queues=(full,)),
            Seen(queues=(free,)),
            Seen(queues=(Queue(commit=0, maximum=5000),)),
        ],
        "no limit reported": holding([Seen(queues=(full,))] * 3, 1001, most=None),
        "no client reported": lags(5000, 5000, 5000),
    }
    rows = computed_rows(
        spark, rows_of_all(histories), LAST, LAST + 1, {at: at for at in range(LAST + 1)}
    )
    mapping = {group: row.queues_flow_controlled for (group, _), row in rows.items()}
    assert mapping == {
        "full": 2,
        "free": 0,
        "full once": 0,
        "no limit reported": None,
        "no client reported": None,
    }


def test_overrides_replace_thresholds_of_matching_groups(spark):
    hourly = {"consumer_group": ("batch-*",), "topic": ("orders",)}
    overrides = [
        Override(hourly, replace(DEFAULTS, standing_for=timedelta(hours=2))),
        Override({"consumer_group": ("*-eight",)}, replace(DEFAULTS, rising_steps=8)),
        Override({"consumer_group": ("*",)}, replace(DEFAULTS, known=4)),
    ]
    stalled, rising = stands(80, 80, 80, 80), lags(*range(0, 800, 100), tps=1.0)
    histories = {
        "batch-a": stalled,
        "other": stalled,
        "rises": rising,
        "rises-eight": rising,
        "rises-batch-eight": rising,
        "batch-young": lags(5, 5, 5),
        "young": lags(5, 5, 5),
    }
    rows = rows_of_all(histories)
    numbers = {at: at for at in range(LAST + 1)}
    mapping = computed(spark, rows, LAST, LAST + 1, numbers, overrides)
    assert {group: health for (group, _), (health, _) in mapping.items()} == {
        "batch-a": "OK",
        "other": "STALLED",
        "rises": "FALLING_BEHIND",
        "rises-eight": "OK",
        "rises-batch-eight": "OK",
        "batch-young": "OK",
        "young": "UNKNOWN",
    }


def history(seed):
    """Forty minutes of a group with random events of every kind."""
    chance = random.Random(seed)
    queues = [Queue(commit=0, maximum=0, pull=0) for _ in range(3)]
    online, working = True, True
    for _ in range(40):
        online = chance.random() < 0.9 if online else chance.random() < 0.3
        working = chance.random() < 0.8 if working else chance.random() < 0.2
        for at, queue in enumerate(queues):
            high = queue.maximum + chance.choice([0, 0, 10, 50])
            eager = online and (working or at == 0)
            commit = chance.randint(queue.commit or 0, high) if eager else queue.commit
            if chance.random() < 0.03:
                commit = chance.choice([0, None])
            pull = min(high, max(commit or 0, queue.pull or 0) + chance.choice([0, 20]))
            low = max(queue.minimum, high - 300)
            queues[at] = Queue(
                commit=commit,
                maximum=high,
                pull=pull,
                minimum=low,
                cached=chance.choice([None, None, 0, 3]),
            )
        hidden = chance.random() < 0.1
        known = () if hidden else tuple(queues[: chance.choice([3, 3, 3, 2])])
        yield Seen(
            queues=known,
            online=chance.choice([online, online, online, None]),
            tps=chance.uniform(0, 3),
        )


def test_health_does_not_depend_on_how_history_is_split(spark):
    last = 39
    rows = rows_of_all({f"group-{seed}": list(history(seed)) for seed in range(30)}, last)
    # A long gap lies before minute 25: numbers jump there.
    numbers = {at: at if at < 25 else at + 10 for at in range(last + 1) if at not in (11, 12)}
    rows = [[row for row in kind if row["at"] in numbers] for kind in rows]
    # Some observations have no row of a group at all.
    rows[0] = [row for row in rows[0] if (row["at"] * 7 + len(row["consumer_group"])) % 19]
    whole = computed(spark, rows, 0, last + 1, numbers)
    states = {health for health, _ in whole.values()}
    assert states >= {"LOSING", "UNKNOWN", "STOPPED", "BLOCKED", "STALLED", "CATCHING_UP", "OK"}
    cuts = [0, 7, 19, 20, 28, 29, last + 1]
    parts = {}
    for first, end in pairwise(cuts):
        parts |= computed(spark, rows, first, end, numbers, known=parts)
    assert parts == whole


def test_observations_of_the_same_seconds_make_no_group_known(spark):
    """Health needs three observations; the third within a second of the second is no third."""
    instants = (0, 1, 1.02, 2)
    rows = [
        [row | {"at": instants[row["at"]]} for row in part]
        for part in rows_of("g", lags(5, 5, 5, 5), last=3)
    ]
    seen = [
        LoadedSnapshot(
            snapshot_id=snapshot_id(at),
            cluster="lab",
            observed_at=minute(at),
            status="COMPLETE",
            brokers_read=frozenset({"broker-a"}),
        )
        for at in instants
    ]
    collected = with_health(
        frame(spark, progress.GROUPS, rows[0]).drop(*[column.name for column in progress.HEALTH]),
        frame(spark, progress.GROUPS, []),
        frame(spark, progress.QUEUES, rows[1]),
        None,
        reader_with(spark, observations=recent_observations(seen, minutes(0, 3))).observations(),
        minutes(0, 3),
    ).collect()
    health = {row.snapshot_id: row.health for row in collected}
    assert len(collected) == len(instants), "one row a snapshot"
    states = ("UNKNOWN", "UNKNOWN", "UNKNOWN", "OK")
    assert health == dict(zip(map(snapshot_id, instants), states, strict=True))
