"""What the verdicts on a table make of its check."""

import dagster as dg
import pytest

from assets.checks import CHECK, check_result
from expectations.adapter import Verdict
from lake.tables import raw

ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


def verdict(severity, success=False, broken=1):
    return Verdict("raw.topics", "perm", success, broken, 9, severity, "0 rows where ...")


@pytest.mark.parametrize(
    ("verdicts", "blocking", "passed", "severity"),
    [
        ([verdict("block")], True, False, ERROR),
        ([verdict("block")], False, False, WARN),
        ([verdict("warn"), verdict("quarantine")], True, False, WARN),
        ([verdict("block", success=True)], True, True, WARN),
    ],
    ids=["a tick stops", "an audit does not", "nothing to stop for", "tolerated"],
)
def test_only_a_broken_rule_that_blocks_stops_a_tick(verdicts, blocking, passed, severity):
    result = check_result(raw.TOPICS, CHECK, verdicts, blocking=blocking)
    assert (result.passed, result.severity) == (passed, severity)
    assert result.metadata["unexpected"].value == len(verdicts)
