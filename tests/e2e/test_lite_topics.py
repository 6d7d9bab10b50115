"""Lite topics of RocketMQ 5.5 behind a Proxy, compared with the counts of their consumer.

A lite topic lies in a light queue of its own, inside a topic that its group is bound to. No broker
lists it. Only a Proxy in cluster mode serves them.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tidemark.board.views.live import problems_of
from tidemark.lab.clients import GrpcClients
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import LabError, free_port_base
from tidemark.live.lag import group_rows
from tidemark.rocketmq.admin.pop import read_lite_topic
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.records import LeftOut, Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions

pytestmark = pytest.mark.cluster

SENT, SLOW_MILLISECONDS = 100, 100
ALICE, BOB = "%LMQ%$sessions$alice", "%LMQ%$sessions$bob"
SECONDS = 300


@dataclass(kw_only=True)
class Seen:
    """Snapshots of a cluster with three lite topics, two of which have a consumer.

    Attributes:
        working: a deep one, while the consumer works.
        left: one after the consumer left.
        limited: one that may measure a single lite topic.
        finished: messages that the consumer had finished when it left.
        broker: the address of the only broker.
    """

    working: Snapshot
    left: Snapshot
    limited: Snapshot
    finished: int
    broker: str


def rows_of(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """The rows of the group by topic, as `tidemark lag` has them."""
    rows = group_rows(snapshot)
    return {row["topic"]: row for row in rows if row["consumer_group"] == "g-lite"}


def unfinished(snapshot: Snapshot) -> int:
    return sum(row["lag"] for row in rows_of(snapshot).values())


def until(what: str, function: Callable[[], Any]) -> Any:
    """Return the first true result within a time that suffices on a busy machine."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if result := function():
            return result
        time.sleep(0.5)
    raise AssertionError(f"not within {SECONDS} s: {what}")


def sent(clients: GrpcClients, name: str) -> bool:
    """Whether messages could be sent; a topic takes a moment to be known."""
    try:
        clients.send("sessions", SENT, f"lite:{name}")
    except LabError:
        return False
    return True


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    cluster = LabCluster.up(
        tmp_path_factory.mktemp("lite"),
        "5.5.0",
        brokers=1,
        port_base=free_port_base(brokers=1, proxy="cluster"),
        config={"enableLmq": "true", "enableMultiDispatch": "true"},
        proxy="cluster",
    )
    target = ClusterTarget(name_servers=(cluster.namesrv,), proxies=(cluster.proxy.address,))

    def taken(**options: Any) -> Snapshot:
        return collect_snapshot(replace(target, **options))

    def both() -> Snapshot | None:
        snapshot = taken(deep=DeepOptions())
        return snapshot if {ALICE, BOB} <= rows_of(snapshot).keys() else None

    try:
        with GrpcClients(cluster) as clients:
            clients.topic("sessions", "LITE")
            clients.group("g-lite", bound_to="sessions")
            until("a lite topic takes messages", lambda: sent(clients, "carol"))
            clients.lite("g-lite", "sessions", SLOW_MILLISECONDS, "alice", "bob")
            for name in ("alice", "bob"):
                assert sent(clients, name)
            until("messages are consumed", lambda: clients.counts("g-lite")[1] > 3)
            working = until("both lite topics have progress", both)
            clients.close("g-lite")
            _, finished = clients.counts("g-lite")

            def settled() -> Snapshot | None:
                snapshot = taken()
                return snapshot if unfinished(snapshot) == 2 * SENT - finished else None

            left = until("the commits follow the last acknowledgement", settled)
            limited = taken(max_lite_topics=1)
            yield Seen(
                working=working,
                left=left,
                limited=limited,
                finished=finished,
                broker=cluster.brokers[0].address,
            )
    finally:
        cluster.down(graceful=False)


def test_a_snapshot_with_lite_topics_is_complete(seen):
    assert (seen.working.status, seen.working.problems) == ("COMPLETE", [])


def test_lag_is_what_the_consumer_has_not_finished(seen):
    """Only the two consumed lite topics have rows: not their parent topic, nor a third one."""
    assert set(rows_of(seen.left)) == {ALICE, BOB}
    assert unfinished(seen.left) == 2 * SENT - seen.finished
    assert unfinished(seen.working) >= unfinished(seen.left)


def test_a_broker_reports_its_light_queues_and_their_limit(seen):
    (row,) = seen.working.brokers
    numbers = (row.light_queues, row.light_queue_limit, row.lite_subscriptions)
    assert numbers == (3, 20_000, 2)


def test_who_consumes_a_lite_topic_is_known(seen):
    for row in rows_of(seen.working).values():
        assert (row["online"], row["clients"]) == (True, 1)
        assert row["message_model"] == "LITE_SELECTIVE"


def test_no_counter_of_a_lite_topic_is_invented(seen):
    """Brokers count what happens to it at its topic."""
    assert seen.working.broker_stats
    assert not [row for row in seen.working.broker_stats if row.topic in (ALICE, BOB)]


def test_lite_topics_beyond_the_limit_are_recorded(seen):
    assert seen.limited.status == "COMPLETE"
    assert seen.limited.left_out == [LeftOut("lite_topics", seen.broker, 1)]
    assert problems_of(seen.limited) == [
        f"1 lite topics at {seen.broker} were left out (max_lite_topics in clusters.yaml)"
    ]
    assert set(rows_of(seen.limited)) == {ALICE}


def test_a_lite_topic_that_is_not_there_is_none(seen):
    asyncio.run(_read_what_is_not_there(seen.broker))


async def _read_what_is_not_there(broker: str) -> None:
    async with ClusterTarget(name_servers=()).client(10) as client:
        assert await read_lite_topic(client, broker, "%LMQ%$sessions$nobody") is None
        assert await read_lite_topic(client, broker, "%LMQ%$absent$nobody") is None
