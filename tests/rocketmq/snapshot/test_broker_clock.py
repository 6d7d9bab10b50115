"""Clocks of brokers, measured with each snapshot."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tidemark.rocketmq.admin import deep_requests
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.broker_reading import EVERYWHERE, NEVER_CONSUMES, measured_clock
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.codes import ResponseError


def reporting(monkeypatch, behind: timedelta, pause: float = 0.0):
    """Lets a broker whose clock is behind respond after a pause."""

    async def time_spans(client, address, group, topic):
        assert (group, topic) == (NEVER_CONSUMES, EVERYWHERE)
        await asyncio.sleep(pause)
        now = round((datetime.now(UTC) - behind).timestamp() * 1000)
        await asyncio.sleep(pause)
        body = (
            f'{{"consumeTimeSpanSet":[{{"messageQueue":{{"queueId":0}},"delayTime":{now + 1}}}]}}'
        )
        return deep_requests.decode_time_spans(body.encode())

    monkeypatch.setattr(admin, "time_spans", time_spans)


def test_skew_is_the_brokers_clock_minus_ours(monkeypatch):
    reporting(monkeypatch, timedelta(minutes=5), pause=0.05)
    clock = asyncio.run(measured_clock(None, "127.0.0.1:1"))
    assert clock.error_ms >= 50
    assert abs(clock.skew_ms + 300_000) <= clock.error_ms + 1


def test_a_clock_that_is_not_reported_is_unknown(monkeypatch):
    async def refused(client, address, group, topic):
        raise ResponseError(address, "QUERY_CONSUME_TIME_SPAN", 17, "no topic")

    monkeypatch.setattr(admin, "time_spans", refused)
    assert asyncio.run(measured_clock(None, "127.0.0.1:1")) is None


@pytest.mark.cluster
def test_masters_of_a_real_cluster_have_a_clock(cluster):
    """Broker and test share one clock, so the skew is within its error."""
    taken = collect_snapshot(ClusterTarget(name_servers=(cluster.namesrv,)))
    masters = [row for row in taken.brokers if row.broker_id == 0]
    assert masters and taken.problems == []
    for row in masters:
        assert row.clock_skew_ms is not None and row.clock_error_ms is not None
        assert abs(row.clock_skew_ms) <= row.clock_error_ms + 2
