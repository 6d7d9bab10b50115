"""A home with rows for every metric: two brokers, a slave, a group with retries and members."""

from datetime import datetime, timedelta
from typing import Any

from tests.support import board_home
from tests.support.recorded import FIXTURES
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import Table
from tidemark.lake.tables import alerting, progress, raw
from tidemark.rocketmq.admin import responses
from tidemark.rocketmq.admin.broker_reports import kept

GROUP = "billing"
TOPIC = "orders"
COUNTERS = (
    ("TOPIC_PUT_NUMS", None),
    ("TOPIC_PUT_SIZE", None),
    ("GROUP_GET_NUMS", GROUP),
    ("GROUP_GET_SIZE", GROUP),
    ("SNDBCK_PUT_NUMS", GROUP),
)


def fill(lake: Lake, at: datetime) -> None:
    """Writes one observation with a value for every metric that tables can give."""

    def write(table: Table, *rows: dict[str, Any]) -> None:
        lake.append(table, board_home.rows_of(table, at, rows))

    brokers = ("broker-a", "broker-b")
    body = (FIXTURES / "rocketmq-5.3.3" / "28_runtime_m.body").read_bytes()
    report = responses.decode_broker_runtime_info(body)
    # A broker that is older than ten minutes has rates over ten minutes too.
    report |= {key: "1.0 2.0 3.0" for key in report if key.endswith("Tps")}
    addresses = [(name, broker_id) for name in brokers for broker_id in (0, 1)]
    write(
        raw.BROKERS,
        *(
            {"broker": name, "broker_id": broker_id, "address": f"10.0.{broker_id}.1:1091{number}"}
            | {"version": "V5_3_3", "disk_ratio": 0.4, "put_tps": 12.5, "get_tps": 11.0}
            | {"booted_at": at, "runtime": list((kept(report) or {}).items())}
            | {"commit_log_min_offset": 0, "commit_log_max_offset": 900 - broker_id}
            | {"dispatch_behind_bytes": 0, "earliest_stored_at": at, "sends_waiting": 3}
            | {"send_wait_ms": 40, "page_cache_lock_ms": 2, "failed_writes": 7}
            | {"sends_refused": 5, "sends_failed": 6, "light_queues": 40}
            | {"light_queue_limit": 20_000, "lite_subscriptions": 8}
            | {"replica_behind_bytes": 1, "replica_behind_ms": 900, "offsets_missing": 2}
            | {"replica_behind_is_lower_bound": False, "offsets_behind": 11, "producers_online": 2}
            for number, (name, broker_id) in enumerate(addresses)
        ),
    )
    topics = (TOPIC, f"%RETRY%{GROUP}", f"%DLQ%{GROUP}")
    write(
        raw.QUEUE_OFFSETS,
        *(
            {"broker": name, "topic": topic, "queue_id": 0, "min_offset": 0, "max_offset": 100}
            for name in brokers
            for topic in topics
        ),
    )
    numbers = {"lag": 30, "inflight": 4, "available": 26, "lost": 1, "readable_lag": 29}
    numbers |= {"delay_ms": 4_000, "ready_delay_ms": 3_000, "produce_tps": 3.0, "consume_tps": 1.0}
    numbers |= {"pull_tps": 2.0, "drain_seconds": 15.0, "loss_in_seconds": 7_200.0}
    marks = {"lag_is_lower_bound": False, "ready_delay_is_lower_bound": False}
    numbers |= marks
    write(
        progress.QUEUES,
        *(
            numbers
            | {"broker": name, "topic": topic, "queue_id": 0, "consumer_group": GROUP}
            | {"delay_source": "exact", "consumer_offset": 70, "pull_offset": 74, "max_offset": 100}
            for name in brokers
            for topic in topics[:2]
        ),
    )
    sums = {
        "delay_is_lower_bound": False,
        "filtered_lag": 20,
        "retry_lag": 30,
        "retry_lag_is_lower_bound": False,
        "dlq_messages": 200,
        "clients": 2,
    }
    write(
        progress.GROUPS,
        *(board_home.group(GROUP, topic=topic, **numbers | sums) for topic in topics[:2]),
    )
    held = {"unreadable_messages": 8, "timing_messages": 5, "complete": True}
    dead = {"topic": topics[2], "kind": "dlq", "messages": 200, "added_last_hour": 6}
    dead |= {"complete": True, "oldest_at": at - timedelta(hours=2), "newest_at": at}
    dead |= {"oldest_at_is_upper_bound": False}
    write(progress.TOPICS, {"topic": TOPIC} | held, dead)
    minutes = {"good": 50, "bad": 5, "unknown": 5, "bad_before": 1, "unknown_before": 1}
    minutes |= {"budget_left": 0.5, "burn_rate_1h": 2.0, "burn_rate_6h": 1.0, "target": 0.99}
    named = {"consumer_group": GROUP, "topic": TOPIC, "objective": "on-time", "hour": at}
    write(progress.OBJECTIVES, minutes | named)
    members = [{"consumer_group": GROUP, "client_id": f"10.0.0.9@{n}"} for n in (1, 2)]
    write(
        raw.CLIENTS,
        *(
            member
            | {"client_address": f"10.0.0.9:5000{number}", "language": "JAVA"}
            | {"version": "V5_3_3", "consume_type": "CONSUME_PASSIVELY"}
            for number, member in enumerate(members)
        ),
    )
    rates = {"pull_rt_ms": 1.0, "pull_tps": 2.0, "consume_rt_ms": 3.0, "consume_ok_tps": 4.0}
    rates |= {"consume_failed_tps": 0.5, "consume_failed_last_hour": 6}
    write(raw.CLIENT_TOPICS, *(member | rates | {"topic": TOPIC} for member in members))
    write(
        raw.BROKER_STATS,
        *(
            {"broker": name, "broker_id": broker_id, "stats_name": counter, "topic": TOPIC}
            | {"consumer_group": group, "stats_window": "minute", "sum": 60, "tps": 1.0}
            | {"stats_key": f"{TOPIC}@{group}" if group else TOPIC}
            for name, broker_id in addresses
            for counter, group in COUNTERS
        ),
    )
    incident = {"incident_id": "i", "rule": "lag-high", "severity": "warning", "state": "FIRING"}
    incident |= {"subject": f"shop/{GROUP}/{TOPIC}", "opened_at": at, "cluster": "shop"}
    sent = {"incident_id": "i", "transition": "FIRING", "channel": "mail", "attempts": 1}
    sent |= {"status": "DELIVERED", "transition_at": at}
    for table, row in ((alerting.INCIDENTS, incident), (alerting.NOTIFICATIONS, sent)):
        lake.append(table, [{name: row.get(name) for name in table.column_names}])
    proxies = [{"endpoint": "10.0.2.1:8080", "responded": True, "members": 3, "groups": 2}]
    lake.append(raw.SNAPSHOTS, board_home.snapshot_row(at, proxies=proxies))
    write(progress.SNAPSHOTS, {})
