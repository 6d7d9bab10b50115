"""Validation through Great Expectations: counts, samples, and expectations that raise."""

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from expectations import brought_suites
from expectations.adapter import SAMPLE_ROWS, validate
from expectations.annotations import source_tables
from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.data_docs import DataDocs
from expectations.declarations import Expectation, at_least, between
from expectations.quarantine import split
from expectations.tick_suites import TICK_EXPECTATIONS
from expectations.validation_results import ValidationResult, result_rows
from tests.support.table_rows import frame, minute, minutes, snapshot_id
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.tables import TABLES
from tidemark.lake.tables.progress import HEALTH_FACTS
from tidemark.lake.tables.quality import RESULTS
from tidemark.planning.quarantine_decisions import DROPPED, RELEASED, QuarantinedRow

Row = dict[str, Any]


def by_name(results: list[ValidationResult]) -> dict[str, ValidationResult]:
    return {result.expectation: result for result in results}


@pytest.mark.spark
def test_unreachable_broker_fails_the_check_and_is_named(spark: SparkSession) -> None:
    problem = {
        "endpoint": "10.0.0.2:10911",
        "operation": "connect",
        "code": None,
        "message": "connection refused",
    }
    rows = [
        {"at": 0, "brokers_expected": 2, "brokers_answered": 2, "status": "COMPLETE"},
        {
            "at": 1,
            "brokers_expected": 2,
            "brokers_answered": 1,
            "status": "PARTIAL",
            "problems": [problem],
        },
    ]
    name = "raw.snapshots"

    results = validate(frame(spark, TABLES[name], rows), name, expectations=TICK_EXPECTATIONS[name])

    assert [result.expectation for result in results] == [
        expectation.name for expectation in TICK_EXPECTATIONS[name]
    ]
    assert by_name(results)["every_broker_answered"] == ValidationResult(
        table=name,
        expectation="every_broker_answered",
        success=False,
        unexpected=1,
        elements=2,
        severity="warn",
        expected="0 rows where brokers_answered < brokers_expected",
        sample=[
            {
                "snapshot_id": snapshot_id(1),
                "cluster": "lab",
                "status": "PARTIAL",
                "brokers_expected": 2,
                "brokers_answered": 1,
                "problems": [problem],
            }
        ],
    )
    assert {result.expectation for result in results if result.success} == {
        "snapshot_id_not_null",
        "key_unique",
        "status_not_failed",
    }


@pytest.mark.spark
def test_offset_invariant_applies_wherever_both_offsets_are_known(spark: SparkSession) -> None:
    def queue(queue_id: int, pull_source: str | None, pull_offset: int | None) -> Row:
        return {
            "at": 0,
            "consumer_group": "billing",
            "topic": "orders",
            "queue_id": queue_id,
            "consumer_offset": 10,
            "max_offset": 20,
            "pull_offset": pull_offset,
            "pull_source": pull_source,
        }

    rows = [
        queue(0, "client_cache", 12),
        queue(1, "consumer_offset_table", 9),
        queue(2, "consume_stats", 10),
        queue(3, "consume_stats", 12),
        queue(4, None, None),
        queue(5, "consume_stats", 8),
    ]
    name = "progress.queues"

    validation_results = by_name(validate(frame(spark, TABLES[name], rows), name))

    pulled = validation_results["consumer_offset_le_pull_offset"]
    assert (pulled.success, pulled.unexpected, pulled.elements) == (False, 2, 5)
    assert sorted(row["queue_id"] for row in pulled.sample) == [1, 5]
    assert validation_results["pull_offset_le_max_offset"].elements == 5
    assert validation_results["consumer_offset_le_max_offset"].elements == 6


@pytest.mark.spark
def test_sample_is_limited_and_count_is_complete(spark: SparkSession) -> None:
    name = "raw.topics"
    rows = [{"at": 0, "topic": f"t{number}", "read_queues": -number} for number in range(10)]

    result = by_name(validate(frame(spark, TABLES[name], rows), name))["read_queues_ge_0"]

    assert (result.unexpected, result.elements) == (9, 10)
    assert [row["read_queues"] for row in result.sample] == [-1, -2, -3, -4, -5]
    assert len(result.sample) == SAMPLE_ROWS


