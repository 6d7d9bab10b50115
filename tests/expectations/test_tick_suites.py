"""Every expectation of ticks on rows that meet it, violate it, or to which it does not apply.

`test_quarantine` covers what table declarations demand: known key columns and a unique key.
"""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from expectations.annotations import annotate
from expectations.declarations import structural
from expectations.tick_suites import TICK_EXPECTATIONS
from tests.support.table_rows import frame
from tidemark.lake.tables import TABLES

Row = dict[str, Any]

PROBLEM = {"endpoint": "10.0.0.1:10911", "operation": "connect", "code": None, "message": "refused"}


def never_negative(*columns: str) -> dict[str, tuple[Row, list[Row], list[Row]]]:
    """The cases of columns that are 0 or more."""
    return {f"{column}_ge_0": ({column: 0}, [{column: -1}], [{column: None}]) for column in columns}


# table -> expectation -> (a row that meets it, rows that violate it, rows it does not apply to)
CASES: dict[str, dict[str, tuple[Row, list[Row], list[Row]]]] = {
    "raw.snapshots": {
        "every_broker_answered": (
            {"brokers_expected": 2, "brokers_answered": 2},
            [{"brokers_expected": 2, "brokers_answered": 1, "problems": [PROBLEM]}],
            [{"brokers_expected": None, "brokers_answered": 1}],
        ),
        "status_not_failed": ({"status": "PARTIAL"}, [{"status": "FAILED"}], [{"status": None}]),
    },
    "raw.brokers": {
        "disk_ratio_in_0_to_1": (
            {"disk_ratio": 1.0},
            [{"disk_ratio": 1.01}, {"disk_ratio": -1.0}, {"disk_ratio": float("nan")}],
            [{"disk_ratio": None}],
        ),
        "dispatch_behind_bytes_ge_0": (
            {"dispatch_behind_bytes": 0},
            [{"dispatch_behind_bytes": -1}],
            [{"dispatch_behind_bytes": None}],
        ),
        "commit_log_min_offset_le_commit_log_max_offset": (
            {"commit_log_min_offset": 7, "commit_log_max_offset": 7},
            [{"commit_log_min_offset": 8, "commit_log_max_offset": 7}],
            [{"commit_log_min_offset": 8, "commit_log_max_offset": None}],
        ),
        "retention_hours_ge_0": (
            {"retention_hours": 72},
            [{"retention_hours": -1}],
            [{"retention_hours": None}],
        ),
        "put_tps_ge_0": ({"put_tps": 0.0}, [{"put_tps": -0.1}], [{"put_tps": None}]),
        "get_tps_ge_0": ({"get_tps": 0.0}, [{"get_tps": -0.1}], [{"get_tps": None}]),
    },
    "raw.queue_offsets": {
        "queue_id_ge_0": ({"queue_id": 0}, [{"queue_id": -1}], [{"queue_id": None}]),
        "min_offset_ge_0": ({"min_offset": 0}, [{"min_offset": -1}], [{"min_offset": None}]),
        "max_offset_ge_0": ({"max_offset": 0}, [{"max_offset": -1}], [{"max_offset": None}]),
        "min_offset_le_max_offset": (
            {"min_offset": 5, "max_offset": 5},
            [{"min_offset": 6, "max_offset": 5}],
            [{"min_offset": 6, "max_offset": None}, {"min_offset": None, "max_offset": 5}],
        ),
        "min_offset_not_null": ({"min_offset": 0}, [{"min_offset": None}], []),
        "max_offset_not_null": ({"max_offset": 0}, [{"max_offset": None}], []),
    },
    "raw.consumer_offsets": {
        "consumer_offset_ge_0": (
            {"consumer_offset": 0},
            [{"consumer_offset": -1}],
            [{"consumer_offset": None}],
        ),
        "pull_offset_ge_0": ({"pull_offset": 0}, [{"pull_offset": -1}], [{"pull_offset": None}]),
    },
    "raw.topics": {
        "read_queues_ge_0": ({"read_queues": 0}, [{"read_queues": -1}], [{"read_queues": None}]),
        "write_queues_ge_0": (
            {"write_queues": 0},
            [{"write_queues": -1}],
            [{"write_queues": None}],
        ),
        "perm_in_0_to_7": ({"perm": 6}, [{"perm": 8}, {"perm": -1}], [{"perm": None}]),
    },
    "raw.consumer_groups": {
        "which_broker_when_slow_ge_0": (
            {"which_broker_when_slow": 1},
            [{"which_broker_when_slow": -1}],
            [{"which_broker_when_slow": None}],
        ),
    },
    "raw.clients": {
        "thread_count_ge_0": (
            {"thread_count": 20},
            [{"thread_count": -1}],
            [{"thread_count": None}],
        ),
    },
    "raw.client_queues": never_negative("cached_messages", "cached_mib"),
    "raw.client_topics": never_negative(
        "pull_rt_ms",
        "pull_tps",
        "consume_rt_ms",
        "consume_ok_tps",
        "consume_failed_tps",
        "consume_failed_last_hour",
    ),
    "raw.broker_stats": never_negative("sum", "tps", "avgpt"),
    "raw.broker_metrics": never_negative("lag", "inflight", "ready"),
    "raw.topic_metrics": never_negative("timing_messages"),
    "raw.queue_tags": never_negative("position", "size"),
    "raw.consume_stats": never_negative("consumer_offset", "max_offset"),
    "progress.queues": {
        "min_offset_le_max_offset": (
            {"min_offset": 5, "max_offset": 5},
            [{"min_offset": 6, "max_offset": 5}],
            [{"min_offset": None, "max_offset": 5}],
        ),
        "consumer_offset_le_max_offset": (
            {"consumer_offset": 9, "max_offset": 9},
            [{"consumer_offset": 10, "max_offset": 9}],
            [{"consumer_offset": None, "max_offset": 9}],
        ),
        "consumer_offset_le_pull_offset": (
            {"consumer_offset": 4, "pull_offset": 4, "pull_source": "client_cache"},
            [
                {"consumer_offset": 5, "pull_offset": 4, "pull_source": "consumer_offset_table"},
                {"consumer_offset": 5, "pull_offset": 4, "pull_source": None},
                {"consumer_offset": 5, "pull_offset": 4, "pull_source": "consume_stats"},
            ],
            [
                {"consumer_offset": 5, "pull_offset": None, "pull_source": "client_cache"},
                {"consumer_offset": None, "pull_offset": 4, "pull_source": "client_cache"},
            ],
        ),
        "pull_offset_le_max_offset": (
            {"pull_offset": 9, "max_offset": 9},
            [{"pull_offset": 10, "max_offset": 9, "pull_source": "consume_stats"}],
            [{"pull_offset": 10, "max_offset": None}],
        ),
        "max_offset_falls_only_when_recreated": (
            {"previous_max_offset": 9, "max_offset": 2, "condition": "RECREATED"},
            [
                {"previous_max_offset": 9, "max_offset": 8, "condition": "OK"},
                {"previous_max_offset": 9, "max_offset": 8, "condition": None},
            ],
            [{"previous_max_offset": None, "max_offset": 8, "condition": "OK"}],
        ),
        "lag_is_inflight_plus_available": (
            {"lag": 7, "inflight": 3, "available": 4},
            [{"lag": 7, "inflight": 3, "available": 3}],
            [{"lag": 7, "inflight": None, "available": 4}],
        ),
    },
}


