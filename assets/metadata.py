"""Metadata that every asset reports to Dagster about its table and rows, from the declaration."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import dagster as dg

from tidemark.lake.clocks import Window
from tidemark.lake.schema import Table, type_text
from tidemark.lake.tables import progress, quality

OWNERS = ["team:tidemark"]

KINDS = {
    "raw": {"rocketmq", "iceberg"},
    "progress": {"pyspark", "iceberg"},
    "quality": {"greatexpectations", "iceberg"},
    "alerting": {"pyspark", "iceberg"},
}


RECORDS = (progress.SNAPSHOTS, quality.RESULTS)
"""Tables in which a run records itself at its end. They form a group of their own, so that the
graph flows one way: collect, raw, quality, progress, alerting, record, maintain."""


EVERY_TICK = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(minutes=5), fail_window=timedelta(minutes=15)
)
"""Freshness policy of tables that every tick writes. It counts from the materialization, so a
backfilled hour is fresh too. The rules `collection_late` and `run_failed` notify people."""

EVERY_HOUR = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=2), fail_window=timedelta(hours=3)
)
"""Freshness policy of assets that are materialized once an hour."""


def key_of(table: Table) -> dg.AssetKey:
    """Return the asset key of a table: its full name."""
    return dg.AssetKey(table.name.split("."))


def column_schema(table: Table) -> dg.TableSchema:
    """Return the table's columns as the Dagster UI shows them."""
    required = set(table.required)
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                type_text(column.type),
                description=column.comment,
                constraints=dg.TableColumnConstraints(nullable=column.name not in required),
            )
            for column in table.columns
        ]
    )


def column_lineage(table: Table, sources: Sequence[Table]) -> dg.TableColumnLineage:
    """Return where columns of a computed table come from, as far as declarations show it.

    Tables share the declaration of a column where its meaning is equal. Such a column is passed on,
    joined by, or added up from its sources; other columns are computed from several, and have no
    entry.

    Args:
        table: the computed table.
        sources: the tables that it is computed from.
    """
    distinct = {source.name: source for source in sources}.values()
    return dg.TableColumnLineage(
        {
            column.name: [
                dg.TableColumnDep(key_of(source), column.name)
                for source in distinct
                if any(column is one for one in source.columns)
            ]
            for column in table.columns
            if any(column is one for source in sources for one in source.columns)
        }
    )


def described(table: Table, freshness: dg.FreshnessPolicy | None = EVERY_TICK) -> dict[str, Any]:
    """Return the keyword arguments that every asset of a table has in common."""
    return {
        "key": key_of(table),
        "description": table.comment,
        "group_name": "record" if table in RECORDS else table.namespace,
        "kinds": KINDS[table.namespace],
        "owners": OWNERS,
        "freshness_policy": freshness,
        "metadata": {
            "dagster/column_schema": column_schema(table),
            "dagster/table_name": table.name,
        },
    }


def written(rows: int, window: Window, **more: Any) -> dict[str, Any]:
    """Return the metadata of one materialization."""
    return {
        "dagster/row_count": rows,
        "window_start": window.start.isoformat(),
        "window_end": window.end.isoformat(),
        **{name: value for name, value in more.items() if value is not None},
    }