@pytest.mark.spark
def test_expectation_succeeds_while_mostly_is_met(spark: SparkSession) -> None:
    name = "raw.topics"
    rows = [{"at": 0, "topic": f"t{number}", "perm": number} for number in range(5, 9)]
    expectation = between("perm", 0, 7)
    suite = [
        replace(expectation, name=f"{mostly}", mostly=mostly) for mostly in (1.0, 0.76, 0.75, 0.0)
    ]

    results = validate(frame(spark, TABLES[name], rows), name, expectations=suite)

    assert [(result.mostly, result.success) for result in results] == [
        (1.0, False),
        (0.76, False),
        (0.75, True),
        (0.0, True),
    ]
    assert {(result.unexpected, result.elements) for result in results} == {(1, 4)}
    assert [result.expected for result in results[::2]] == [
        "0 rows where perm is outside 0..7",
        "at most 25% of rows where perm is outside 0..7",
    ]
    assert all(len(result.sample) == 1 for result in results), "violating rows are shown"


@pytest.mark.spark
@pytest.mark.parametrize("name", TICK_EXPECTATIONS)
def test_empty_frame_meets_no_expectation(name: str, spark: SparkSession) -> None:
    others = source_tables(name, AUDIT_EXPECTATIONS[name])
    empty = {table: frame(spark, TABLES[table], []) for table in (name, *others)}

    results = validate(empty[name], name, empty)

    assert [(v.success, v.unexpected, v.elements, v.problem) for v in results] == [
        (None, 0, 0, None)
    ] * len(AUDIT_EXPECTATIONS[name])


@pytest.mark.spark
def test_expectation_that_raises_fails_alone_with_its_problem(spark: SparkSession) -> None:
    name = "raw.queue_offsets"
    row = {"at": 0, "topic": "orders", "queue_id": 0, "min_offset": 0, "max_offset": 7}
    met = at_least("max_offset", 0)
    violated = at_least("max_offset", 8)
    divides = Expectation(
        name="divides",
        severity="warn",
        condition="1 / (max_offset - 7) > 0",
        violation="division by zero",
    )
    misnamed = Expectation(
        name="misnamed",
        severity="block",
        condition="no_such_column > 0",
        violation="unknown column",
    )

    results = validate(
        frame(spark, TABLES[name], [row]), name, expectations=(divides, met, misnamed, violated)
    )

    assert [(v.expectation, v.success, v.unexpected, v.elements) for v in results] == [
        ("divides", False, None, None),
        ("max_offset_ge_0", True, 0, 1),
        ("misnamed", False, None, None),
        ("max_offset_ge_8", False, 1, 1),
    ]
    validation_results = by_name(results)
    assert "DIVIDE_BY_ZERO" in (validation_results["divides"].problem or "")
    assert "no_such_column" in (validation_results["misnamed"].problem or "")
    assert validation_results["max_offset_ge_0"].problem is None
    assert "\n" not in (validation_results["divides"].problem or "") + (
        validation_results["misnamed"].problem or ""
    )


@pytest.mark.spark
def test_unreadable_frame_fails_every_expectation(spark: SparkSession) -> None:
    name = "raw.topics"
    good = frame(spark, TABLES[name], [{"at": 0, "topic": "orders"}])
    unreadable = good.selectExpr(
        *(c for c in good.columns if c != "perm"),
        "cast(raise_error('disk on fire') as int) AS perm",
    )

    results = validate(unreadable, name)

    assert {result.success for result in results} == {False}
    assert all("disk on fire" in (result.problem or "") for result in results)


@pytest.mark.spark
def test_suite_that_a_person_brings_is_validated_with_ours(
    tmp_path: Path, spark: SparkSession
) -> None:
    """On the table's own columns, by Great Expectations' own code; each fails for itself."""
    name = "progress.groups"
    types: list[dict[str, Any]] = [
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "lag", "max_value": 10},
            "meta": {"name": "lag_is_small"},
        },
        {"type": "expect_column_max_to_be_between", "kwargs": {"column": "lag", "max_value": 10}},
        {
            "type": "expect_table_column_count_to_equal",
            # Great Expectations counts the fields of a struct as columns too.
            "kwargs": {"value": len(TABLES[name].columns) + len(HEALTH_FACTS)},
        },
        {
            "type": "unexpected_rows_expectation",
            "kwargs": {"unexpected_rows_query": "SELECT no_such_column FROM {batch}"},
        },
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "lag", "min_value": 0, "mostly": 0.5},
        },
    ]
    (tmp_path / f"{name}.json").write_text(json.dumps({"expectations": types}))
    brought, mistakes = brought_suites.read(tmp_path)
    rows = [
        {"at": 0, "topic": f"t{number}", "consumer_group": "billing", "lag": lag}
        for number, lag in enumerate((None, 3, 11, -1))
    ]
    kept: list[tuple[Any, Any]] = []

    results = validate(
        frame(spark, TABLES[name], rows),
        name,
        expectations=(at_least("lag", 0),),
        brought=brought[name],
        keep=lambda suite, result: kept.append((suite, result)),
    )

    assert mistakes == []
    assert [(v.expectation, v.success, v.unexpected, v.elements) for v in results] == [
        ("lag_ge_0", False, 1, 3),
        ("lag_is_small", False, 1, 3),
        ("expect_column_max_to_be_between_lag", False, None, None),
        ("expect_table_column_count_to_equal", True, None, None),
        ("unexpected_rows_expectation", False, None, None),
        ("expect_column_values_to_be_between_lag", True, 1, 3),
    ]
    validation_results = by_name(results)
    (sample,) = validation_results["lag_is_small"].sample
    assert (sample["topic"], sample["lag"]) == ("t2", 11)
    assert validation_results["expect_column_max_to_be_between_lag"].sample == [
        {"observed_value": 11}
    ]
    assert "no_such_column" in (validation_results["unexpected_rows_expectation"].problem or "")
    ((suite, page),) = kept
    assert (suite.name, len(suite.expectations), len(page.results)) == (name, 6, 6)
    assert page.success is False


