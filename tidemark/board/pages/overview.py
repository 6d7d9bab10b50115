"""The overview page: gaps in measurement, open incidents, worst groups, recent changes."""

from collections import Counter
from typing import Any

from fastapi import APIRouter, Response

from tidemark.board.pages.incidents import listed
from tidemark.board.pages.layout import Page, ThePage
from tidemark.board.pages.sparklines import sparkline
from tidemark.board.pages.timeline import Entry, happened, of_notes
from tidemark.board.views.clusters import cluster_rows
from tidemark.board.views.groups import TROUBLE, WORST_FIRST, worst_groups
from tidemark.board.views.incidents import incident_rows
from tidemark.lake.bounds import Bound, marked
from tidemark.lake.clocks import HOUR, MICROSECOND, Window
from tidemark.lake.tables import progress, raw
from tidemark.model.health import TROUBLE as CERTAIN
from tidemark.model.health import Health
from tidemark.rocketmq.records import LeftOut

router = APIRouter(include_in_schema=False)

WORST = 8
INCIDENTS = 10
ENTRIES = 14


@router.get("/")
def overview(page: ThePage) -> Response:
    """Show all clusters at one glance."""
    rows = page.rows
    groups = rows.of(progress.GROUPS)
    unreachable = [
        row
        for row in rows.of(raw.BROKERS).to_pylist()
        if row["version"] is None and row["role"] is None
    ]
    counted = Counter(groups["health"].to_pylist())
    incidents = incident_rows(rows, "OPEN")
    changes = _changes(page)
    return page.render(
        "overview.html",
        clusters=[row | {"limited": _unmeasured(row)} for row in cluster_rows(rows, page.now)],
        unreachable=unreachable,
        health_counts=[(state, counted[state]) for state in WORST_FIRST if counted[state]],
        total=groups.num_rows,
        in_trouble=marked(
            f"{sum(counted[state] for state in CERTAIN):,}",
            Bound.LOWER if counted[Health.UNKNOWN] else None,
        ),
        incidents=incidents,
        listed=listed(page, incidents[:INCIDENTS]),
        worst=_worst(page),
        changes=changes[:ENTRIES],
        changes_count=len(changes),
    )


def _unmeasured(cluster: dict[str, Any]) -> list[str]:
    """Return a line for each part that no snapshot measures; deep limits only delay parts."""
    left_out = [LeftOut(**item) for item in cluster["left_out"] or ()]
    return [item.line for item in left_out if item.part == "lite_topics"]


def _worst(page: Page) -> list[dict[str, Any]]:
    """Return the groups in trouble, or with the longest delays, each with its trend."""
    result = [
        row
        for row in worst_groups(page.rows.of(progress.GROUPS), WORST)
        if row["health"] in TROUBLE or row["lag"] or row["delay_ms"]
    ]
    trends = page.trends
    return [
        row | {"spark": sparkline(trends.of(row["cluster"], row["consumer_group"], row["topic"]))}
        for row in result
    ]


def _changes(page: Page) -> list[Entry]:
    """Return what happened within the last hour of what is shown."""
    newest = page.rows.observed_at
    if newest is None:
        return []
    window = Window(newest - HOUR, page.end + MICROSECOND)
    return happened(
        window,
        events=page.rows.of(progress.EVENTS).to_pylist(),
        changes=page.view.health_changes(page.rows, window).newest(),
        incidents=incident_rows(page.rows),
        notes=of_notes(page.view),
    )
