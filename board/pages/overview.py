"""The overview page: gaps in measurement, open incidents, worst groups, recent changes."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Response

from board.api.clusters import cluster_rows
from board.api.groups import HEALTH
from board.incident_rows import incident_rows
from board.pages.layout import ThePage
from lake.tables import progress, raw
from rocketmq.records import LeftOut

router = APIRouter(include_in_schema=False)

WORST = 8
CHANGED_WITHIN = timedelta(hours=1)


@router.get("/")
def overview(page: ThePage) -> Response:
    """Show all clusters at one glance."""
    rows = page.rows
    groups = rows.of(progress.GROUPS).to_pylist()
    since = (rows.observed_at or datetime.now(UTC)) - CHANGED_WITHIN
    changes = [row for row in rows.of(progress.EVENTS).to_pylist() if row["observed_at"] > since]
    unreachable = [
        row
        for row in rows.of(raw.BROKERS).to_pylist()
        if row["version"] is None and row["role"] is None
    ]
    counted = Counter(row["health"] for row in groups)
    return page.render(
        "overview.html",
        clusters=[
            row | {"limited": _unmeasured(row)} for row in cluster_rows(rows, datetime.now(UTC))
        ],
        unreachable=unreachable,
        health_counts=[(state, counted[state]) for state in HEALTH if counted[state]],
        total=len(groups),
        incidents=incident_rows(rows, "OPEN"),
        oldest=_worst(groups, "delay_ms"),
        largest=_worst(groups, "lag"),
        changes=sorted(changes, key=lambda row: row["observed_at"], reverse=True)[: 2 * WORST],
    )


def _unmeasured(cluster: dict[str, Any]) -> list[str]:
    """Return a line for each part that no snapshot measures; deep limits only delay parts."""
    left_out = [LeftOut(**each) for each in cluster["left_out"] or ()]
    return [each.line for each in left_out if each.part == "lite_topics"]


def _worst(groups: list[dict[str, object]], column: str) -> list[dict[str, object]]:
    """Return the groups with the largest known values of a column."""
    known = [row for row in groups if isinstance(row[column], int) and row[column] > 0]  # pyright: ignore
    return sorted(known, key=lambda row: row[column], reverse=True)[:WORST]  # pyright: ignore
