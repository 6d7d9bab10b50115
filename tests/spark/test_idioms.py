"""Computations add columns, filter rows and tune Spark in one way each.

Three idioms for one thing cost every reader twice, and ``withColumn`` makes a Spark Connect server
resolve the plan so far each time.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SPARK = Path(__file__).resolve().parents[2] / "spark"

COMPUTATIONS = [
    f"{room}/{path.name}"
    for room in ("progress", "alerts")
    for path in sorted((SPARK / room).glob("*.py"))
]

OTHER_WAYS = {
    "withColumn": "spark.columns.with_new",
    "withColumns": "spark.columns.with_new or with_replaced",
    "withColumnRenamed": "a selection with aliases",
    "withColumnsRenamed": "a selection with aliases",
    "broadcast": "spark.tuning.small",
    "hint": "spark.tuning",
    "repartition": "spark.tuning",
}
"""Methods of frames and functions that computations do not call, and what they call for it."""


def other_ways(tree: ast.Module) -> Iterator[str]:
    """Yield the calls of a module that do a thing in another way than the rest."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            name = call.func.attr
            if name in OTHER_WAYS:
                yield f"line {call.lineno}: {name}, in place of {OTHER_WAYS[name]}"
            is_text = call.args and isinstance(call.args[0], ast.Constant | ast.JoinedStr)
            if name in ("where", "filter") and len(call.args) == 1 and is_text:
                yield f"line {call.lineno}: a condition in SQL, in place of a column"


@pytest.mark.parametrize("module", COMPUTATIONS)
def test_a_computation_has_one_way(module):
    text = (SPARK / module).read_text(encoding="utf-8")
    assert list(other_ways(ast.parse(text))) == []


@pytest.mark.parametrize(
    "text",
    [
        'rows.withColumn("lag", lag)',
        'rows.where("lag > 0")',
        'rows.where(f"lag > {least}")',
        'rows.hint("broadcast")',
        "rows.join(F.broadcast(others), KEY)",
    ],
)
def test_another_way_would_be_seen(text):
    assert len(list(other_ways(ast.parse(text)))) == 1


def test_conditions_of_columns_are_one_way():
    assert list(other_ways(ast.parse('rows.where(F.col("lag") > 0)'))) == []