@pytest.mark.spark
def test_brought_expectation_that_cannot_run_fails_for_its_own_reason(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Nobody gives the parameter of the first, which Great Expectations wants before it begins."""
    name = "progress.groups"
    total = "expect_column_sum_to_be_between"
    types: list[dict[str, Any]] = [
        {
            "type": "expect_column_max_to_be_between",
            "kwargs": {"column": "lag", "max_value": {"$PARAMETER": "most"}},
        },
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "topic"}},
        {"type": total, "kwargs": {"column": "topic", "max_value": 10}},
        {"type": total, "kwargs": {"column": "health", "max_value": 10}},
    ]
    (tmp_path / f"{name}.json").write_text(json.dumps({"expectations": types}))
    brought, mistakes = brought_suites.read(tmp_path)
    row = {"at": 0, "topic": "orders", "consumer_group": "billing", "health": "LATE"}
    kept: list[tuple[Any, Any]] = []

    results = validate(
        frame(spark, TABLES[name], [row]),
        name,
        expectations=(at_least("lag", 0),),
        brought=brought[name],
        keep=lambda suite, result: kept.append((suite, result)),
    )

    assert mistakes == []
    assert [result.success for result in results] == [None, False, True, False, False]
    assert [result.unexpected for result in results] == [0, None, 0, None, None]
    ours, parameter, met, topic, health = (result.problem or "" for result in results)
    assert (ours, met) == ("", "")
    assert "most" in parameter
    assert "'orders'" in topic
    assert "'LATE'" in health
    ((_, page),) = kept
    # Pages leave out expectations that apply to no row.
    assert len(page.results) == sum(result.success is not None for result in results)


@pytest.mark.spark
def test_brought_expectation_on_a_whole_column_counts_no_rows(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Great Expectations counts distinct values of some, and gives NumPy's booleans for others."""
    name = "progress.groups"
    types: list[dict[str, Any]] = [
        {
            "type": "expect_column_distinct_values_to_be_in_set",
            "kwargs": {"column": "health", "value_set": ["OK"]},
        },
        {
            "type": "expect_column_distinct_values_to_equal_set",
            "kwargs": {"column": "health", "value_set": ["OK", "LATE", "STALLED"]},
        },
        {
            "type": "expect_column_quantile_values_to_be_between",
            "kwargs": {
                "column": "lag",
                "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[5, 9]]},
            },
        },
        {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 4}},
    ]
    (tmp_path / f"{name}.json").write_text(json.dumps({"expectations": types}))
    brought, mistakes = brought_suites.read(tmp_path)
    rows = [
        {"at": 0, "topic": f"t{number}", "consumer_group": "billing", "lag": 3, "health": health}
        for number, health in enumerate(("OK", "LATE", "LATE"))
    ]
    docs = DataDocs(tmp_path / "docs")

    results = validate(
        frame(spark, TABLES[name], rows),
        name,
        expectations=(at_least("lag", 0),),
        brought=brought[name],
        keep=lambda suite, result: docs.keep(suite, result, minute(1)),
    )[1:]

    assert mistakes == []
    assert [(v.success, v.unexpected, v.elements) for v in results] == [(False, None, None)] * 4
    assert [v.sample for v in results] == [
        [{"partial_unexpected_list": ["LATE"]}],
        [{"partial_missing_list": ["STALLED"]}],
        [{"observed_value": {"quantiles": [0.5], "values": [3.0]}}],
        [{"observed_value": 3}],
    ]
    assert docs.build().exists()


