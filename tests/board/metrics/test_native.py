"""Names, labels and meanings of brokers of RocketMQ 5.5."""

import pytest

from tests.support.recorded import FIXTURES
from tests.support.scrape import metrics_of, scraped, value
from tests.support.table_rows import arrow
from tidemark.lake.tables import progress, raw

BROKER_OF_55 = FIXTURES / "rocketmq-5.5.0" / "metrics.txt"

OF_A_BROKER = {"node_id", "otel_scope_name", "protocol_type"}
"""Labels of a broker that sums over brokers do not have."""


def group(**columns):
    row = {"at": 1, "consumer_group": "g", "topic": "t", "complete": True}
    return {"progress.groups": arrow(progress.GROUPS, [row | columns])}


def test_names_and_labels_are_those_of_a_broker():
    tables = group(lag=4, delay_ms=1200, inflight=1, available=3, ready_delay_ms=60_000) | {
        "raw.clients": arrow(
            raw.CLIENTS,
            [
                {"at": 1, "consumer_group": "g", "client_id": "c", "language": "JAVA"}
                | {"version": "V5_5_0", "consume_type": "CONSUME_PASSIVELY"}
            ],
        ),
    }
    ours = metrics_of(tables)
    theirs = scraped(BROKER_OF_55.read_text())
    assert theirs
    for name, samples in theirs.items():
        ((labels, _),) = samples.items()
        ((own_labels, _),) = ours[name].items()
        assert {key for key, _ in own_labels} == {key for key, _ in labels} - OF_A_BROKER, name
        assert ("node_type", "tidemark") in own_labels
    assert value(ours, "rocketmq_consumer_lag_messages") == 4
    assert value(ours, "rocketmq_consumer_lag_latency") == 1200
    assert value(ours, "rocketmq_consumer_inflight_messages") == 1
    assert value(ours, "rocketmq_consumer_ready_messages") == 3
    assert value(ours, "rocketmq_consumer_queueing_latency") == 60_000
    connections = value(
        ours,
        "rocketmq_consumer_connections",
        language="java",
        version="v5_5_0",
        consume_mode="push",
    )
    assert connections == 1


def test_unknown_is_no_sample():
    samples = metrics_of(group(lag=4))
    assert value(samples, "rocketmq_consumer_lag_messages") == 4
    assert "rocketmq_consumer_lag_latency" not in samples
    assert "rocketmq_consumer_inflight_messages" not in samples


def test_an_incomplete_sum_is_unknown():
    """One broker of two is unreachable: the other's part is not the lag."""
    samples = metrics_of(group(lag=4, delay_ms=10, complete=False))
    assert "rocketmq_consumer_lag_messages" not in samples
    assert "rocketmq_consumer_lag_latency" not in samples


@pytest.mark.parametrize(("topic", "is_retry"), [("%RETRY%g", "true"), ("t", "false")])
def test_retry_topics_are_labelled(topic, is_retry):
    samples = metrics_of(group(topic=topic, lag=0))
    assert value(samples, "rocketmq_consumer_lag_messages", topic=topic, is_retry=is_retry) == 0


@pytest.mark.parametrize(("lag", "delay_ms"), [(0, 0), (7, 900)])
@pytest.mark.parametrize("is_bound", [True, False, None])
def test_a_lower_bound_of_zero_is_no_sample(lag, delay_ms, is_bound):
    """400 popped messages that stay unacknowledged: offsets alone show lag 0 and delay 0."""
    numbers = {"lag": lag, "delay_ms": delay_ms, "inflight": None, "ready_delay_ms": 0}
    of_queue = {"at": 1, "consumer_group": "g", "topic": "t", "queue_id": 0, "broker": "b"}
    of_queue |= {"delay_ms": delay_ms, "lag_is_lower_bound": is_bound}
    marks = {"lag_is_lower_bound": is_bound, "delay_is_lower_bound": is_bound}
    samples = metrics_of(
        group(**numbers, **marks) | {"progress.queues": arrow(progress.QUEUES, [of_queue])}
    )
    is_absent = bool(is_bound and lag == 0)
    for name in (
        *("rocketmq_consumer_lag_messages", "rocketmq_consumer_lag_latency"),
        *("rocketmq_consumer_lag_latency_milliseconds", "rocketmq_group_diff"),
        "rocketmq_group_get_latency_by_storetime",
    ):
        assert (name not in samples) == is_absent, name
    assert "rocketmq_consumer_inflight_messages" not in samples
    assert value(samples, "rocketmq_consumer_queueing_latency") == 0
    for name in ("tidemark_group_lag_is_lower_bound", "tidemark_group_delay_is_lower_bound"):
        assert (name in samples) == (is_bound is not None)
        if is_bound is not None:
            assert value(samples, name) == is_bound
    assert value(samples, "tidemark_group_lag_messages") == lag
