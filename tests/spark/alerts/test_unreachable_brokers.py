"""What a look could not read: brokers that answer something, and not what they hold.

One simplification would look right and break: taking any problem of a broker for one of these.
"""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake.tables.raw import BROKERS, SNAPSHOTS
from spark.alerts.evaluation import evaluate, evaluate_subjects, tables_to_read
from tests.spark.alerts.test_evaluation import named
from tests.support.table_rows import frame, minutes, snapshot_id

pytestmark = pytest.mark.spark

A, SLAVE, B = "10.0.0.1:10911", "10.0.0.1:10921", "10.0.0.2:10911"

BOTH = ("broker-a", "broker-b")


def look(
    *problems: tuple[str, str, str],
    read: tuple[str, ...] | None = BOTH,
    silent: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A snapshot of two masters and a slave: where, what and how something failed."""
    names = ("endpoint", "operation", "message")
    return {
        "problems": [dict(zip(names, problem, strict=True)) for problem in problems],
        "brokers_read": read,
        "silent": silent,
    }


ONLY_A = ("broker-a",)
TIMED_OUT = "no response within 5 s"
DENIED = "access denied to requests without an account: NO_PERMISSION"

LOOKS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing failed": (look(), []),
    "offsets": (look((B, "GET_ALL_CONSUMER_OFFSET", TIMED_OUT), read=ONLY_A), [B]),
    "offsets, by an earlier loading": (look((B, "GET_ALL_CONSUMER_OFFSET", "?"), read=None), [B]),
    "all, of which the first is told": (
        look((B, "GET_BROKER_CONFIG", f"{DENIED} (4 more requests failed)"), read=ONLY_A),
        [B],
    ),
    "only what changes no number": (look((B, "GET_BROKER_CONFIG", DENIED)), []),
    "topics": (look((B, "GET_ALL_TOPIC_CONFIG", DENIED)), [B]),
    "one topic and one group": (
        look(
            (B, "GET_TOPIC_STATS_INFO gone", "SYSTEM_ERROR"),
            (B, "GET_CONSUMER_CONNECTION_LIST gone", TIMED_OUT),
        ),
        [],
    ),
    "ten topics, each by itself": (
        look(*((B, f"GET_TOPIC_STATS_INFO t{each}", "SYSTEM_ERROR") for each in range(10))),
        [B],
    ),
    "every topic from one on": (
        look((B, "GET_TOPIC_STATS_INFO t", f"{TIMED_OUT} (57 more requests failed)")),
        [B],
    ),
    "what only deep looks ask": (
        look((A, "GET_CONSUMER_RUNNING_INFO g", f"{TIMED_OUT} (57 more requests failed)")),
        [],
    ),
    "an answer that cannot be": (
        look((A, "GET_ALL_CONSUMER_OFFSET", "2 offsets below 0, such as -7 of g on t queue 0")),
        [],
    ),
    "pull offsets of a slave": (look((SLAVE, "GET_ALL_CONSUMER_OFFSET", DENIED)), []),
    "a broker that holds nothing": (look(read=ONLY_A), []),
    "a slave is silent": (
        look((SLAVE, "GET_BROKER_CONFIG", "connection refused"), silent=(SLAVE,)),
        [SLAVE],
    ),
    "one silent, one without offsets": (
        look(
            (A, "GET_ALL_CONSUMER_OFFSET", TIMED_OUT),
            (B, "GET_ALL_CONSUMER_OFFSET", "connection refused (2 more requests failed)"),
            read=(),
            silent=(B,),
        ),
        [A, B],
    ),
}
"""Looks, and what was not read at each."""


def test_a_broker_that_reports_no_offsets_was_not_read(spark: SparkSession) -> None:
    snapshots, brokers = [], []
    for at, (told, _) in enumerate(LOOKS.values()):
        silent = told.pop("silent")
        counts = {"brokers_expected": 3, "brokers_answered": 3 - len(silent)}
        snapshots.append({"at": at, "source": "remote", "status": "PARTIAL"} | counts | told)
        for broker, broker_id, address in (
            ("broker-a", 0, A),
            ("broker-a", 1, SLAVE),
            ("broker-b", 0, B),
        ):
            names = {"broker": broker, "broker_id": broker_id, "address": address}
            answer = {} if address in silent else {"version": "V5_3_3"}
            brokers.append({"at": at} | names | answer)
    asked, window = named("collection_incomplete"), minutes(0, 60)
    assert [table.name for table, _ in tables_to_read(asked, window)] == [
        "raw.snapshots",
        "raw.brokers",
    ]
    frames = {
        SNAPSHOTS.name: frame(spark, SNAPSHOTS, snapshots),
        BROKERS.name: frame(spark, BROKERS, brokers),
    }
    found = {
        row.observed_at.minute: (row.value, json.loads(row.evidence)["row"]["unread"])
        for row in evaluate(asked, frames, window).collect()
    }
    expected = {
        at: (len(unread), unread) for at, (_, unread) in enumerate(LOOKS.values()) if unread
    }
    assert found == expected
    rule_and_subject = [("collection_incomplete", "lab")]
    subjects = spark.createDataFrame(rule_and_subject, "rule string, subject string")
    said = evaluate_subjects(asked, frames, window, subjects).collect()
    assert {row.snapshot_id: row.holds for row in said} == {
        snapshot_id(at): at in expected for at in range(len(LOOKS))
    }