@pytest.mark.spark
def test_brought_expectation_on_no_rows_counts_none(tmp_path: Path, spark: SparkSession) -> None:
    name = "progress.groups"
    small = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "lag"}}
    small["kwargs"] |= {"max_value": 9}
    (tmp_path / f"{name}.json").write_text(json.dumps({"expectations": [small]}))
    brought, _ = brought_suites.read(tmp_path)

    (result,) = validate(
        frame(spark, TABLES[name], []), name, expectations=(), brought=brought[name]
    )

    assert (result.success, result.unexpected, result.elements) == (None, 0, 0)


@pytest.mark.spark
def test_sample_of_a_brought_expectation_is_json(tmp_path: Path, spark: SparkSession) -> None:
    """JSON has no infinity: Dagster's UI could not read the sample."""
    name = "raw.brokers"
    low = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "put_tps"}}
    low["kwargs"] |= {"max_value": 9}
    most = {"type": "expect_column_max_to_be_between", "kwargs": low["kwargs"]}
    (tmp_path / f"{name}.json").write_text(json.dumps({"expectations": [low, most]}))
    brought, _ = brought_suites.read(tmp_path)
    row = {"at": 0, "broker_id": 0, "put_tps": float("inf")}

    results = validate(
        frame(spark, TABLES[name], [row]), name, expectations=(), brought=brought[name]
    )

    assert [v.sample[0].get("put_tps") for v in results] == ["Infinity", None]
    assert results[1].sample == [{"observed_value": "Infinity"}]


@pytest.mark.slow
def test_missing_metric_is_never_a_success() -> None:
    from expectations.gx_suite import ExpectRowsToHold

    with pytest.raises(KeyError):
        ExpectRowsToHold(condition="true")._validate({})


def random_rows(name: str, chance: random.Random, count: int = 120) -> list[Row]:
    """Rows of few values, so that NULL keys, negative numbers and duplicates all occur."""
    values: dict[pa.DataType, list[Any]] = {
        pa.string(): ["a", "b", "c", "d"] * 3 + [None],
        pa.int32(): [-1, 0, 1, 2, 3] * 2 + [None],
        pa.int64(): [-1, 0, 1, 2, 3] * 2 + [None],
        pa.float64(): [-1.0, 0.5, None],
        pa.bool_(): [True, None],
        pa.timestamp("us", tz="UTC"): [minute(0)] * 9 + [None],
    }
    rows: list[Row] = [
        {
            column.name: chance.choice(values[column.type])
            for column in TABLES[name].columns
            if column.type in values
        }
        for _ in range(count)
    ]
    if name == "raw.snapshots":  # one key column: with four values every row would be a duplicate
        for number, row in enumerate(rows):
            row["snapshot_id"] = chance.choice([f"s{number}", "a", None])
    return rows + [dict(row) for row in chance.sample(rows, 30)]


def quarantined_queues(rows: list[Row]) -> Counter[str]:
    """The contract's expectations of ``raw.queue_offsets``, written independently in Python."""
    key = TABLES["raw.queue_offsets"].key
    counts: Counter[str] = Counter()
    seen: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        counts.update(f"{column}_not_null" for column in key if row[column] is None)
        for column in ("queue_id", "min_offset", "max_offset"):
            counts[f"{column}_ge_0"] += row[column] is not None and row[column] < 0
        known = row["min_offset"] is not None and row["max_offset"] is not None
        counts["min_offset_le_max_offset"] += known and row["min_offset"] > row["max_offset"]
        if all(row[column] is not None for column in key):
            seen.setdefault(tuple(row[column] for column in key), []).append(row)
    for same in seen.values():
        identical = all(row == same[0] for row in same)
        counts["key_unique"] += len(same) - 1 if identical else len(same)
    return counts


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, 2])
def test_validation_and_quarantine_count_the_same_rows(seed: int, spark: SparkSession) -> None:
    chance = random.Random(seed)
    rows = {name: random_rows(name, chance) for name in TICK_EXPECTATIONS}
    frames = {name: frame(spark, TABLES[name], given) for name, given in rows.items()}

    valid, quarantined = split(frames)
    split_off: Counter[tuple[str, str]] = Counter()
    quarantined_rows: Counter[str] = Counter()
    for row in quarantined.collect():
        quarantined_rows[row["table"]] += 1
        split_off.update((row["table"], name) for name in row["reason"].split(", "))
    unexpected = {
        (name, result.expectation): result.unexpected
        for name in TICK_EXPECTATIONS
        for result in validate(frames[name], name, frames)
        if result.severity == "quarantine"
    }

    assert unexpected == {key: split_off[key] for key in unexpected}
    assert set(split_off) == set(unexpected), "some expectation is never violated by these rows"
    assert {n: valid[n].count() + quarantined_rows[n] for n in rows} == {
        n: len(rows[n]) for n in rows
    }
    name = "raw.queue_offsets"
    assert quarantined_queues(rows[name]) == {
        expectation: count for (table, expectation), count in unexpected.items() if table == name
    }


