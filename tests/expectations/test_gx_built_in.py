"""Built-in types of Great Expectations: ours count the rows that its own code counts."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from expectations.adapter import _run
from expectations.annotations import annotate
from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.declarations import (
    KEY_UNIQUE,
    NAME,
    BuiltIn,
    Expectation,
    at_least,
    between,
    not_null,
    one_of,
    ordered,
    unique,
)
from tests.support.table_rows import frame
from tidemark.lake.tables import TABLES

GROUPS = TABLES["progress.groups"]

DECLARED = (
    not_null("lag"),
    at_least("lag", 2),
    at_least("delay_ms", 2),
    between("match_ratio", 0, 1),
    one_of("health", "OK", "IDLE"),
    Expectation(
        name="not_stalled",
        severity="warn",
        condition="health <> 'STALLED'",
        violation="health = STALLED",
        built_in=BuiltIn(
            "expect_column_values_to_not_be_in_set", {"column": "health", "value_set": ["STALLED"]}
        ),
    ),
    ordered("queues", "lag"),
    ordered("queues", "lag", name="below", strictly=True),
    unique(GROUPS, "warn"),
)


def rows() -> list[dict[str, Any]]:
    """Every combination of a few values, NULL and NaN among them, and some rows twice."""
    cases = [
        {
            "at": at,
            "consumer_group": "billing",
            "topic": f"t{at}",
            "lag": lag,
            "queues": queues,
            "health": health,
            **more,
        }
        for at, (lag, queues, health, more) in enumerate(
            (lag, queues, health, {"match_ratio": ratio, "delay_ms": delay})
            for lag in (None, 1, 2, 3)
            for queues in (None, 2)
            for health in (None, "OK", "STALLED")
            for ratio, delay in ((None, None), (0.5, 1), (float("nan"), 2), (-0.1, 3))
        )
    ]
    return [*cases, *cases[:3], {**cases[5], "lag": 8}, *[{**cases[6], "topic": None}] * 2]


def counts(results: dict[str, Any]) -> dict[str, tuple[bool, int, int]]:
    """Success, violating rows, and rows to which it applies, by name."""
    return {
        name: (
            value.success,
            value.result["unexpected_count"],
            value.result["element_count"] - (value.result.get("missing_count") or 0),
        )
        for name, value in results.items()
    }


@pytest.mark.spark
def test_built_in_types_count_as_great_expectations_does(spark: SparkSession) -> None:
    from expectations.gx_suite import BUILT_IN, gx_expectations

    classes = {it.expectation_type: it for it in BUILT_IN}
    annotated = annotate(GROUPS.name, {GROUPS.name: frame(spark, GROUPS, rows())})
    ours = gx_expectations(DECLARED)
    theirs = [
        classes[declared.built_in.type](
            **declared.built_in.arguments, mostly=declared.mostly, meta={NAME: declared.name}
        )
        for declared in DECLARED
        if declared.built_in
    ]

    counted = counts(_run(annotated, GROUPS.name, ours))

    assert counted == counts(_run(annotated, GROUPS.name, theirs))
    assert all(not success and unexpected for success, unexpected, _ in counted.values())


def test_every_declared_type_is_compared() -> None:
    declared = {
        expectation.built_in.type
        for suite in AUDIT_EXPECTATIONS.values()
        for expectation in suite
        if expectation.built_in
    }

    assert {
        expectation.built_in.type for expectation in DECLARED if expectation.built_in
    } == declared


@pytest.mark.parametrize("table", AUDIT_EXPECTATIONS)
def test_every_suite_is_one_that_great_expectations_takes(table: str) -> None:
    from expectations.gx_suite import gx_expectations

    suite = AUDIT_EXPECTATIONS[table]

    made = [expectation.configuration.type for expectation in gx_expectations(suite)]

    own = "expect_rows_to_hold"
    assert made == [
        expectation.built_in.type.replace("expect", "expect_counted", 1)
        if expectation.built_in
        else own
        for expectation in suite
    ]


def test_built_in_types_stay_those_of_great_expectations() -> None:
    """A suite that a person brings runs their code, whatever this process has validated."""
    from great_expectations.expectations.registry import get_expectation_impl

    from expectations.gx_suite import BUILT_IN

    for built_in in BUILT_IN:
        assert get_expectation_impl(built_in.expectation_type) is built_in
        assert built_in.__module__.startswith("great_expectations.")


@pytest.mark.parametrize("table", AUDIT_EXPECTATIONS)
def test_a_rule_with_a_built_in_type_is_stated_once(table: str) -> None:
    for expectation in AUDIT_EXPECTATIONS[table]:
        if expectation.built_in and expectation.name != KEY_UNIQUE:
            assert expectation.condition == expectation.built_in.condition


def test_a_suite_shows_the_arguments_of_a_built_in_type_and_the_condition() -> None:
    from expectations.gx_suite import gx_expectations

    (expectation,) = gx_expectations([between("disk_ratio", 0, 1, "quarantine")])

    shown = expectation.configuration.to_json_dict()
    assert shown["type"] == "expect_counted_column_values_to_be_between"
    bounds = {"column": "disk_ratio", "min_value": 0.0, "max_value": 1.0}
    assert shown["kwargs"] == bounds | {"condition": "disk_ratio BETWEEN 0 AND 1"}
    assert shown["severity"] == "critical"
