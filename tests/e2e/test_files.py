"""Files that were read between snapshots of brokers, with which a tick compares them.

No broker is needed: ticks load landed snapshots of any origin.
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.support.cluster_history import Minute, offsets, put, snapshot
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.landing import land
from tidemark.lake.query import select
from tidemark.lake.tables import TABLES
from tidemark.rocketmq.records import ConsumerOffset, Snapshot

pytestmark = pytest.mark.spark

CLUSTER = "with-files"
START = floor_hour(datetime.now(UTC)) - 8 * HOUR
OLDER = 90
"""How many messages the commits of a store lie behind those of its broker: a minute has 60."""


def of_a_store(minute: float) -> Snapshot:
    """Return the snapshot of both brokers' files, with consumer offsets as some time before."""
    made = snapshot(START, Minute(at=minute, deep=False), CLUSTER)
    made.source, made.staleness_ms = "store", 5_000
    made.consumer_offsets = [
        replace(row, consumer_offset=max(0, row.consumer_offset - OLDER), pull_offset=None)
        for row in made.consumer_offsets
        if row.consumer_offset is not None
    ]
    return made


def of_a_client(minute: float) -> Snapshot:
    """An ``offsets.json``, whose client lacks the last five messages of the minute before."""
    made = Snapshot(
        cluster=CLUSTER,
        source="local_offsets",
        observed_at=snapshot(START, Minute(at=minute)).observed_at,
    )
    made.status, made.staleness_ms = "COMPLETE", 5_000
    _, end = offsets(minute - 1, "broker-a", 0)
    made.consumer_offsets = [
        ConsumerOffset(
            broker="broker-a",
            consumer_group="g-files",
            topic="orders",
            queue_id=0,
            client_id="c-1",
            consumer_offset=end - 5,
            offset_store="client_file",
        )
    ]
    return made


@pytest.fixture(scope="module")
def rows(warm_home):
    """The queues of three snapshots, a store between the first two, and a file after the last."""
    put(warm_home.home, START, [Minute(at=2), Minute(at=4), Minute(at=6)], CLUSTER)
    land(warm_home.home, of_a_store(3))
    land(warm_home.home, of_a_client(7))
    warm_home.tick()
    table = TABLES["progress.queues"]
    where = f"cluster = '{CLUSTER}' AND topic = 'orders'"
    return select(warm_home.lake, table, where, limit=10_000).to_pylist()


def test_files_of_a_store_invent_no_rewind(rows):
    mine = [row for row in rows if row["consumer_group"] == "g-fast"]
    assert {row["observed_at"].minute for row in mine} == {2, 3, 4, 6}
    assert {row["condition"] for row in mine} == {"OK"}
    rates = {row["observed_at"].minute: row["consume_tps"] for row in mine}
    assert rates == {2: None, 3: None, 4: 1.0, 6: 1.0}


def test_offsets_of_a_client_become_lag(rows):
    (row,) = (row for row in rows if row["consumer_group"] == "g-files")
    assert (row["client_id"], row["lag"], row["queue_offsets_at"].minute) == ("c-1", 5, 6)
