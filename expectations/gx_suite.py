"""Translation of declarations to expectations of Great Expectations, and of its errors back.

Importing this module imports Great Expectations (4-5 s); `expectations.adapter` does it when the
first suite runs.
"""

from collections.abc import Sequence
from typing import Any

from great_expectations.expectations.expectation import Expectation as GxExpectation
from great_expectations.expectations.registry import get_expectation_impl

from expectations.declarations import NAME, Expectation
from expectations.gx_built_in import CONDITION
from expectations.gx_row_expectation import ExpectRowsToHold

_SEVERITIES = {"block": "critical", "quarantine": "critical", "warn": "warning"}
"""Severity to that of Great Expectations."""


def gx_expectations(declared: Sequence[Expectation]) -> list[GxExpectation]:
    """Return an expectation of Great Expectations for each declaration, in their order."""
    return [_gx_expectation(each) for each in declared]


def _gx_expectation(declared: Expectation) -> GxExpectation:
    """Return the built-in expectation with the same meaning, or one of our own type."""
    shared = {
        "mostly": declared.mostly,
        "severity": _SEVERITIES[declared.severity],
    }
    meta = {NAME: declared.name}
    if declared.built_in is None:
        described = {"description": declared.description, "meta": meta}
        return ExpectRowsToHold(condition=declared.condition, **described, **shared)
    return get_expectation_impl(declared.built_in.type)(
        **declared.built_in.arguments,
        **shared,
        meta={**meta, CONDITION: declared.condition},
        # Data Docs show the description in place of the type's own sentence.
        description=f"{declared.description} [{declared.built_in.type}]",
    )


def problem_of(result: Any) -> str | None:
    """Return the first line of the error of an expectation that raised; None when none did."""
    info = result.exception_info or {}
    # One exception is reported flat, one of a metric under the metric's id.
    exceptions = [info] if "raised_exception" in info else list(info.values())
    for exception in exceptions:
        if exception["raised_exception"]:
            lines = (exception["exception_message"] or "").strip().splitlines()
            return lines[0] if lines else "raised without a message"
    return None
