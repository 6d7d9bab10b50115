"""Translation of declarations to expectations of Great Expectations, and of its errors back.

Importing this module imports Great Expectations (4-5 s); `expectations.adapter` does it when the
first suite runs.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.core.expect_column_pair_values_a_to_be_greater_than_b import (
    ExpectColumnPairValuesAToBeGreaterThanB,
)
from great_expectations.expectations.core.expect_column_values_to_be_between import (
    ExpectColumnValuesToBeBetween,
)
from great_expectations.expectations.core.expect_column_values_to_be_in_set import (
    ExpectColumnValuesToBeInSet,
)
from great_expectations.expectations.core.expect_column_values_to_not_be_in_set import (
    ExpectColumnValuesToNotBeInSet,
)
from great_expectations.expectations.core.expect_column_values_to_not_be_null import (
    ExpectColumnValuesToNotBeNull,
)
from great_expectations.expectations.core.expect_compound_columns_to_be_unique import (
    ExpectCompoundColumnsToBeUnique,
)
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.expectation import Expectation as GxExpectation
from great_expectations.expectations.expectation_configuration import parse_result_format
from great_expectations.expectations.metrics.metric_provider import metric_partial
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.validator.metric_configuration import MetricConfiguration
from great_expectations.validator.validator import ValidationDependencies
from pyspark.sql import Column
from pyspark.sql import functions as F

from expectations.declarations import NAME, Expectation

EVALUATED = "rows.evaluated"
UNEXPECTED = "rows.unexpected"


class EvaluatedRows(TableMetricProvider):
    """Number of rows to which a condition applies: those where it is not NULL."""

    metric_name = EVALUATED
    value_keys = ("condition",)

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(
        cls,  # noqa: N805 - Great Expectations binds the class
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        **_: Any,
    ) -> tuple[Column, dict[str, Any], dict[str, Any]]:
        condition = F.expr(metric_value_kwargs["condition"])
        return F.count(condition), metric_domain_kwargs, {}


class UnexpectedRows(TableMetricProvider):
    """Number of rows that violate a condition: those where it is FALSE."""

    metric_name = UNEXPECTED
    value_keys = ("condition",)

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(
        cls,  # noqa: N805 - Great Expectations binds the class
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        **_: Any,
    ) -> tuple[Column, dict[str, Any], dict[str, Any]]:
        condition = F.expr(metric_value_kwargs["condition"])
        return F.count_if(~condition), metric_domain_kwargs, {}


class ExpectRowsToHold(BatchExpectation):
    """Expect all or most of the rows to which a condition applies to meet it.

    Attributes:
        condition: Spark SQL over the columns of the batch; NULL = it does not apply to the row.
        mostly: share of the rows to which it applies that must meet it, 0..1.
    """

    condition: str
    mostly: float = 1.0

    success_keys: ClassVar[tuple[str, ...]] = ("condition", "mostly")

    def get_validation_dependencies(
        self, execution_engine: Any = None, runtime_configuration: Any = None
    ) -> ValidationDependencies:
        """Return that it needs the two counts of its condition."""
        return counted(self, self.condition, runtime_configuration)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        return outcome(metrics, self.mostly)


def counted(
    expectation: Any, condition: str, runtime_configuration: Mapping[str, Any] | None
) -> ValidationDependencies:
    """Return the two counts of a condition as the dependencies of an expectation.

    Great Expectations bundles the aggregates of one domain into a query. So the domain is that of
    the batch for every expectation, whatever arguments its type has. Its own code derives all
    arguments of the type before it gives the result format: a fifth of the time of a suite.
    """
    result_format = (runtime_configuration or {}).get("result_format", expectation.result_format)
    domain = {"batch_id": expectation.batch_id}
    return ValidationDependencies(
        {
            name: MetricConfiguration(name, domain, {"condition": condition})
            for name in (EVALUATED, UNEXPECTED)
        },
        parse_result_format(result_format),
    )


def outcome(metrics: Mapping[str, Any], mostly: float) -> dict[str, Any]:
    """Return the result of an expectation that counts rows, in Great Expectations' format.

    Args:
        metrics: values of `EVALUATED` and `UNEXPECTED`.
        mostly: share of the rows to which it applies that must meet it, 0..1.

    Raises:
        KeyError: a metric is missing, which is reported; it is never a success.
    """
    evaluated, unexpected = metrics[EVALUATED], metrics[UNEXPECTED]
    return {
        "success": unexpected == 0 or (evaluated - unexpected) / evaluated >= mostly,
        "result": {
            "element_count": evaluated,
            "unexpected_count": unexpected,
            "unexpected_percent": 100 * unexpected / evaluated if evaluated else 0.0,
        },
    }


def great_expectations_context(stores: Any) -> Any:
    """Return a Great Expectations context with these stores.

    Args:
        stores: Great Expectations' defaults of its stores: in memory, or in a folder.
    """
    # The import takes 4-5 s, which only a run that validates should pay.
    import great_expectations as gx
    from great_expectations.data_context.types.base import DataContextConfig, ProgressBarsConfig

    return gx.get_context(
        mode="ephemeral",
        project_config=DataContextConfig(
            store_backend_defaults=stores,
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
        ),
    )


@cache
def frame_definition() -> Any:
    """Return the batch definition of any Spark frame: one for all suites of this process.

    Great Expectations writes its whole configuration as YAML at every addition to a context, which
    takes longer than a suite. A frame is kept until the next one takes its place.
    """
    from great_expectations.data_context.types.base import InMemoryStoreBackendDefaults

    context = great_expectations_context(InMemoryStoreBackendDefaults())
    source = context.data_sources.add_spark("spark", persist=False)
    return source.add_dataframe_asset("frame").add_batch_definition_whole_dataframe("whole")


BUILT_IN = (
    ExpectColumnValuesToNotBeNull,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeInSet,
    ExpectColumnValuesToNotBeInSet,
    ExpectColumnPairValuesAToBeGreaterThanB,
    ExpectCompoundColumnsToBeUnique,
)
"""The built-in types that declarations name; they stay as Great Expectations registers them."""


class CountedByCondition:
    """Mixin for a type of ours that has the arguments of a built-in one, and a condition."""

    def get_validation_dependencies(
        self: Any, execution_engine: Any = None, runtime_configuration: Any = None, **_: Any
    ) -> ValidationDependencies:
        """Return that it needs the two counts of its condition."""
        return counted(self, self.condition, runtime_configuration)

    def _validate(
        self: Any,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> Any:
        return outcome(metrics, self.configuration.kwargs.get("mostly", 1))


def _counted_type(built_in: Any) -> Any:
    """Return our type for a built-in one: ``expect_counted_column_values_...``.

    It has the arguments of the built-in type and the condition as one more.
    """
    return type(built_in)(
        built_in.__name__.replace("Expect", "ExpectCounted", 1),
        (CountedByCondition, built_in),
        {
            "__doc__": built_in.__doc__,
            "__module__": __name__,
            "__annotations__": {"condition": "str"},
            "success_keys": (*built_in.success_keys, "condition"),
        },
    )


COUNTED = {it.expectation_type: _counted_type(it) for it in BUILT_IN}
"""Built-in type to our class that counts the same rows by a condition."""


_SEVERITIES = {"block": "critical", "quarantine": "critical", "warn": "warning"}
"""Severity to that of Great Expectations."""


def gx_expectations(declared: Sequence[Expectation]) -> list[GxExpectation]:
    """Return an expectation of Great Expectations for each declaration, in their order."""
    return [_gx_expectation(expectation) for expectation in declared]


def _gx_expectation(declared: Expectation) -> GxExpectation:
    """Return an expectation that counts rows by the condition, of the nearest of our types."""
    shared = {
        "mostly": declared.mostly,
        "severity": _SEVERITIES[declared.severity],
    }
    meta = {NAME: declared.name}
    if declared.built_in is None:
        described = {"description": declared.description, "meta": meta}
        return ExpectRowsToHold(condition=declared.condition, **described, **shared)
    return COUNTED[declared.built_in.type](
        **declared.built_in.arguments,
        **shared,
        condition=declared.condition,
        meta=meta,
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
