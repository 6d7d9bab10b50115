"""The columns, types and keys of tables that others read, and the rules of every declaration.

The contract stands here once more on purpose: a change of a table that others read is a change of
this file.
"""

import re

import pytest

from tidemark.lake.schema import type_text
from tidemark.lake.tables import TABLES

CONTRACT = {
    "raw.snapshots": "snapshot_id string, cluster string, source string, observed_at timestamp, "
    "finished_at timestamp, status string, brokers_expected int, brokers_answered int, "
    "requests int, bytes bigint, duration_ms bigint, "
    "problems array<struct<endpoint:string;operation:string;code:int;message:string>>",
    "raw.brokers": "snapshot_id string, observed_at timestamp, cluster string, broker string, "
    "broker_id bigint, address string, version string, role string, disk_ratio double, "
    "dispatch_behind_bytes bigint, commit_log_min_offset bigint, commit_log_max_offset bigint, "
    "earliest_stored_at timestamp, retention_hours int, slave_read_enabled boolean, "
    "put_tps double, get_tps double, config map<string;string>",
    "raw.queue_offsets": "snapshot_id string, observed_at timestamp, cluster string, "
    "broker string, topic string, queue_id int, min_offset bigint, max_offset bigint, "
    "newest_stored_at timestamp",
    "raw.consumer_offsets": "snapshot_id string, observed_at timestamp, cluster string, "
    "broker string, consumer_group string, topic string, queue_id int, client_id string, "
    "consumer_offset bigint, pull_offset bigint, pull_source string, "
    "first_unconsumed_at timestamp, offset_store string",
    "raw.topics": "snapshot_id string, observed_at timestamp, cluster string, broker string, "
    "topic string, read_queues int, write_queues int, perm int, message_type string, kind string",
    "raw.consumer_groups": "snapshot_id string, observed_at timestamp, cluster string, "
    "broker string, consumer_group string, consume_enable boolean, retry_max_times int, "
    "which_broker_when_slow bigint, consume_orderly boolean, system boolean",
    "raw.clients": "snapshot_id string, observed_at timestamp, cluster string, "
    "consumer_group string, client_id string, client_address string, language string, "
    "version string, consume_type string, message_model string, consume_from_where string, "
    "thread_count int, allocation_strategy string, started_at timestamp, "
    "subscriptions array<struct<topic:string;expression_type:string;expression:string;"
    "tags:array<string>>>, subscriptions_source string",
    "progress.queues": "snapshot_id string, observed_at timestamp, cluster string, "
    "broker string, topic string, queue_id int, consumer_group string, client_id string, "
    "min_offset bigint, max_offset bigint, consumer_offset bigint, pull_offset bigint, "
    "lag bigint, inflight bigint, available bigint, lost bigint, readable_lag bigint, "
    "lag_upper bigint, consumer_at timestamp, pull_at timestamp, newest_at timestamp, "
    "delay_ms bigint, lag_span_ms bigint, inflight_span_ms bigint, available_span_ms bigint, "
    "delay_source string, delay_error_ms bigint, produce_tps double, consume_tps double, "
    "pull_tps double, drain_seconds double, loss_in_seconds double, ready_delay_ms bigint, "
    "condition string",
    "progress.groups": "observed_at timestamp, cluster string, consumer_group string, "
    "topic string, lag bigint, inflight bigint, available bigint, lost bigint, "
    "readable_lag bigint, lag_upper bigint, queues int, queues_unknown int, "
    "queues_never_committed int, complete boolean, max_queue_lag bigint, worst_broker string, "
    "worst_queue_id int, delay_ms bigint, lag_span_ms bigint, inflight_span_ms bigint, "
    "available_span_ms bigint, produce_tps double, consume_tps double, pull_tps double, "
    "skew double, drain_seconds double, loss_in_seconds double, ready_delay_ms bigint, "
    "clients int, online boolean, "
    "message_model string, consume_type string, client_version string, retry_lag bigint, "
    "dlq_messages bigint",
    "progress.assignments": "observed_at timestamp, cluster string, consumer_group string, "
    "topic string, broker string, queue_id int, strategy string, expected_client_id string, "
    "actual_client_id string, state string",
    "progress.idle_clients": "observed_at timestamp, cluster string, consumer_group string, "
    "topic string, client_id string, reason string",
    "progress.subscriptions": "observed_at timestamp, cluster string, consumer_group string, "
    "consistent boolean, difference string, evidence array<struct<client_id:string;"
    "client_address:string;message_model:string;allocation_strategy:string;subscriptions:"
    "array<struct<topic:string;expression_type:string;expression:string>>>>",
    "quality.results": "observed_at timestamp, table string, expectation string, "
    "success boolean, unexpected bigint, elements bigint, severity string, "
    "window_start timestamp, window_end timestamp, run_id string",
    "quality.quarantine": "observed_at timestamp, table string, reason string, row string, "
    "snapshot_id string",
    "quality.decisions": "observed_at timestamp, decided_at timestamp, table string, "
    "snapshot_id string, row string, decision string, author string, comment string",
    "alerting.alerts": "observed_at timestamp, rule string, severity string, subject string, "
    "value double, threshold double, evidence string",
    "alerting.incidents": "incident_id string, rule string, subject string, severity string, "
    "state string, opened_at timestamp, fired_at timestamp, acknowledged_at timestamp, "
    "resolved_at timestamp, last_value double, peak_value double, observations bigint",
    "alerting.notifications": "incident_id string, transition string, channel string, "
    "attempts int, delivered_at timestamp, last_error string",
}
"""Columns that users read, which keep name, type and meaning. Columns may be added."""

