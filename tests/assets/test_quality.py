"""What the verdicts on a table make of its check."""

import dagster as dg
import pytest

from assets.quality import CHECK, check_result
from expectations.validation_results import ValidationResult
from lake.tables import raw

ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


def result(severity, success=False, broken=1):
    return ValidationResult("raw.topics", "perm", success, broken, 9, severity, "0 rows where ...")


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
    result = check_result(raw.TOPICS, CHECK, results, blocking=blocking)
    assert (result.passed, result.severity) == (passed, severity)
    assert result.metadata["unexpected"].value == len(results)
