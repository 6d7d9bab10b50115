"""Our expectation type for Great Expectations, and the two metrics that count its rows.

It is for conditions that no built-in type can express; `expectations.gx_suite` has the others.
Great Expectations' own way of counting does not fit either. At ``BOOLEAN_ONLY`` it reports no
counts. At ``BASIC`` each expectation costs a Spark query of its own for its unexpected values. One
whose metric is missing is "vacuously true". Two aggregates for each expectation are bundled with
those of all others of a suite into one Spark query.

Importing this module imports Great Expectations (4-5 s); `expectations.adapter` does it when the
first suite runs.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.expectation_configuration import parse_result_format
from great_expectations.expectations.metrics.metric_provider import metric_partial
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.validator.metric_configuration import MetricConfiguration
from great_expectations.validator.validator import ValidationDependencies
from pyspark.sql import Column
from pyspark.sql import functions as F

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