def own(name: str) -> list[str]:
    """Names of a table's expectations without those that its declaration demands."""
    from_declaration = structural(TABLES[name])
    return [
        expectation.name
        for expectation in TICK_EXPECTATIONS[name]
        if expectation not in from_declaration
    ]


@pytest.mark.spark
@pytest.mark.parametrize("name", TICK_EXPECTATIONS)
def test_conditions_are_true_false_or_null_as_declared(name: str, spark: SparkSession) -> None:
    conditions = {
        expectation.name: expectation.condition for expectation in TICK_EXPECTATIONS[name]
    }
    cases = [
        (expectation, expected, row)
        for expectation, (meets, violates, not_applicable) in CASES[name].items()
        for expected, rows in ((True, [meets]), (False, violates), (None, not_applicable))
        for row in rows
    ]
    rows = frame(spark, TABLES[name], [{"at": at, **row} for at, (_, _, row) in enumerate(cases)])
    values = (
        annotate(name, {name: rows})
        .orderBy("observed_at")
        .select(
            *(F.expr(conditions[expectation]).alias(expectation) for expectation in CASES[name])
        )
        .collect()
    )

    entries = [
        (expectation, values[at][expectation], row)
        for at, (expectation, _, row) in enumerate(cases)
    ]

    assert entries == cases


@pytest.mark.parametrize("name", TICK_EXPECTATIONS)
def test_every_tick_expectation_has_a_case(name: str) -> None:
    tested_with_the_quarantine = {"queue_row_present", "queue_row_sound"}

    assert set(own(name)) - tested_with_the_quarantine == set(CASES[name])


@pytest.mark.parametrize("name", TICK_EXPECTATIONS)
def test_names_are_unique_and_samples_show_existing_columns(name: str) -> None:
    names = [expectation.name for expectation in TICK_EXPECTATIONS[name]]

    assert len(names) == len(set(names))
    for expectation in TICK_EXPECTATIONS[name]:
        assert set(expectation.columns) <= set(TABLES[name].column_names), expectation.name


def test_every_raw_table_has_expectations() -> None:
    raw = {name for name in TABLES if name.startswith("raw.")}

    assert raw <= set(TICK_EXPECTATIONS)
