"""Metadata that every asset reports to Dagster about its table and rows, from the declaration.

The code version of an asset is part of it: Dagster shows which hours were computed by other code
than the present. A version is the digest of sources, so nobody has to raise it and none is
forgotten. A changed comment changes it too, which costs a look; a change that is missed would hide
wrong numbers.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dagster as dg

from tidemark.lake.clocks import Window
from tidemark.lake.schema import Table, type_text
from tidemark.lake.tables import alerting, progress, quality, raw

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


PLANNED_LINEAGE = Path(__file__).with_name("column_lineage.json")
"""The columns from which a column is computed, by table, column and table of origin.

They are read off Spark's plans of a tick. The keys and the order of a window count; conditions of
filters and joins, and earlier rows of the same table, do not. A test makes the file again."""


@cache
def _planned_lineage() -> Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]]:
    return json.loads(PLANNED_LINEAGE.read_text())


def column_lineage(table: Table, sources: Sequence[Table]) -> dg.TableColumnLineage:
    """Return the columns from which those of a computed table come.

    A table that Python computes, and not Spark, has an entry for the columns whose declaration it
    shares with a source: tables share the declaration of a column where its meaning is equal.

    Args:
        table: the computed table.
        sources: the tables that it is computed from.
    """
    planned = _planned_lineage().get(table.name)
    if planned is None:
        planned = {
            column.name: {
                source.name: [column.name]
                for source in sources
                if any(column is shared for shared in source.columns)
            }
            for column in table.columns
        }
    return dg.TableColumnLineage(
        {
            column: [
                dg.TableColumnDep(dg.AssetKey(source.split(".")), name)
                for source, names in origins.items()
                for name in names
            ]
            for column, origins in planned.items()
            if origins
        }
    )


def described(
    table: Table, *sources: Table, freshness: dg.FreshnessPolicy | None = EVERY_TICK
) -> dict[str, Any]:
    """Return the keyword arguments that every asset of a table has in common.

    Args:
        table: the table.
        sources: the tables that it is computed from.
        freshness: the longest time from one materialization to the next.
    """
    computed = {}
    if sources:
        computed["dagster/column_lineage"] = column_lineage(table, sources)
    return {
        "deps": [key_of(source) for source in sources],
        "key": key_of(table),
        "description": table.comment,
        "group_name": "record" if table in RECORDS else table.namespace,
        "kinds": KINDS[table.namespace],
        "owners": OWNERS,
        "freshness_policy": freshness,
        "metadata": {
            "dagster/column_schema": column_schema(table),
            "dagster/table_name": table.name,
            **computed,
        },
    }


PAGES = {
    key_of(progress.GROUPS): "/groups",
    key_of(progress.QUEUES): "/groups",
    key_of(progress.TOPICS): "/topics",
    key_of(progress.EVENTS): "/events",
    key_of(progress.OBJECTIVES): "/objectives",
    key_of(raw.BROKERS): "/brokers",
    key_of(alerting.ALERTS): "/incidents",
    key_of(alerting.INCIDENTS): "/incidents",
    key_of(quality.RESULTS): "/quality",
    key_of(quality.QUARANTINE): "/quality",
}
"""The page of the board that shows the rows of an asset, for the assets that have one."""


def shown_at(key: dg.AssetKey, board_url: str) -> dict[str, dg.MetadataValue]:
    """Return the metadata of an asset by which a person gets from Dagster to its page of the board.

    Args:
        key: of the asset.
        board_url: address of the board; empty where it is not known.
    """
    if not board_url or key not in PAGES:
        return {}
    return {"board": dg.MetadataValue.url(board_url.rstrip("/") + PAGES[key])}


def written(rows: int, window: Window, **more: Any) -> dict[str, Any]:
    """Return the metadata of one materialization."""
    return {
        "dagster/row_count": rows,
        "window_start": window.start.isoformat(),
        "window_end": window.end.isoformat(),
        **{name: value for name, value in more.items() if value is not None},
    }


ROOMS = (
    *("spark", "expectations", "assets.rule_evaluation", "tidemark.planning", "tidemark.alerting"),
    *("tidemark.model", "tidemark.collection", "tidemark.rocketmq"),
    *("tidemark.lake.landing", "tidemark.lake.loading", "tidemark.lake.retention"),
)
"""Rooms and modules that decide about rows: what an asset uses of them is part of its version."""

SHARED = ("assets.reader", "tidemark.planning.run_plan")
"""Modules that decide which rows every asset reads; part of each version, without their imports."""

LEFT_OUT = ("spark.session", "tidemark.alerting.delivery")
"""Parts of these rooms that decide about no row: how Spark is reached, how people are notified."""

_IMPORT = re.compile(r"^\s*(?:from ([\w.]+) import|import ([\w.]+))", re.MULTILINE)


def code_version(declared: Table | str, *functions: Callable[..., Any]) -> str:
    """Return the code version of an asset.

    It changes with the declaration of its table, with the text of the functions, with every module
    of `ROOMS` that these use, directly or through another one, and with those of `SHARED`. It is
    the same in each process and on each host.

    Args:
        declared: the table, or the name of an asset that is none.
        functions: those that make its rows.
    """
    modules = _reached(module for function in functions for module in _used(function)).union(SHARED)
    parts = [
        repr(declared),
        *(inspect.getsource(function) for function in functions),
        *(_source(module) for module in sorted(modules)),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _used(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the modules of what a function names, and its own."""
    yield function.__module__
    code, names = inspect.unwrap(function).__code__, inspect.unwrap(function).__globals__
    for name in code.co_names:
        used = names.get(name)
        yield getattr(used, "__module__", None) or getattr(used, "__name__", None) or ""


def _reached(modules: Iterable[str]) -> frozenset[str]:
    """Return those modules that are of `ROOMS`, and all that they import of these."""
    reached: set[str] = set()
    waiting = {module for module in modules if _decides(module)}
    while waiting:
        reached |= waiting
        waiting = {one for module in waiting for one in _imported(module)} - reached
    return frozenset(reached)


def _decides(module: str) -> bool:
    def is_in(rooms: Iterable[str]) -> bool:
        return any(module == room or module.startswith(f"{room}.") for room in rooms)

    return is_in(ROOMS) and not is_in(LEFT_OUT)


@cache
def _source(module: str) -> str:
    spec = find_spec(module)
    return Path(spec.origin).read_text() if spec and spec.origin else ""


@cache
def _imported(module: str) -> frozenset[str]:
    names = {of or plain for of, plain in _IMPORT.findall(_source(module))}
    return frozenset(name for name in names if _decides(name))