@pytest.mark.spark
@pytest.mark.parametrize("seed", [4, 5])
def test_decided_rows_duplicate_no_key_and_are_not_counted(seed: int, spark: SparkSession) -> None:
    """Holds for any decision, also for those that the command refuses."""
    chance = random.Random(seed)
    names = ("raw.queue_offsets", "raw.consumer_offsets")
    frames = {name: frame(spark, TABLES[name], random_rows(name, chance)) for name in names}
    quarantined = [QuarantinedRow(**row.asDict()) for row in split(frames)[1].collect()]
    decisions = [
        row.decided(chance.choice([RELEASED, DROPPED]), "eve", minute(0))
        for row in {row.row_id: row for row in quarantined}.values()
        if chance.random() < 0.5
    ]

    valid, quarantined = split(frames, decisions=decisions)

    left = [QuarantinedRow(**row.asDict()) for row in quarantined.collect()]
    decided = {decision.row_id for decision in decisions}
    assert decided and left
    assert not decided & {row.row_id for row in left}
    for name in names:
        keys = [tuple(row) for row in valid[name].select(*TABLES[name].key).collect()]
        assert len(keys) == len(set(keys))
        counted = Counter(rule for row in left if row.table == name for rule in row.rules)
        unexpected = {
            result.expectation: result.unexpected
            for result in validate(frames[name], name, frames, decisions=decisions)
            if result.severity == "quarantine"
        }
        assert unexpected == {text: counted[text] for text in unexpected}


@pytest.mark.spark
def test_valid_rows_violate_no_quarantining_expectation(spark: SparkSession) -> None:
    """Validated a second time, the valid rows violate nothing."""
    chance = random.Random(3)
    frames = {
        name: frame(spark, TABLES[name], random_rows(name, chance)) for name in TICK_EXPECTATIONS
    }

    valid, _ = split(frames)

    for name in ("raw.queue_offsets", "raw.consumer_offsets", "raw.brokers"):
        violated = [
            result.expectation
            for result in validate(valid[name], name, valid)
            if result.severity == "quarantine" and result.success is False
        ]
        assert violated == []


def test_validation_results_become_rows_of_quality_results(lake: Lake) -> None:
    result = ValidationResult(
        table="raw.topics",
        expectation="key_unique",
        success=False,
        unexpected=2,
        elements=10,
        severity="quarantine",
        expected="0 rows where ...",
    )
    raised = replace(result, expectation="x", unexpected=None, elements=None, problem="boom")

    rows = result_rows([result, raised], minutes(0, 60), "run-1", minute(61), minute(59))

    assert rows[0] == {
        "observed_at": minute(61),
        "table": "raw.topics",
        "expectation": "key_unique",
        "success": False,
        "unexpected": 2,
        "elements": 10,
        "severity": "quarantine",
        "mostly": 1.0,
        "window_start": minute(0),
        "window_end": minute(60),
        "run_id": "run-1",
        "judged_until": minute(59),
        "expected": "0 rows where ...",
        "problem": None,
        "sample": None,
    }
    assert rows[1]["problem"] == "boom"
    shown = replace(result, sample=[{"topic": "a", "at": minute(0)}])
    (failed,) = result_rows([shown], minutes(0, 60), "run-1", minute(61), None)
    assert json.loads(failed["sample"]) == [{"topic": "a", "at": str(minute(0))}]
    (met,) = result_rows([replace(result, success=True)], minutes(0, 60), "r", minute(61), None)
    assert met["expected"] is None, "what is met is many rows a tick"
    assert (rows[1]["success"], rows[1]["unexpected"], rows[1]["elements"]) == (False, None, None)
    lake.append(RESULTS, rows)
    stored = lake.read(RESULTS, Window(minute(61), minute(62))).sort_by("expectation").to_pylist()
    assert stored == rows
