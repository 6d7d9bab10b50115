"""The columns that each column of a table comes from, read off Spark's plans of one tick.

``python -m tests.support.column_lineage assets/column_lineage.json`` makes the file that Dagster's
column lineage is shown from.
"""

import json
import logging
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import DataFrame, SparkSession

from assets import run
from assets.reader import read_windows
from orchestration import in_process
from spark.progress.baselines import baselines
from tests.support.cluster_history import PAST, put
from tidemark.lake.catalog import NAME, Lake
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress, quality
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

Lineage = Mapping[str, Mapping[str, list[str]]]
"""By column and table of origin, the names of the columns there."""

Java = Any
"""An object of Spark's own classes, which run in Java."""

Field = tuple[int, ...]
"""The place of a field in a struct, and in a struct within it; empty for the whole value."""

Value = tuple[int, Field]
"""An attribute of a plan by its number, and one of its fields."""

DEPENDS_ON_ROWS = (quality.QUARANTINE,)
"""Tables whose plan reads only the tables that have invalid rows now."""


def lineages() -> dict[str, Lineage]:
    """Compute some snapshots with Spark in this process; return the lineage of each table."""
    written: dict[str, Lineage] = {}
    write_window = run.write_window

    def observed(frame: DataFrame, table: Table, window: Window, lake: Lake) -> int:
        written[table.name] = lineage(frame, table)
        return write_window(frame, table, window, lake)

    start = floor_hour(datetime.now(UTC)) - 6 * HOUR
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(run, "write_window", observed):
        home = Home.of(folder)
        home.make()
        put(home, start, PAST[1:6])
        in_process.tick(Settings(home=home), collect=False, complain=logging.warning)
        # A tick computes them where groups have been observed for weeks.
        hour = Window(start, start + HOUR)
        session = SparkSession.getActiveSession()
        assert session, "the tick has opened it"
        observed_groups = read_windows(session, progress.GROUPS, hour)
        table = progress.BASELINES
        written[table.name] = lineage(baselines(observed_groups, hour), table)
    return {
        name: entries
        for name, entries in sorted(written.items())
        if name not in {table.name for table in DEPENDS_ON_ROWS}
    }


def lineage(frame: DataFrame, table: Table) -> Lineage:
    """Return where the columns of a table come from, other than from the table itself."""
    frame_in_java: Java = frame.select(*table.column_names)._jdf
    plan = frame_in_java.queryExecution().analyzed()
    origins: dict[int, tuple[str, str]] = {}
    computed_by: dict[int, list[Java]] = defaultdict(list)
    for node in _nodes(plan):
        match _kind(node):
            case "DataSourceV2Relation":
                source = node.table().name().removeprefix(f"{NAME}.")
                for attribute in _listed(node.output()):
                    origins[_id(attribute)] = source, attribute.name()
            case "Union":
                # The attributes of a union are those of its first child, in order.
                columns = _listed(node.output())
                for child in _listed(node.children()):
                    for own, other in zip(columns, _listed(child.output()), strict=True):
                        if _id(own) != _id(other):
                            computed_by[_id(own)].append(other)
            case "Generate":
                for attribute in _listed(node.generatorOutput()):
                    computed_by[_id(attribute)].append(node.generator())
            case _:
                for expression in _listed(node.expressions()):
                    if _kind(expression) == "Alias":
                        computed_by[_id(expression)].append(expression.child())
    return {
        attribute.name(): _by_table(
            {
                origins[number]
                for number, _ in _reached((_id(attribute), ()), computed_by)
                if number in origins and origins[number][0] != table.name
            }
        )
        for attribute in _listed(plan.output())
    }


def _nodes(plan: Java) -> Iterator[Java]:
    yield plan
    for child in _listed(plan.children()):
        yield from _nodes(child)


def _listed(sequence: Java) -> list[Java]:
    return [sequence.apply(number) for number in range(sequence.size())]


def _kind(node: Java) -> str:
    return node.getClass().getSimpleName()


def _id(attribute: Java) -> int:
    return attribute.exprId().id()


def _values(expression: Java, field: Field = ()) -> Iterator[Value]:
    """Yield the values that a field of an expression is computed from."""
    match _kind(expression):
        case "AttributeReference":
            yield _id(expression), field
        case "Alias":
            yield from _values(expression.child(), field)
        case "GetStructField":
            yield from _values(expression.child(), (expression.ordinal(), *field))
        case "CreateNamedStruct" if field:
            yield from _values(expression.valExprs().apply(field[0]), field[1:])
        case _:
            for child in _listed(expression.children()):
                yield from _values(child)


def _reached(start: Value, computed_by: Mapping[int, list[Java]]) -> set[Value]:
    reached, waiting = set(), {start}
    while waiting:
        reached |= waiting
        waiting = {
            value
            for number, field in waiting
            for expression in computed_by.get(number, ())
            for value in _values(expression, field)
        } - reached
    return reached


def _by_table(columns: set[tuple[str, str]]) -> dict[str, list[str]]:
    named = defaultdict(list)
    for table, column in sorted(columns):
        named[table].append(column)
    return dict(named)


def _text(tables: Mapping[str, Lineage]) -> str:
    """Return it as JSON with a line for each column, so that a change is easy to read."""
    parts = []
    for table, columns in tables.items():
        lines = ",\n".join(f'  "{name}": {json.dumps(it)}' for name, it in columns.items())
        parts.append(f' "{table}": {{\n{lines}\n }}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(_text(lineages()))
