"""Store times that brokers report, while consumers commit and brokers fail."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tidemark.live import broker_times
from tidemark.live.broker_times import (
    Limits,
    StoreTime,
    remove_skew,
    requested,
    requests_needed,
    undated,
)
from tidemark.live.lag import group_rows
from tidemark.rocketmq.admin.deep_requests import TimeSpan
from tidemark.rocketmq.names import OffsetKey
from tidemark.rocketmq.records import Broker, ConsumerOffset, QueueOffset, Snapshot
from tidemark.rocketmq.snapshot.broker_reading import NEVER_CONSUMES
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.codes import RequestTimeoutError

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
AHEAD = timedelta(minutes=5)
"""By so much the brokers' clocks are ahead; no delay may show it."""

GENEROUS = Limits(seconds=20.0)
"""A busy machine must not cut a test short."""


@dataclass(kw_only=True)
class FakeBrokers:
    """Answers 303 and 43 of queue 0 of topics, one message a second, the offset its second.

    Attributes:
        offsets: committed offset by group, as 43 reports it.
        during: offsets that 303 is about, one per request; then those of `offsets`.
        oldest: offset of the first retained message.
        end: offset behind the last message.
        broken: groups whose requests fail.
        requests: groups in order of requests.
    """

    offsets: dict[str, int]
    during: dict[str, list[int]] = field(default_factory=dict)
    oldest: int = 0
    end: int = 100
    broken: frozenset[str] = frozenset()
    requests: list[str] = field(default_factory=list)

    def stored(self, offset: int) -> datetime:
        return NOW + AHEAD + timedelta(seconds=offset - self.end)

    async def timed_spans(self, client, address, group, topic):
        self.requests.append(group)
        if group in self.broken:
            raise RequestTimeoutError(address, "QUERY_CONSUME_TIME_SPAN", "no response")
        offset = (self.during.get(group) or [self.offsets.get(group, -1)]).pop(0)
        is_there = self.oldest <= offset < self.end
        age = NOW + AHEAD - self.stored(offset)
        span = TimeSpan(
            oldest_stored_at=self.stored(self.oldest),
            newest_stored_at=self.stored(self.end - 1),
            last_consumed_at=None,
            delay_ms=age // timedelta(milliseconds=1)
            if is_there
            else 0
            if offset >= self.end
            else None,
            broker_now=None if is_there or offset >= self.end else NOW + AHEAD,
        )
        return {0: span}, NOW, timedelta(0)

    async def consumer_offsets(self, client, address):
        offsets = {OffsetKey("orders", group): {0: at} for group, at in self.offsets.items()}
        return SimpleNamespace(offsets=offsets)


@pytest.fixture
def answering(monkeypatch):
    """Puts fake brokers in place of the requests."""

    def put(fake: FakeBrokers) -> FakeBrokers:
        monkeypatch.setattr(broker_times, "timed_spans", fake.timed_spans)
        monkeypatch.setattr(broker_times.admin, "consumer_offsets", fake.consumer_offsets)
        return fake

    return put


def snapshot(*groups: tuple[str, int], minimum: int = 0) -> Snapshot:
    taken = Snapshot(cluster="lab", source="remote", observed_at=NOW, status="COMPLETE")
    taken.brokers = [Broker(broker="broker-a", broker_id=0, address="127.0.0.1:1")]
    # The raw store time carries the broker's clock.
    newest = NOW + AHEAD - timedelta(seconds=1)
    taken.queue_offsets = [
        QueueOffset(
            broker="broker-a",
            topic="orders",
            queue_id=0,
            min_offset=minimum,
            max_offset=100,
            newest_stored_at=newest,
        )
    ]
    taken.consumer_offsets = [
        ConsumerOffset(
            broker="broker-a",
            consumer_group=group,
            topic="orders",
            queue_id=0,
            client_id=None,
            consumer_offset=offset,
        )
        for group, offset in groups
    ]
    return taken


def delays(taken: Snapshot, limits: Limits = GENEROUS) -> dict[str, tuple]:
    times = requested(
        ClusterTarget(name_servers=("127.0.0.1:1",)), taken, list(undated(taken)), limits
    )
    return {
        row["consumer_group"]: (row["delay_ms"], row["delay_source"], row["delay_error_ms"])
        for row in group_rows(taken, times)
    }


def test_delay_is_exact_whatever_the_brokers_clock(answering):
    answering(FakeBrokers(offsets={"billing": 40}))
    assert delays(snapshot(("billing", 40))) == {"billing": (60_000, "exact", 0)}


def test_delay_of_the_last_message_needs_no_request(answering):
    fake = answering(FakeBrokers(offsets={"billing": 40, "mail": 99}))
    mapping = delays(snapshot(("billing", 40), ("mail", 99)))
    assert mapping["mail"] == (1_000, "exact", 0), "the clock of the broker is removed"
    assert "mail" not in fake.requests