KEYS = {
    "raw.snapshots": "snapshot_id",
    "raw.brokers": "snapshot_id broker broker_id",
    "raw.queue_offsets": "snapshot_id broker topic queue_id",
    "raw.consumer_offsets": "snapshot_id broker consumer_group topic queue_id client_id",
    "raw.clients": "snapshot_id consumer_group client_id",
    "progress.queues": "observed_at cluster broker topic queue_id consumer_group client_id",
    "progress.groups": "observed_at cluster consumer_group topic",
    "progress.assignments": "observed_at cluster consumer_group topic broker queue_id",
    "progress.idle_clients": "observed_at cluster consumer_group topic client_id",
    "progress.subscriptions": "observed_at cluster consumer_group",
    "alerting.incidents": "incident_id",
    "alerting.notifications": "incident_id transition channel",
}


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_a_table_has_the_columns_of_the_contract(name):
    declared = {column.name: type_text(column.type) for column in TABLES[name].columns}
    for column in CONTRACT[name].split(", "):
        column, kind = column.split(" ")
        assert declared.get(column) == kind.replace(";", ","), column


@pytest.mark.parametrize("name", sorted(KEYS))
def test_a_table_has_the_key_of_the_contract(name):
    assert list(TABLES[name].key) == KEYS[name].split()


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_declaration_is_valid(table):
    names = table.column_names
    assert len(names) == len(set(names))
    assert re.fullmatch(r"[a-z]+\.[a-z]+(_[a-z]+)*", table.name)
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) for name in names)
    assert set(table.key) <= set(names)
    assert table.key and set(table.nullable_key) < set(table.key)
    columns = {column.name: column for column in table.columns}
    assert type_text(columns[table.instant].type) == "timestamp"
    assert table.comment.endswith(".") and all(column.comment for column in table.columns)


@pytest.mark.parametrize(
    "ending, kind", [("_at", "timestamp"), ("_ms", "bigint"), ("_tps", "double"), ("_id", None)]
)
def test_a_name_ends_in_its_type(ending, kind):
    kinds = {
        (column.name, type_text(column.type))
        for table in TABLES.values()
        for column in table.columns
        # A client reports its round trips as an average, which is no whole number.
        if column.name.endswith(ending) and not column.name.endswith("_rt_ms")
    }
    assert kinds
    if kind:
        assert {text for _, text in kinds} == {kind}
    # A name means the same everywhere, so it has one type everywhere.
    assert len(kinds) == len({name for name, _ in kinds})
