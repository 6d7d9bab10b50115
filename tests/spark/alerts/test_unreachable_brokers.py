"""Unreachable brokers of a snapshot: those that respond, but not to the request for their data.

One simplification would look right and break: taking any problem of a broker for one of these.
"""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.alerts.evaluation import evaluate, evaluate_subjects, tables_to_read
from tests.support.rules_by_name import named
from tests.support.table_rows import frame, minutes, snapshot_id
from tidemark.lake.tables.raw import BROKERS, SNAPSHOTS

pytestmark = pytest.mark.spark

A, SLAVE, B = "10.0.0.1:10911", "10.0.0.1:10921", "10.0.0.2:10911"

BOTH = ("broker-a", "broker-b")


def snapshot_row(
    *problems: tuple[str, str, str],
    read: tuple[str, ...] | None = BOTH,
    unreachable: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A snapshot of two masters and a slave: where, what and how something failed."""
    names = ("endpoint", "operation", "message")
    return {
        "problems": [dict(zip(names, problem, strict=True)) for problem in problems],
        "brokers_read": read,
        "unreachable": unreachable,
    }


ONLY_A = ("broker-a",)
TIMED_OUT = "no response within 5 s"
DENIED = "access denied to requests without an account: NO_PERMISSION"

SNAPSHOT_ROWS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing failed": (snapshot_row(), []),
    "offsets": (snapshot_row((B, "GET_ALL_CONSUMER_OFFSET", TIMED_OUT), read=ONLY_A), [B]),
    "offsets, by an earlier loading": (
        snapshot_row((B, "GET_ALL_CONSUMER_OFFSET", "?"), read=None),
        [B],
    ),
    "all, of which the first is reported": (
        snapshot_row((B, "GET_BROKER_CONFIG", f"{DENIED} (4 more requests failed)"), read=ONLY_A),
        [B],
    ),
    "only what changes no number": (snapshot_row((B, "GET_BROKER_CONFIG", DENIED)), []),
    "topics": (snapshot_row((B, "GET_ALL_TOPIC_CONFIG", DENIED)), [B]),
    "one topic and one group": (
        snapshot_row(
            (B, "GET_TOPIC_STATS_INFO gone", "SYSTEM_ERROR"),
            (B, "GET_CONSUMER_CONNECTION_LIST gone", TIMED_OUT),
        ),
        [],
    ),
    "ten topics, each by itself": (
        snapshot_row(
            *((B, f"GET_TOPIC_STATS_INFO t{number}", "SYSTEM_ERROR") for number in range(10))
        ),
        [B],
    ),
    "every topic from one on": (
        snapshot_row((B, "GET_TOPIC_STATS_INFO t", f"{TIMED_OUT} (57 more requests failed)")),
        [B],
    ),
    "what only deep snapshots request": (
        snapshot_row((A, "GET_CONSUMER_RUNNING_INFO g", f"{TIMED_OUT} (57 more requests failed)")),
        [],
    ),
    "an answer that cannot be": (
        snapshot_row(
            (A, "GET_ALL_CONSUMER_OFFSET", "2 offsets below 0, such as -7 of g on t queue 0")
        ),
        [],
    ),
    "pull offsets of a slave": (snapshot_row((SLAVE, "GET_ALL_CONSUMER_OFFSET", DENIED)), []),
    "a broker that holds nothing": (snapshot_row(read=ONLY_A), []),
    "a slave is unreachable": (
        snapshot_row((SLAVE, "GET_BROKER_CONFIG", "connection refused"), unreachable=(SLAVE,)),
        [SLAVE],
    ),
    "one unreachable, one without offsets": (
        snapshot_row(
            (A, "GET_ALL_CONSUMER_OFFSET", TIMED_OUT),
            (B, "GET_ALL_CONSUMER_OFFSET", "connection refused (2 more requests failed)"),
            read=(),
            unreachable=(B,),
        ),
        [A, B],
    ),
}
"""Snapshots, and the unread addresses of each."""


def test_a_broker_that_reports_no_offsets_was_not_read(spark: SparkSession) -> None:
    snapshots, brokers = [], []
    for at, (columns, _) in enumerate(SNAPSHOT_ROWS.values()):
        unreachable = columns.pop("unreachable")
        counts = {"brokers_expected": 3, "brokers_answered": 3 - len(unreachable)}
        snapshots.append({"at": at, "source": "remote", "status": "PARTIAL"} | counts | columns)
        for broker, broker_id, address in (
            ("broker-a", 0, A),
            ("broker-a", 1, SLAVE),
            ("broker-b", 0, B),
        ):
            names = {"broker": broker, "broker_id": broker_id, "address": address}
            reported = {} if address in unreachable else {"version": "V5_3_3"}
            brokers.append({"at": at} | names | reported)
    rules, window = named("collection_incomplete"), minutes(0, 60)
    assert [table.name for table, _ in tables_to_read(rules, window)] == [
        "raw.snapshots",
        "raw.brokers",
    ]
    frames = {
        SNAPSHOTS.name: frame(spark, SNAPSHOTS, snapshots),
        BROKERS.name: frame(spark, BROKERS, brokers),
    }
    values = {
        row.observed_at.minute: (row.value, json.loads(row.evidence)["row"]["unreachable"])
        for row in evaluate(rules, frames, window).collect()
    }
    expected = {
        at: (len(unreachable), unreachable)
        for at, (_, unreachable) in enumerate(SNAPSHOT_ROWS.values())
        if unreachable
    }
    assert values == expected
    rule_and_subject = [("collection_incomplete", "lab")]
    subjects = spark.createDataFrame(rule_and_subject, "rule string, subject string")
    found_of_subjects = evaluate_subjects(rules, frames, window, subjects).collect()
    assert {row.snapshot_id: row.holds for row in found_of_subjects} == {
        snapshot_id(at): at in expected for at in range(len(SNAPSHOT_ROWS))
    }
