"""The pages of tables and expectations, from `tidemark.lake.tables` and the suites."""

from docs.generate.markdown import code, page, table
from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.tick_suites import TICK_EXPECTATIONS
from tidemark.lake.schema import Table, type_text
from tidemark.lake.tables import TABLES

NAMESPACES = {
    "raw": "What was read, as it was read.",
    "progress": "What the raw rows mean.",
    "quality": "Validation results, the quarantine, and decisions of people on it.",
    "alerting": "Alerts, incidents and notifications.",
}
"""Namespace to the contents of its tables."""

_EXPECTATION_COLUMNS = ("expectation", "severity", "expected", "validated", "type")


def tables_page() -> str:
    """Return the page of every table and column."""
    parts = []
    for namespace, holds in NAMESPACES.items():
        tables = [item for item in TABLES.values() if item.namespace == namespace]
        parts += [f"## {namespace}", holds, *(part for item in tables for part in _table(item))]
    return page(
        "Tables",
        "Every table is an Iceberg table. NULL means unknown. Names that end in `_at` are instants "
        "in UTC, `_ms` milliseconds, `_tps` messages a second.",
        *parts,
    )


def expectations_page() -> str:
    """Return the page of every expectation: those of each tick, and those of the hourly audit."""
    parts = []
    for name in sorted(AUDIT_EXPECTATIONS):
        of_ticks = {expectation.name for expectation in TICK_EXPECTATIONS.get(name, ())}
        rows = [
            (
                code(expectation.name),
                expectation.severity,
                expectation.expected,
                "every tick" if expectation.name in of_ticks else "hourly audit",
                code(expectation.built_in.type) if expectation.built_in else "",
            )
            for expectation in AUDIT_EXPECTATIONS[name]
        ]
        parts += [f"## {name}", table(_EXPECTATION_COLUMNS, rows)]
    return page(
        "Expectations",
        "Every expectation of every table, with the built-in type of Great Expectations that "
        "means the same. [Data quality](../data-quality.md) explains the severities, how to "
        "tolerate a share of violations, and how to bring suites of your own.",
        *parts,
    )


def _table(declared: Table) -> list[str]:
    rows = [
        (
            code(column.name),
            code(type_text(column.type)),
            "key" if column.name in declared.key else "",
            column.comment,
        )
        for column in declared.columns
    ]
    return [
        f"### {declared.name}",
        declared.comment,
        f"Partitioned by the hour of {code(declared.instant)}.",
        table(("column", "type", "", "meaning"), rows),
    ]
