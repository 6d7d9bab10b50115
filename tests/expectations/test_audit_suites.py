"""Every expectation that only the hourly audit has, on rows that can be checked by eye."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from expectations.adapter import validate
from expectations.annotations import annotate
from expectations.audit_suites import AUDIT_EXPECTATIONS, AUDIT_ONLY
from expectations.declarations import LAG_OF_OFFSETS, structural
from tests.support.table_rows import frame
from tidemark.lake.tables import TABLES

Row = dict[str, Any]
Cases = dict[str, tuple[Row, list[Row], list[Row]]]

EARLY, LATE = (datetime(2026, 11, 19, hour, tzinfo=UTC) for hour in (11, 12))


def never_negative(*columns: str) -> Cases:
    """The cases of columns that are 0 or more."""
    return {f"{column}_ge_0": ({column: 0}, [{column: -1}], [{column: None}]) for column in columns}


def never_above(low: str, high: str, least: Any = 3, most: Any = 4) -> Cases:
    """The cases of two columns of which one is not above the other."""
    return {
        f"{low}_le_{high}": (
            {low: least, high: least},
            [{low: most, high: least}],
            [{low: None, high: least}, {low: most, high: None}],
        )
    }


def known(column: str, good: str) -> Cases:
    """The cases of a text that is one of a known set."""
    return {f"{column}_known": ({column: good}, [{column: "OTHER"}], [{column: None}])}


def share(column: str) -> Cases:
    """The cases of a share."""
    return {
        f"{column}_in_0_to_1": ({column: 1.0}, [{column: 1.1}, {column: -0.1}], [{column: None}])
    }


PUT_IN_AN_HOUR = {"stats_name": "TOPIC_PUT_NUMS", "stats_window": "hour"}
GOT_IN_AN_HOUR = {"stats_name": "GROUP_GET_NUMS", "stats_window": "hour"}

# table -> expectation -> (a row that meets it, rows that violate it, rows it does not apply to)
CASES: dict[str, Cases] = {
    "raw.snapshots": {},
    "raw.consume_stats": {},
    "raw.broker_metrics": {},
    "progress.groups": {
        **never_negative("queues", "queues_unknown"),
        **never_negative("lag", "lost", "readable_lag", "delay_ms", "clients"),
        **never_negative("unreachable_messages"),
        **never_above("queues_unknown", "queues"),
        **never_above("queues_never_committed", "queues"),
        **never_above("readable_lag", "lag_upper"),
        **never_above("filtered_lag_low", "filtered_lag"),
        **never_above("filtered_lag", "filtered_lag_high"),
        **share("match_ratio"),
        **known("health", "OK"),
        "complete_without_unknown_queues": (
            {"complete": False, "queues_unknown": 1},
            [{"complete": True, "queues_unknown": 1}, {"complete": False, "queues_unknown": 0}],
            [{"complete": None, "queues_unknown": 0}],
        ),
    },
    "progress.topics": {
        **never_negative("queues", "messages", "unreadable_messages"),
        **never_negative("added_last_hour", "timing_messages", "produce_tps"),
        **never_above("unreadable_messages", "messages"),
        **known("unreadable_reason", "BEYOND_READ_QUEUES"),
        "unreadable_for_a_reason": (
            {"unreadable_messages": 1, "unreadable_reason": "NO_READ_PERMISSION"},
            [
                {"unreadable_messages": 1, "unreadable_reason": None},
                {"unreadable_messages": 0, "unreadable_reason": "NO_READ_PERMISSION"},
            ],
            [{"unreadable_messages": None, "unreadable_reason": None}],
        ),
    },
    "progress.assignments": {
        **known("state", "OK"),
        "contested_by_several": (
            {"state": "CONTESTED", "owners": ["a", "b"]},
            [{"state": "OK", "owners": ["a", "b"]}, {"state": "CONTESTED", "owners": ["a"]}],
            [{"state": None, "owners": ["a"]}],
        ),
    },
    "progress.idle_clients": {
        "clients_ge_1": ({"clients": 1}, [{"clients": 0}], [{"clients": None}]),
        **never_negative("queues"),
    },
    "progress.subscriptions": {
        "consistent_without_differences": (
            {"consistent": True, "differences": []},
            [
                {"consistent": True, "differences": ["TOPICS"]},
                {"consistent": False, "differences": []},
            ],
            [{"consistent": None, "differences": ["TOPICS"]}],
        ),
    },
    "progress.snapshots": {},
    "progress.timeline": {
        **never_negative("max_offset"),
        "previous_at_before_observed_at": (
            {"previous_at": EARLY, "observed_at": LATE},
            [{"previous_at": LATE, "observed_at": EARLY}],
            [{"previous_at": None, "observed_at": LATE}],
        ),
    },
    "progress.peaks": {
        **never_negative("peak_tps"),
        "hour_of_week_in_0_to_167": (
            {"hour_of_week": 167},
            [{"hour_of_week": -1}, {"hour_of_week": 168}],
            [{"hour_of_week": None}],
        ),
    },
    "progress.baselines": {
        "hour_of_week_in_0_to_167": (
            {"hour_of_week": 167},
            [{"hour_of_week": -1}, {"hour_of_week": 168}],
            [{"hour_of_week": None}],
        ),
        "weeks_in_1_to_4": ({"weeks": 4}, [{"weeks": 0}, {"weeks": 5}], [{"weeks": None}]),
        **{
            f"{name}_low_to_high": (
                {f"{name}_low": 2.0, f"{name}_high": 2.0},
                [{f"{name}_low": 2.0, f"{name}_high": 1.0}],
                [{f"{name}_low": None, f"{name}_high": 1.0}],
            )
            for name in ("delay_ms", "lag", "produce_tps", "consume_tps")
        },
    },
    "progress.objectives": {
        **{
            f"{name}_in_0_to_60": ({name: 60}, [{name: -1}, {name: 61}], [{name: None}])
            for name in ("good", "bad", "unknown")
        },
        **never_negative("bad_before", "unknown_before", "burn_rate_1h", "burn_rate_6h"),
        "minutes_of_an_hour": (
            {"good": 50, "bad": 5, "unknown": 5},
            [{"good": 50, "bad": 6, "unknown": 5}],
            [{"good": None, "bad": 6, "unknown": 5}],
        ),
    },
    "progress.throughput": {
        **never_negative("tps", "sum", "tps_observed"),
        **share("served_by_replicas"),
        "tps_is_master_and_replicas": (
            {"tps": 3.0, "tps_master": 1.0, "tps_replicas": 2.0},
            [{"tps": 3.0, "tps_master": 1.0, "tps_replicas": None}],
            [{"tps": None, "tps_master": 1.0}],
        ),
        "tps_agrees_with_offsets": (
            {**PUT_IN_AN_HOUR, "tps": 120.0, "tps_observed": 100.0},
            [
                {**PUT_IN_AN_HOUR, "tps": 121.0, "tps_observed": 100.0},
                {**PUT_IN_AN_HOUR, "tps": 79.0, "tps_observed": 100.0},
                {**GOT_IN_AN_HOUR, "tps": 2.1, "tps_observed": 1.0},
            ],
            [
                {**PUT_IN_AN_HOUR, "tps": 121.0, "tps_observed": None},
                {**PUT_IN_AN_HOUR, "tps": 9.0, "tps_observed": 1.0, "stats_window": "minute"},
                {"tps": 9.0, "tps_observed": 1.0, "stats_window": "hour", "stats_name": "OTHER"},
            ],
        ),
    },
    "progress.capacity": {
        **never_negative("threads", "consume_tps", "capacity_tps"),
        **never_above("clients_told", "clients"),
    },
    "progress.events": {**never_negative("messages"), **known("kind", "LOST")},
    "quality.results": {
        **never_above("unexpected", "elements"),
        "success_within_tolerance": (
            {"success": True, "unexpected": 1, "elements": 100, "mostly": 0.99},
            [
                {"success": True, "unexpected": 1, "elements": 100, "mostly": 1.0},
                {"success": True, "unexpected": 2, "elements": 100, "mostly": 0.99},
                {"success": False, "unexpected": 1, "elements": 100, "mostly": 0.99},
                {"success": False, "unexpected": 0, "elements": 0, "mostly": 1.0},
            ],
            [{"success": False, "unexpected": None, "elements": None, "mostly": 1.0}],
        ),
    },
    "quality.quarantine": {},
    "quality.decisions": known("decision", "released"),
    "alerting.alerts": known("severity", "critical"),
    "alerting.incidents": {
        **known("state", "FIRING"),
        **never_above("opened_at", "fired_at", EARLY, LATE),
        **never_above("fired_at", "resolved_at", EARLY, LATE),
        "firing_since_an_instant": (
            {"state": "FIRING", "fired_at": EARLY},
            [{"state": "ACKNOWLEDGED", "fired_at": None}],
            [{"state": "PENDING", "fired_at": None}],
        ),
    },
    "alerting.notifications": {
        **never_negative("attempts"),
        "delivered_at_an_instant": (
            {"status": "DELIVERED", "delivered_at": EARLY},
            [
                {"status": "DELIVERED", "delivered_at": None},
                {"status": "PENDING", "delivered_at": EARLY},
            ],
            [{"status": None, "delivered_at": EARLY}],
        ),
    },
}


def test_every_table_has_expectations_with_unique_names() -> None:
    assert set(AUDIT_EXPECTATIONS) == set(TABLES)
    for name, suite in AUDIT_EXPECTATIONS.items():
        assert len(suite) == len({expectation.name for expectation in suite}), name


@pytest.mark.spark
@pytest.mark.parametrize("name", [name for name, cases in CASES.items() if cases])
def test_conditions_are_true_false_or_null_as_declared(name: str, spark: SparkSession) -> None:
    conditions = {expectation.name: expectation.condition for expectation in AUDIT_ONLY[name]}
    cases = [
        (expectation, expected, row)
        for expectation, (meets, violates, not_applicable) in CASES[name].items()
        for expected, rows in ((True, [meets]), (False, violates), (None, not_applicable))
        for row in rows
    ]
    values = (
        frame(spark, TABLES[name], [row for _, _, row in cases])
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


@pytest.mark.parametrize("name", AUDIT_ONLY)
def test_every_audit_expectation_has_a_case(name: str) -> None:
    tested_below = {
        "lag_is_the_sum_of_its_queues",
        "rows_as_many_as_usual",
        "store_agrees_with_live_looks",
        "agrees_with_bulk",
        "lag_agrees_with_offsets",
    }
    declared = {expectation.name for expectation in structural(TABLES[name], "warn")}
    assert {expectation.name for expectation in AUDIT_ONLY[name]} - declared - tested_below == set(
        CASES[name]
    )


@pytest.mark.parametrize("name", AUDIT_ONLY)
def test_audit_expectations_only_warn_and_show_existing_columns(name: str) -> None:
    assert {expectation.severity for expectation in AUDIT_ONLY[name]} == {"warn"}
    for expectation in AUDIT_ONLY[name]:
        shown = {column for column in expectation.columns if column != LAG_OF_OFFSETS}
        assert shown <= set(TABLES[name].column_names), expectation.name


@pytest.mark.spark
def test_group_lag_is_the_sum_of_its_queues(spark: SparkSession) -> None:
    def queue(at: float, queue_id: int, lag: int | None, client: str | None = None) -> Row:
        key = {"at": at, "consumer_group": "g", "topic": "t"}
        return {**key, "queue_id": queue_id, "lag": lag, "client_id": client}

    queues = [
        *(queue(at, 0, 5) for at in range(4)),
        *(queue(at, 1, -2) for at in range(4)),  # ahead of its broker: counts 0
        queue(4, 0, 5, "a"),
        queue(5, 0, None),
    ]
    lags = [5, 3, None, 5, 5, None]
    models = [None, "CLUSTERING", None, "BROADCASTING", None, None]
    groups = [
        {"at": at, "consumer_group": "g", "topic": "t", "lag": lag, "message_model": model}
        for at, (lag, model) in enumerate(zip(lags, models, strict=True))
    ]
    frames = {
        "progress.groups": frame(spark, TABLES["progress.groups"], groups),
        "progress.queues": frame(spark, TABLES["progress.queues"], queues),
    }
    flags = condition_values("progress.groups", frames, "lag_is_the_sum_of_its_queues")
    assert flags == [True, False, None, None, None, None]


def condition_values(
    name: str, frames: dict[str, DataFrame], expectation: str
) -> list[bool | None]:
    """The condition of one expectation for each row of a table, in order of time."""
    (declared,) = (item for item in AUDIT_ONLY[name] if item.name == expectation)
    annotated = annotate(name, frames, expectations=[declared]).orderBy("observed_at")
    return [row[0] for row in annotated.select(F.expr(declared.condition)).collect()]


@pytest.mark.spark
def test_snapshot_with_under_half_the_usual_rows_fails(spark: SparkSession) -> None:
    rows = {-61: 90, -30: 30, -20: 34, 0: 15, 1: 14, 2: 14, 3: 0}
    snapshots = [(0, "COMPLETE"), (1, "COMPLETE"), (2, "PARTIAL"), (3, "COMPLETE")]
    frames = {
        "raw.snapshots": frame(
            spark,
            TABLES["raw.snapshots"],
            [{"at": at, "source": "remote", "status": status} for at, status in snapshots],
        ),
        "raw.queue_offsets": frame(
            spark,
            TABLES["raw.queue_offsets"],
            [
                {"at": at, "queue_id": number}
                for at, count in rows.items()
                for number in range(count)
            ],
        ),
        "raw.consumer_offsets": frame(
            spark, TABLES["raw.consumer_offsets"], [{"at": -30, "queue_id": 0}]
        ),
    }
    # Before minute 0 the mean is that of 31 and 34, before minute 1 of 15 too: 26.7.
    flags = condition_values("raw.snapshots", frames, "rows_as_many_as_usual")
    assert flags == [False, True, None, False]


@pytest.mark.spark
def test_store_offset_outside_live_snapshots_fails(spark: SparkSession) -> None:
    def queue(at: float, maximum: int, queue_id: int = 0) -> Row:
        return {"at": at, "topic": "t", "queue_id": queue_id, "max_offset": maximum}

    sources = {1: "store", 2: "remote", 3: "store", 5: "store", 7: "store"}
    frames = {
        "raw.snapshots": frame(
            spark,
            TABLES["raw.snapshots"],
            [{"at": at, "source": source} for at, source in sources.items()],
        ),
        "raw.queue_offsets": frame(
            spark,
            TABLES["raw.queue_offsets"],
            [
                *(queue(0, 10), queue(1, 15), queue(2, 20)),  # between both
                *(queue(3, 19), queue(4, 30)),  # below the live snapshot before
                *(queue(5, 31), queue(6, 5)),  # the queue fell in between
                queue(7, 5),  # no live snapshot since
            ],
        ),
    }
    flags = condition_values("raw.snapshots", frames, "store_agrees_with_live_looks")
    assert flags == [True, None, False, None, None]


@pytest.mark.spark
def test_consume_stats_outside_two_bulk_reads_fail(spark: SparkSession) -> None:
    def row(at: float, committed: int | None, maximum: int) -> tuple[Row, Row]:
        queue = {"at": at, "topic": "t", "queue_id": 0, "max_offset": maximum}
        group = {"at": at, "topic": "t", "queue_id": 0, "consumer_group": "g"}
        return queue, {**group, "consumer_offset": committed}

    bulk = [
        *(row(0, 10, 20), row(1, 12, 25)),
        *(row(2, 12, 25), row(3, None, 25), row(4, 3, 25), row(5, 2, 25), row(6, 2, 26)),
    ]
    consume_stats = {
        0: (11, 20),  # committed and written in between
        1: (13, 25),  # more than the next snapshot has
        2: (0, 25),  # the next snapshot has no offset
        3: (0, 25),
        4: (3, 25),  # reset in between
        5: (2, 24),  # fewer than in the snapshot before
        6: (2, 26),  # no live snapshot since
    }
    frames = {
        "raw.queue_offsets": frame(
            spark, TABLES["raw.queue_offsets"], [queue for queue, _ in bulk]
        ),
        "raw.consumer_offsets": frame(
            spark, TABLES["raw.consumer_offsets"], [group for _, group in bulk]
        ),
        "raw.consume_stats": frame(
            spark,
            TABLES["raw.consume_stats"],
            [
                {
                    "at": at,
                    "topic": "t",
                    "queue_id": 0,
                    "consumer_group": "g",
                    "consumer_offset": consumer_offset,
                    "max_offset": max_offset,
                }
                for at, (consumer_offset, max_offset) in consume_stats.items()
            ],
        ),
    }
    flags = condition_values("raw.consume_stats", frames, "agrees_with_bulk")
    assert flags == [True, False, None, None, None, False, None]


@pytest.mark.spark
def test_broker_metrics_outside_the_offsets_fail(spark: SparkSession) -> None:
    """The lag at the endpoint lies between those of the offsets before and after it."""

    def offsets(name: str, *pairs: tuple[int | None, int]) -> tuple[list[Row], list[Row]]:
        queues = [
            {"at": at, "topic": name, "queue_id": 0, "max_offset": maximum}
            for at, (_, maximum) in enumerate(pairs)
        ]
        groups = [
            {"at": at, "topic": name, "queue_id": 0, "consumer_group": "g"}
            | {"consumer_offset": committed, "offset_store": "broker"}
            for at, (committed, _) in enumerate(pairs)
        ]
        return queues, groups

    # name -> (offsets of two snapshots, lag at the endpoint, mode, filter, expected)
    cases: dict[str, tuple[list[tuple[int | None, int]], int, str, str, bool | None]] = {
        "least": ([(10, 20), (12, 25)], 8, "pull", "none", True),
        "most": ([(10, 20), (12, 25)], 15, "pull", "none", True),
        "fewer": ([(10, 20), (12, 25)], 7, "pull", "none", False),
        "more": ([(10, 20), (12, 25)], 16, "pull", "none", False),
        "popped": ([(10, 20), (12, 25)], 300, "pop", "none", True),
        "popped-fewer": ([(10, 20), (12, 25)], 7, "pop", "none", False),
        "filtered": ([(10, 20), (12, 25)], 1, "pull", "tag_sample", None),
        "never-committed": ([(None, 20), (None, 25)], 20, "pull", "none", None),
        "reset": ([(10, 20), (5, 25)], 10, "pull", "none", None),
        "last": ([(10, 20)], 10, "pull", "none", None),
    }
    made = {name: offsets(name, *case[0]) for name, case in cases.items()}
    rows = {
        "raw.queue_offsets": [row for queues, _ in made.values() for row in queues],
        "raw.consumer_offsets": [row for _, groups in made.values() for row in groups],
        "raw.broker_metrics": [
            {"at": 0, "topic": name, "consumer_group": "g", "lag": case[1]}
            for name, case in cases.items()
        ],
        "progress.groups": [
            {"at": 0, "topic": name, "consumer_group": "g", "message_model": "CLUSTERING"}
            | {"consume_mode": case[2], "match_method": case[3]}
            for name, case in cases.items()
        ],
    }
    frames = {name: frame(spark, TABLES[name], row) for name, row in rows.items()}
    (declared,) = AUDIT_ONLY["raw.broker_metrics"]
    annotated = annotate("raw.broker_metrics", frames, expectations=[declared])
    rows_found = annotated.select("topic", F.expr(declared.condition)).collect()
    mapping = {row[0]: row[1] for row in rows_found}
    assert mapping == {name: case[4] for name, case in cases.items()}

    name = "raw.broker_metrics"
    (result,) = validate(frames[name], name, frames, [declared])
    assert (result.success, result.unexpected, result.elements) == (False, 3, 6)
    shown = {row["topic"]: row for row in result.sample}
    assert shown["more"]["lag"] == 16
    between = shown["more"][LAG_OF_OFFSETS]
    assert (between["least"], between["most"]) == (8, 15), "by how much"
