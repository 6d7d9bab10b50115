"""Names, labels and values of groups as rocketmq-exporter has them."""

import pytest

from tests.support.scrape import metrics_of, value
from tests.support.table_rows import arrow
from tidemark.lake.tables import progress, raw


def groups(*rows):
    common = {"at": 1, "consumer_group": "g", "topic": "t", "complete": True}
    return {"progress.groups": arrow(progress.GROUPS, [common | row for row in rows])}


def queues(*rows):
    common = {"at": 1, "consumer_group": "g", "topic": "t"}
    return {
        "progress.queues": arrow(
            progress.QUEUES, [common | {"queue_id": n} | row for n, row in enumerate(rows)]
        )
    }


def clients(*names, group="g"):
    return {
        "raw.clients": arrow(
            raw.CLIENTS,
            [
                {"at": 1, "consumer_group": group, "client_id": name}
                | {"client_address": f"10.0.0.1:{number}"}
                for number, name in enumerate(names)
            ],
        )
    }


def test_lag_has_the_four_labels():
    samples = metrics_of(groups({"lag": 7}) | clients("a", "b"))
    labels = {"group": "g", "topic": "t", "countOfOnlineConsumers": "2", "msgModel": "1"}
    assert samples["rocketmq_group_diff"] == {frozenset(labels.items()): 7}


@pytest.mark.parametrize(("online", "label"), [(False, "0"), (None, ""), (True, "")])
def test_members_that_are_unknown_are_an_empty_label(online, label):
    """0 is exported only where the group is known to be offline."""
    samples = metrics_of(groups({"lag": 7, "online": online}))
    assert value(samples, "rocketmq_group_diff", countOfOnlineConsumers=label) == 7


def test_retry_and_dead_letters_have_names_of_their_own():
    samples = metrics_of(
        groups({"lag": 7, "dlq_messages": 3}, {"topic": "%RETRY%g", "lag": 2, "dlq_messages": 3})
    )
    assert len(samples["rocketmq_group_diff"]) == 1
    assert value(samples, "rocketmq_group_retrydiff", topic="%RETRY%g") == 2
    assert value(samples, "rocketmq_group_dlqdiff", topic="%DLQ%g") == 3


def test_broadcasting_groups_have_no_lag_there():
    samples = metrics_of(groups({"lag": 7, "message_model": "BROADCASTING"}))
    assert "rocketmq_group_diff" not in samples


def test_clusters_never_collide():
    """The exporter knows one cluster; with several the label `cluster` keeps them apart."""
    snapshots = [{"at": 1, "cluster": name} for name in ("one", "two")]
    known = {"progress.snapshots": arrow(progress.SNAPSHOTS, snapshots)}
    samples = metrics_of(groups({"lag": 1, "cluster": "one"}, {"lag": 2, "cluster": "two"}) | known)
    assert value(samples, "rocketmq_group_diff", cluster="one") == 1
    assert value(samples, "rocketmq_group_diff", cluster="two") == 2


def test_count_of_members_with_their_addresses():
    samples = metrics_of(clients("a", "b") | groups({"consumer_group": "off", "online": False}))
    addresses = {"caddr": "10.0.0.1:0,10.0.0.1:1", "localaddr": "a,b"}
    assert value(samples, "rocketmq_group_count", group="g", **addresses) == 2
    assert value(samples, "rocketmq_group_count", group="off", caddr="", localaddr="") == 0


def test_offsets_rates_and_latency_by_broker():
    samples = metrics_of(
        queues(
            {"consumer_offset": 5, "delay_ms": 100, "pull_tps": 2.0, "consume_tps": 1.0},
            {"consumer_offset": 6, "delay_ms": 900, "consume_tps": 0.25},
            {"consumer_offset": None},
            {"broker": "broker-b", "consumer_offset": 50},
        )
    )
    labels = {"cluster": "lab", "broker": "broker-a", "topic": "t", "group": "g"}
    expected = {
        "rocketmq_consumer_offset": 11,
        "rocketmq_group_consume_total_offset": 11,
        "rocketmq_group_get_latency_by_storetime": 900,
        "rocketmq_consumer_tps": 2.25,
        "rocketmq_group_consume_tps": 1.25,
    }
    for name, number in expected.items():
        assert samples[name][frozenset(labels.items())] == number, name
    assert value(samples, "rocketmq_consumer_offset", broker="broker-b") == 50
    assert value(samples, "rocketmq_consumer_tps", broker="broker-b") is None


def test_clients_keep_what_they_reported():
    topics = arrow(
        raw.CLIENT_TOPICS,
        [{"at": 1, "consumer_group": "g", "client_id": "a", "topic": "t", "consume_rt_ms": 1.5}],
    )
    samples = metrics_of(clients("a") | {"raw.client_topics": topics})
    labels = {"clientAddr": "10.0.0.1:0", "clientId": "a", "group": "g", "topic": "t"}
    assert samples["rocketmq_client_consume_rt"] == {frozenset(labels.items()): 1.5}
    assert "rocketmq_client_consume_ok_msg_tps" not in samples


def test_counters_add_what_slaves_served():
    """A master whose slave serves the group reports 0; the exporter shows that."""
    rows = [
        {"at": 1, "broker_id": broker_id, "stats_name": name, "stats_key": "t@g", "topic": "t"}
        | {"consumer_group": "g", "stats_window": "minute", "tps": tps, "sum": 5}
        for broker_id, name, tps in [
            (0, "GROUP_GET_SIZE", 0.0),
            (1, "GROUP_GET_SIZE", 300.0),
            (0, "SNDBCK_PUT_NUMS", 0.1),
        ]
    ]
    samples = metrics_of({"raw.broker_stats": arrow(raw.BROKER_STATS, rows)})
    assert value(samples, "rocketmq_consumer_message_size", group="g") == 300
    assert value(samples, "rocketmq_send_back_nums", group="g") == 5
