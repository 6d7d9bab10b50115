"""The Great Expectations expectation that judges a row rule, and the two metrics it is made of.

Great Expectations' own map expectations cannot serve here: at ``BOOLEAN_ONLY`` they tell no
counts, at ``BASIC`` each costs a Spark query of its own for its unexpected values, and one whose
metric did not come is "vacuously true". This one asks for two aggregates, which Great Expectations
bundles with those of all other rules of a suite into a single Spark query.

Importing this module imports Great Expectations (4-5 s); `expectations.adapter` does it when the
first suite runs.
"""

from typing import Any, ClassVar

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_partial
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from pyspark.sql import Column
from pyspark.sql import functions as F

ASKED = "rows.asked"
BROKEN = "rows.broken"


class RowsAsked(TableMetricProvider):
    """How many rows a condition was asked of: those where it is not NULL."""

    metric_name = ASKED
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


class RowsBroken(TableMetricProvider):
    """How many rows break a condition: those where it is FALSE."""

    metric_name = BROKEN
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
    """The rows that a condition is asked of satisfy it, all or most of them.

    Attributes:
        condition: Spark SQL over the columns of the batch; NULL = the row is not asked.
        mostly: share of the rows asked that must satisfy it, 0..1.
    """

    condition: str
    mostly: float = 1.0

    metric_dependencies: ClassVar[tuple[str, ...]] = (ASKED, BROKEN)
    success_keys: ClassVar[tuple[str, ...]] = ("condition", "mostly")

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        # A metric that is missing raises here and is reported; it is never a success.
        asked, broken = metrics[ASKED], metrics[BROKEN]
        return {
            "success": broken == 0 or (asked - broken) / asked >= self.mostly,
            "result": {
                "element_count": asked,
                "unexpected_count": broken,
                "unexpected_percent": 100 * broken / asked if asked else 0.0,
            },
        }
