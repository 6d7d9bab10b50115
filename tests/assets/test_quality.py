"""Result of a table's asset check, from its validation results."""

from dataclasses import replace

import dagster as dg
import pytest

from assets.quality import check_result, check_results
from expectations.brought_suites import TICK_CHECK
from expectations.validation_results import ValidationResult
from tidemark.lake.tables import raw

ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


def result(severity, success=False, broken=1):
    return ValidationResult(
        table="raw.topics",
        expectation="perm",
        success=success,
        unexpected=broken,
        elements=9,
        severity=severity,
        expected="0 rows where ...",
    )


@pytest.mark.parametrize(
    ("results", "blocking", "passed", "severity"),
    [
        ([result("block")], True, False, ERROR),
        ([result("block")], False, False, WARN),
        ([result("warn"), result("quarantine")], True, False, WARN),
        ([result("block", success=True)], True, True, WARN),
    ],
    ids=["a tick stops", "an audit does not", "nothing to stop for", "tolerated"],
)
def test_only_a_broken_rule_that_blocks_stops_a_tick(results, blocking, passed, severity):
    result = check_result(raw.TOPICS, TICK_CHECK, results, blocking=blocking)
    assert (result.passed, result.severity) == (passed, severity)
    assert result.metadata["unexpected"].value == len(results)


def test_own_checks_fail_by_name_with_their_own_severity():
    results = [
        replace(result("warn", success=True, broken=0), expectation="met"),
        replace(result("block"), expectation="broken"),
        result("warn"),
    ]
    own = ["met", "broken", "left the suite"]
    checks = list(check_results(raw.TOPICS, TICK_CHECK, results, own, blocking=True))
    assert [
        (asset_check_result.check_name, asset_check_result.passed, asset_check_result.severity)
        for asset_check_result in checks
    ] == [
        (TICK_CHECK, False, ERROR),
        ("met", True, WARN),
        ("broken", False, ERROR),
    ]
    assert checks[0].metadata["failed_expectations"].value == "broken, perm"
    assert checks[2].metadata["failed_expectations"].value == "broken"


def test_a_check_without_rows_has_no_result() -> None:
    """Dagster shows it as skipped; a result would have to be passed or failed."""
    empty = replace(result("block"), expectation="empty", success=None, unexpected=0, elements=0)
    assert list(check_results(raw.TOPICS, TICK_CHECK, [empty], ["empty"], blocking=True)) == []

    met = replace(result("warn"), expectation="met", success=True, unexpected=0)
    (check,) = check_results(raw.TOPICS, TICK_CHECK, [met, empty], ["empty"])

    assert (check.check_name, check.passed) == (TICK_CHECK, True)
    assert check.metadata["nothing_to_validate"].value == "empty"
