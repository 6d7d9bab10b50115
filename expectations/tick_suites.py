"""Expectations that every tick and backfill validates, by table.

A row that cannot be a measurement violates an expectation of severity ``quarantine``. A violated
offset invariant of ``progress.queues`` is a measurement and has ``warn``, so its row stays visible.
"""

from expectations.declarations import (
    QUEUE_ROW,
    BuiltIn,
    Expectation,
    at_least,
    between,
    not_null,
    ordered,
    structural,
)
from tidemark.lake.tables import TABLES
from tidemark.model.consumption import Condition
from tidemark.model.snapshots import SnapshotStatus

_ANSWERED = BuiltIn(
    "expect_column_pair_values_a_to_be_greater_than_b",
    {
        "column_A": "brokers_answered",
        "column_B": "brokers_expected",
        "or_equal": True,
        "ignore_row_if": "either_value_is_missing",
    },
)
_NOT_FAILED = BuiltIn(
    "expect_column_values_to_not_be_in_set",
    {"column": "status", "value_set": [str(SnapshotStatus.FAILED)]},
)

_OWN: dict[str, tuple[Expectation, ...]] = {
    "raw.snapshots": (
        Expectation(
            name="every_broker_answered",
            severity="warn",
            condition=_ANSWERED.condition,
            violation="brokers_answered < brokers_expected",
            columns=("cluster", "status", "brokers_expected", "brokers_answered", "problems"),
            built_in=_ANSWERED,
            own_check=True,
        ),
        Expectation(
            name="status_not_failed",
            severity="warn",
            condition=_NOT_FAILED.condition,
            violation="status = FAILED",
            columns=("cluster", "status", "problems"),
            built_in=_NOT_FAILED,
            own_check=True,
        ),
    ),
    "raw.brokers": (
        between("disk_ratio", 0, 1),
        at_least("dispatch_behind_bytes", 0),
        ordered("commit_log_min_offset", "commit_log_max_offset", show=("address",)),
        at_least("retention_hours", 0),
        at_least("put_tps", 0),
        at_least("get_tps", 0),
    ),
    "raw.queue_offsets": (
        at_least("queue_id", 0, "quarantine"),
        at_least("min_offset", 0, "quarantine"),
        at_least("max_offset", 0, "quarantine"),
        ordered("min_offset", "max_offset", "quarantine"),
        # A queue without offsets is unknown, not impossible: quarantining it would quarantine the
        # commits on it too. Its lag is NULL, and this check names it.
        not_null("min_offset"),
        not_null("max_offset"),
    ),
    "raw.consumer_offsets": (
        at_least("consumer_offset", 0, "quarantine"),
        at_least("pull_offset", 0, "quarantine"),
        Expectation(
            name="queue_row_present",
            severity="quarantine",
            # Clients' files name no ends of queues: those of the nearest snapshot count.
            condition=f"{QUEUE_ROW} <> 'absent' OR offset_store <=> 'client_file'",
            violation="raw.queue_offsets has no row for the queue in the same snapshot",
        ),
        Expectation(
            name="queue_row_sound",
            severity="quarantine",
            condition=f"{QUEUE_ROW} <> 'quarantined'",
            violation="the queue's row in raw.queue_offsets is quarantined",
        ),
    ),
    "raw.topics": (
        at_least("read_queues", 0),
        at_least("write_queues", 0),
        between("perm", 0, 7),
    ),
    "raw.consumer_groups": (at_least("which_broker_when_slow", 0),),
    "raw.clients": (at_least("thread_count", 0),),
    "raw.client_queues": (
        at_least("cached_messages", 0),
        at_least("cached_mib", 0),
    ),
    "raw.client_topics": tuple(
        at_least(column, 0)
        for column in (
            "pull_rt_ms",
            "pull_tps",
            "consume_rt_ms",
            "consume_ok_tps",
            "consume_failed_tps",
            "consume_failed_last_hour",
        )
    ),
    "raw.broker_stats": (at_least("sum", 0), at_least("tps", 0), at_least("avgpt", 0)),
    "raw.queue_tags": (at_least("position", 0), at_least("size", 0)),
    "raw.consume_stats": (at_least("consumer_offset", 0), at_least("max_offset", 0)),
    "raw.broker_metrics": tuple(at_least(column, 0) for column in ("lag", "inflight", "ready")),
    "raw.topic_metrics": (at_least("timing_messages", 0),),
    "progress.queues": (
        ordered("min_offset", "max_offset"),
        ordered("consumer_offset", "max_offset", show=("condition",), own_check=True),
        ordered(
            "consumer_offset", "pull_offset", show=("pull_source", "condition"), own_check=True
        ),
        ordered("pull_offset", "max_offset", show=("pull_source", "condition"), own_check=True),
        Expectation(
            name="max_offset_falls_only_when_recreated",
            severity="warn",
            condition=f"max_offset >= previous_max_offset OR condition <=> '{Condition.RECREATED}'",
            violation="max_offset < previous_max_offset and condition is not RECREATED",
            columns=("previous_max_offset", "max_offset", "condition"),
            own_check=True,
        ),
        Expectation(
            name="lag_is_inflight_plus_available",
            severity="warn",
            condition="lag = inflight + available",
            violation="lag <> inflight + available",
            columns=(
                "lag",
                "inflight",
                "available",
                "consumer_offset",
                "pull_offset",
                "max_offset",
            ),
        ),
    ),
}

TICK_EXPECTATIONS: dict[str, tuple[Expectation, ...]] = {
    name: (*structural(TABLES[name]), *own) for name, own in _OWN.items()
}
"""Expectations by full table name, validated before any computation on the table."""