def test_delay_after_expiry_is_that_of_the_oldest_message(answering):
    answering(FakeBrokers(offsets={"billing": 5}, oldest=30))
    assert delays(snapshot(("billing", 5), minimum=30)) == {"billing": (70_000, "exact", 0)}


def test_an_advanced_offset_is_bracketed(answering):
    """43 reports 44; the responses are about 42 before it, and 46 after it."""
    answering(FakeBrokers(offsets={"billing": 44}, during={"billing": [42, 46]}))
    taken = snapshot(("billing", 40))
    assert delays(taken) == {"billing": (56_000, "interpolated", 2_000)}
    (row,) = group_rows(
        taken, requested(ClusterTarget(name_servers=("x:1",)), taken, list(undated(taken)))
    )
    assert row["lag"] == 56, "lag and delay are about the same offset"


def test_a_group_that_caught_up_has_no_delay(answering):
    answering(FakeBrokers(offsets={"billing": 103}, end=110))
    assert delays(snapshot(("billing", 40))) == {"billing": (0, "exact", 0)}


def test_a_rewound_group_keeps_the_bound(answering):
    """The message at a smaller offset is older than the snapshot's: no bound of its delay."""
    answering(FakeBrokers(offsets={"billing": 20}))
    assert delays(snapshot(("billing", 40)))["billing"][1:] == ("at_least", None)
    assert delays(snapshot(("billing", 40)))["billing"][0] <= 60_000


def test_a_failed_request_leaves_a_bound_and_a_reason(answering):
    answering(FakeBrokers(offsets={"billing": 40, "mail": 50}, broken=frozenset({"mail"})))
    taken = snapshot(("billing", 40), ("mail", 50))
    mapping = delays(taken)
    assert mapping["billing"] == (60_000, "exact", 0)
    assert mapping["mail"] == (1_000, "at_least", None)
    times = requested(ClusterTarget(name_servers=("x:1",)), taken, list(undated(taken)), GENEROUS)
    assert any("no response" in line for line in times.problems)


def test_limits_keep_the_largest_lags(answering):
    fake = answering(FakeBrokers(offsets={"a": 90, "b": 10, "c": 50}))
    taken = snapshot(("a", 90), ("b", 10), ("c", 50))
    mapping = delays(taken, Limits(requests=2, seconds=20.0))
    assert [group for group in fake.requests if group != NEVER_CONSUMES] == ["b", "c"]
    assert {group: source for group, (_, source, _) in mapping.items()} == {
        "a": "at_least",
        "b": "exact",
        "c": "exact",
    }
    times = requested(
        ClusterTarget(name_servers=("x:1",)), taken, list(undated(taken)), Limits(requests=2)
    )
    assert len(times.problems) == 1


def test_no_request_is_sent_after_the_time_limit(answering):
    fake = answering(FakeBrokers(offsets={"billing": 40}))
    mapping = delays(snapshot(("billing", 40)), Limits(seconds=0.0, last_seconds=20.0))
    assert mapping["billing"][1] == "at_least"
    assert set(fake.requests) <= {NEVER_CONSUMES}


def test_requests_needed_are_one_per_group_topic_and_broker():
    taken = snapshot(("a", 90), ("b", 10), ("mail", 99))
    assert requests_needed(list(undated(taken))) == 2


def test_a_message_with_one_response_only_has_a_bound():
    stored = StoreTime(NOW, "exact", 3)
    assert broker_times._between(None, stored, NOW) == StoreTime(NOW, "at_least", None)


@pytest.mark.parametrize("skew", [timedelta(minutes=-5), timedelta(minutes=5)])
def test_a_clock_that_the_snapshot_measured_is_removed(skew):
    """The newest message needs no request then, and its error is half of the round trip."""
    taken = snapshot(("billing", 99))
    taken.queue_offsets[0].newest_stored_at = NOW + skew - timedelta(seconds=1)
    taken.brokers[0].clock_skew_ms = skew // timedelta(milliseconds=1)
    taken.brokers[0].clock_error_ms = 3
    remove_skew(taken)
    (row,) = group_rows(taken)
    assert (row["delay_ms"], row["delay_source"], row["delay_error_ms"]) == (1_000, "exact", 3)


def test_a_measured_clock_is_not_requested_again(answering):
    fake = answering(FakeBrokers(offsets={"billing": 40}))
    taken = snapshot(("billing", 40))
    taken.brokers[0].clock_skew_ms = AHEAD // timedelta(milliseconds=1)
    remove_skew(taken)
    assert delays(taken)["billing"][0] == 60_000
    assert NEVER_CONSUMES not in fake.requests
