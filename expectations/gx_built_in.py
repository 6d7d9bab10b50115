"""Built-in expectation types of Great Expectations, with counts that cost no query of their own.

Our suites contain these types with their usual arguments, so that a suite, its JSON and its Data
Docs are as users expect. Run by Great Expectations' own code, each costs Spark queries: one for
the violating values, one more for a pair of columns, and one for each row condition. A tick
validates more than a hundred. So an expectation of ours carries the condition of its declaration in
`meta`, and its rows are counted by two aggregates that are bundled with those of the whole suite.
Tests prove that both ways count the same rows.

Great Expectations' own code validates an expectation without that condition, as in a suite that a
person brings. Each class replaces the one that it extends in Great Expectations' registry, because
the registry finds the code of an expectation by the name of its type.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
from great_expectations.validator.validator import ValidationDependencies

from expectations.gx_row_expectation import counted, outcome

CONDITION = "tidemark_condition"
"""Key in `meta`: the condition by which the rows are counted."""


BUILT_IN = (
    ExpectColumnValuesToNotBeNull,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeInSet,
    ExpectColumnValuesToNotBeInSet,
    ExpectColumnPairValuesAToBeGreaterThanB,
    ExpectCompoundColumnsToBeUnique,
)
"""The built-in types that declarations name."""


class CountedByCondition:
    """Mixin for each built-in class; an expectation without our condition behaves as before."""

    def get_validation_dependencies(
        self: Any, execution_engine: Any = None, runtime_configuration: Any = None, **_: Any
    ) -> ValidationDependencies:
        """Return the two aggregates, or Great Expectations' own metrics without a condition."""
        condition = _condition(self)
        if condition is None:
            return super().get_validation_dependencies(  # pyright: ignore
                execution_engine, runtime_configuration
            )
        return counted(self, condition, runtime_configuration)

    def _validate(
        self: Any,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> Any:
        if _condition(self) is None:
            return super()._validate(  # pyright: ignore
                metrics, runtime_configuration, execution_engine
            )
        return outcome(metrics, self.configuration.kwargs.get("mostly", 1))


def _condition(expectation: Any) -> str | None:
    return (expectation.meta or {}).get(CONDITION)


@contextmanager
def _in_place_of_the_built_in_ones() -> Iterator[None]:
    """Register classes under types that exist without a warning of each."""
    logger = logging.getLogger("great_expectations.expectations.registry")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


with _in_place_of_the_built_in_ones():
    for _built_in in BUILT_IN:
        type(_built_in)(
            _built_in.__name__,
            (CountedByCondition, _built_in),
            {"__doc__": _built_in.__doc__, "__module__": __name__},
        )
