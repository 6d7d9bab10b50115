"""Names, labels and values of topics and brokers as rocketmq-exporter has them."""

import pytest

from tests.support.recorded import FIXTURES
from tests.support.scrape import metrics_of, scraped, value
from tests.support.table_rows import arrow, minute
from tidemark.board.metrics.endpoint import Facts, Metrics
from tidemark.board.metrics.exporter_brokers import REPORT_KEYS, RUNTIME
from tidemark.lake.tables import progress, raw
from tidemark.rocketmq.admin import responses
from tidemark.rocketmq.admin.broker_reports import RUNTIME_KEYS, kept
from tidemark.settings.sections import MetricsSettings


def test_offsets_of_topics_retries_and_dead_letters():
    rows = [
        {"at": 1, "topic": topic, "queue_id": queue_id, "max_offset": max_offset}
        for topic, queue_id, max_offset in [
            ("t", 0, 5),
            ("t", 1, 6),
            ("%RETRY%g", 0, 3),
            ("%DLQ%g", 0, 2),
        ]
    ]
    samples = metrics_of({"raw.queue_offsets": arrow(raw.QUEUE_OFFSETS, rows)})
    labels = {"cluster": "lab", "broker": "broker-a"}
    (produced,) = samples["rocketmq_producer_offset"].items()
    assert produced == (frozenset((labels | {"topic": "t"}).items()), 11)
    (retried,) = samples["rocketmq_topic_retry_offset"].items()
    assert retried == (frozenset((labels | {"topic": "%RETRY%g"}).items()), 3)
    (dead,) = samples["rocketmq_topic_dlq_offset"].items()
    assert dead == (frozenset((labels | {"group": "g"}).items()), 2)


def test_produce_rates_count_a_queue_once():
    """Two groups read the queue; a topic that no group reads has the broker's own counter."""
    queues = [
        {"at": 1, "consumer_group": name, "topic": "t", "queue_id": 0, "produce_tps": 2.5}
        for name in ("g", "h")
    ]
    counters = [
        {"at": 0, "broker_id": 0, "stats_name": name, "stats_key": topic, "topic": topic}
        | {"stats_window": "minute", "tps": 9.0}
        for topic in ("t", "unconsumed")
        for name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE")
    ]
    samples = metrics_of(
        {
            "progress.queues": arrow(progress.QUEUES, queues),
            "raw.broker_stats": arrow(raw.BROKER_STATS, counters),
        }
    )
    assert value(samples, "rocketmq_producer_tps", topic="t") == 2.5
    assert value(samples, "rocketmq_producer_tps", topic="unconsumed") == 9
    assert value(samples, "rocketmq_producer_message_size", topic="t") == 9


def brokers(*rows):
    return {"raw.brokers": arrow(raw.BROKERS, [{"at": 1, "broker_id": 0, **row} for row in rows])}


def test_masters_have_rates_and_slaves_a_difference():
    samples = metrics_of(
        brokers(
            {"address": "m", "put_tps": 1.0, "get_tps": 2.0, "commit_log_max_offset": 900},
            {"address": "s", "broker_id": 1, "put_tps": 1.0, "commit_log_max_offset": 400},
            {"address": "silent", "broker": "broker-b"},
        )
    )
    labels = {"cluster": "lab", "brokerIP": "m", "broker": "broker-a"}
    assert samples["rocketmq_broker_tps"] == {frozenset(labels.items()): 1}
    assert samples["rocketmq_broker_qps"] == {frozenset(labels.items()): 2}
    slave = frozenset((labels | {"brokerIP": "s"}).items())
    assert samples["rocketmq_broker_commitlog_diff"] == {slave: 500}


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_runtime_of_a_recorded_report(version):
    body = (FIXTURES / f"rocketmq-{version}" / "28_runtime_m.body").read_bytes()
    report = responses.decode_broker_runtime_info(body)
    row = {
        "address": "127.0.0.1:10911",
        "version": report["brokerVersionDesc"],
        "booted_at": minute(0),
        "runtime": list((kept(report) or {}).items()),
        "disk_ratio": 0.21,
        "commit_log_min_offset": 0,
        "commit_log_max_offset": 17,
        "dispatch_behind_bytes": 0,
        "earliest_stored_at": minute(0),
    }
    samples = metrics_of(brokers(row))
    empty = {metric.name for metric in RUNTIME.metrics if metric.name not in samples}
    # The report of a broker that is minutes old has but one rate over 10 minutes.
    assert len(empty) == 4 and all(name.endswith("tps600") for name in empty), empty
    metrics = Metrics(MetricsSettings())
    metrics.refresh(brokers(row), Facts())
    accept = "application/openmetrics-text;version=1.0.0"
    assert scraped(metrics.page(accept).body.decode(), is_openmetrics=True) == samples
    labels = {
        "cluster": "lab",
        "brokerIP": "127.0.0.1:10911",
        "brokerHost": "",
        "des": f"V{version.replace('.', '_')}",
        "boottime": f"{minute(0).timestamp() * 1000:.0f}",
        "broker_version": report["brokerVersion"],
    }
    name = "rocketmq_brokeruntime_"
    assert set(samples[name + "pmdt_0ms"]) == {frozenset(labels.items())}
    expected = {
        "4.9.7": {
            "pmdt_0ms": 25414,
            "pmdt_0to10ms": 214,
            "gettransfered_tps10": 1388.0895283772982,
        },
        "5.3.3": {
            "pmdt_0ms": 28470,
            "pmdt_10to50ms": 45,
            "gettransfered_tps60": 1258.0800852111972,
        },
    }[version]
    expected |= {
        "msg_put_total_today_now": float(report["msgPutTotalTodayNow"]),
        "putmessage_times_total": float(report["putMessageTimesTotal"]),
        "commitlogdir_capacity_total": 252.0 * 2**30,
        "commitlog_disk_ratio": 0.21,
        "earliest_message_timestamp": minute(0).timestamp() * 1000,
    }
    for end, number in expected.items():
        assert value(samples, name + end) == pytest.approx(number, rel=1e-5), end
    flush = {"4.9.7": 39.3, "5.3.3": 55.3}[version]
    assert value(samples, name + "remain_howmanydata_toflush") == pytest.approx(flush * 1024)


def test_a_snapshot_keeps_every_key_that_metrics_need():
    assert REPORT_KEYS == RUNTIME_KEYS


def test_a_report_with_other_texts_is_no_sample():
    row = {"address": "a", "runtime": [("putTps", "n/a"), ("commitLogDirCapacity", "?")]}
    samples = metrics_of(brokers(row))
    assert not [name for name in samples if name.startswith("rocketmq_brokeruntime")]
