"""Snapshots by our clock."""

from datetime import UTC, datetime, timedelta

from tidemark.live.broker_times import remove_skew
from tidemark.rocketmq.records import Broker, QueueOffset, Snapshot

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def test_an_instant_that_no_calendar_has_is_unknown():
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    snapshot = Snapshot(cluster="lab", source="remote", observed_at=NOON)
    snapshot.brokers = [Broker(broker="broker-a", broker_id=0, address="a:1", clock_skew_ms=-5000)]
    snapshot.queue_offsets = [
        QueueOffset(
            broker="broker-a",
            topic="t",
            queue_id=0,
            min_offset=0,
            max_offset=9,
            newest_stored_at=at,
        )
        for at in (NOON, last)
    ]
    remove_skew(snapshot)
    newest_stored_ats = [queue.newest_stored_at for queue in snapshot.queue_offsets]
    assert newest_stored_ats == [NOON + timedelta(seconds=5), None]
