"""A small home with rows in every table that the board reads, made without Spark."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from tidemark.alerting.incidents.incident import incident_id
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import Table
from tidemark.lake.tables import alerting, progress, raw

CLUSTER = "shop"


def now() -> datetime:
    """The present instant, of the precision that tables keep."""
    return datetime.now(UTC).replace(microsecond=0)


def snapshot_id(at: datetime, cluster: str = CLUSTER) -> str:
    return f"{at:%Y%m%dT%H%M%S}000Z-{cluster}"


def rows_of(
    table: Table, at: datetime, rows: Sequence[Mapping[str, Any]], cluster: str = CLUSTER
) -> pa.Table:
    """Return rows of one snapshot with all columns of a table; columns not given are NULL."""
    given = {
        "observed_at": at,
        "cluster": cluster,
        "snapshot_id": snapshot_id(at, cluster),
        "topic": "orders",
        "broker": "broker-a",
    }
    of_table = {name: value for name, value in given.items() if name in table.column_names}
    return table.arrow_table(of_table | dict(row) for row in rows)


def group(name: str, **columns: Any) -> dict[str, Any]:
    """A row of ``progress.groups`` in good health, changed by columns."""
    return {
        "consumer_group": name,
        "lag": 0,
        "inflight": 0,
        "available": 0,
        "lost": 0,
        "readable_lag": 0,
        "lag_upper": 0,
        "queues": 2,
        "queues_unknown": 0,
        "queues_never_committed": 0,
        "complete": True,
        "delay_ms": 0,
        "produce_tps": 10.0,
        "consume_tps": 10.0,
        "clients": 2,
        "online": True,
        "message_model": "CLUSTERING",
        "health": "OK",
        "health_reason": "readable lag 0",
    } | columns


GROUPS = (
    group("billing", lag=120, readable_lag=120, delay_ms=4_000),
    group(
        "mailer",
        lag=90_000,
        readable_lag=90_000,
        delay_ms=5_400_000,
        consume_tps=0.0,
        drain_seconds=None,
        loss_in_seconds=7_200.0,
        health="STALLED",
        health_reason="2 of 2 queues: readable lag 90000, consumer offset unchanged since 12:00",
        retry_lag=12,
        dlq_messages=3,
    ),
    group(
        "audit",
        lag=None,
        readable_lag=None,
        delay_ms=None,
        consume_tps=None,
        queues_unknown=2,
        complete=False,
        online=None,
        clients=None,
        health="UNKNOWN",
        health_reason="no observation of 2 queues on broker-b",
    ),
    group("billing", topic="refunds", lag=5, readable_lag=5, delay_ms=900),
)


def snapshot_row(at: datetime, cluster: str = CLUSTER, **columns: Any) -> pa.Table:
    """A row of ``raw.snapshots``."""
    row = {
        "source": "remote",
        "finished_at": at + timedelta(milliseconds=80),
        "status": "COMPLETE",
        "brokers_expected": 2,
        "brokers_answered": 2,
        "requests": 40,
        "bytes": 1000,
        "duration_ms": 80,
        "brokers_read": ["broker-a", "broker-b"],
        "problems": [],
    }
    return rows_of(raw.SNAPSHOTS, at, [row | columns], cluster)


BROKERS = tuple(
    {"broker": name, "broker_id": 0, "address": f"10.0.0.{number}:10911", "version": "V5_3_3",
     "role": "ASYNC_MASTER", "disk_ratio": 0.4, "put_tps": 12.5, "get_tps": 11.0}
    for number, name in enumerate(("broker-a", "broker-b"), 1)
)  # fmt: skip


def add_snapshot(
    lake: Lake,
    at: datetime,
    groups: Sequence[Mapping[str, Any]] = GROUPS,
    cluster: str = CLUSTER,
    queues: Sequence[Mapping[str, Any]] = (),
    **columns: Any,
) -> None:
    """Adds a computed snapshot of a cluster, its row in ``progress.snapshots`` last."""
    add_snapshots(lake, {at: groups}, cluster, queues, **columns)


def add_snapshots(
    lake: Lake,
    groups: Mapping[datetime, Sequence[Mapping[str, Any]]],
    cluster: str = CLUSTER,
    queues: Sequence[Mapping[str, Any]] = (),
    brokers: Sequence[Mapping[str, Any]] = BROKERS,
    **columns: Any,
) -> None:
    """Adds computed snapshots of a cluster in one commit a table, ``progress.snapshots`` last.

    Args:
        lake: where to.
        groups: rows of ``progress.groups`` by the instant of their snapshot.
        cluster: whose snapshots these are.
        queues: rows of ``progress.queues`` of each snapshot.
        brokers: rows of ``raw.brokers`` of each snapshot.
        columns: columns of each row of ``raw.snapshots``.
    """
    pairs = [(raw.SNAPSHOTS, snapshot_row(at, cluster, **columns)) for at in groups]
    pairs += [(raw.BROKERS, rows_of(raw.BROKERS, at, brokers, cluster)) for at in groups]
    pairs += [
        (progress.GROUPS, rows_of(progress.GROUPS, at, rows, cluster))
        for at, rows in groups.items()
    ]
    pairs += [(progress.QUEUES, rows_of(progress.QUEUES, at, queues, cluster)) for at in groups]
    pairs += [(progress.SNAPSHOTS, rows_of(progress.SNAPSHOTS, at, [{}], cluster)) for at in groups]
    for table, parts in groupby(pairs, key=itemgetter(0)):
        lake.append(table, pa.concat_tables(rows for _, rows in parts))


def queue(name: str, queue_id: int, **columns: Any) -> dict[str, Any]:
    """A row of ``progress.queues``."""
    return {
        "consumer_group": name,
        "queue_id": queue_id,
        "min_offset": 0,
        "max_offset": 1000,
        "consumer_offset": 400,
        "lag": 600,
        "readable_lag": 600,
        "delay_ms": 60_000,
        "delay_error_ms": 500,
        "delay_source": "interpolated",
        "condition": "OK",
    } | columns


QUEUES = tuple(queue("mailer", number, lag=number * 100) for number in range(4))


def incident(
    at: datetime, rule: str = "stalled", group_name: str = "mailer", **columns: Any
) -> dict[str, Any]:
    """A row of ``alerting.incidents`` that fires since an instant."""
    subject = f"{CLUSTER}/{group_name}/orders"
    row = {"cluster": CLUSTER, "consumer_group": group_name, "topic": "orders", "lag": 90_000}
    return {
        "incident_id": incident_id(rule, subject, at),
        "rule": rule,
        "kind": "health",
        "subject": subject,
        "severity": "critical",
        "state": "FIRING",
        "cluster": CLUSTER,
        "opened_at": at,
        "fired_at": at,
        "observed_at": at,
        "last_true_at": at,
        "last_value": 90_000.0,
        "peak_value": 95_000.0,
        "threshold": 1000.0,
        "observations": 3,
        "streak": 0,
        "reopened": 0,
        "labels": [("team", "mail")],
        "snapshot_ids": [snapshot_id(at)],
        "evidence": json.dumps({"row": row}),
        "transitions": [{"transition": "FIRING", "at": at}],
    } | columns


def add_incident(lake: Lake, at: datetime, **columns: Any) -> str:
    """Adds an incident of the newest computed snapshot until an instant; returns its id."""
    computed = lake.read(progress.SNAPSHOTS, columns=("observed_at",))["observed_at"].to_pylist()
    row = incident(max((item for item in computed if item <= at), default=at), **columns)
    lake.append(alerting.INCIDENTS, [row])
    return row["incident_id"]
