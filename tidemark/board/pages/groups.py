"""Groups: a table of thousands that filters and sorts at once."""

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter, Response

from tidemark.board.pages.layout import Page, ThePage
from tidemark.board.pages.sparklines import sparkline
from tidemark.board.views.groups import (
    GROUPS,
    SEVERITY,
    TROUBLE,
    WORST_FIRST,
    require_health,
    with_severity,
)
from tidemark.board.views.parameters import Order, containing, having
from tidemark.board.views.parameters import page as page_of
from tidemark.lake.tables import progress
from tidemark.lake.typed_rows import dict_rows
from tidemark.rocketmq.names import OWN_TOPICS

router = APIRouter(include_in_schema=False)

SHOWN = 100
COLUMNS = (
    "delay_ms",
    "lag",
    "inflight",
    "produce_tps",
    "consume_tps",
    "drain_seconds",
    "loss_in_seconds",
    "clients",
)
"""Columns of the table of groups after cluster, group, topic and health."""

ALWAYS = ("delay_ms", "lag")
"""Columns that a phone shows, too."""


@router.get("/groups")
def groups(
    page: ThePage,
    cluster: str = "",
    q: str = "",
    health: str = "",
    topic: str = "",
    team: str = "",
    sort: str = SEVERITY,
    retries: str = "",
    cursor: str = "",
) -> Response:
    """Show the newest rows of groups, filtered and sorted; the worst first without an order.

    A group's own topics (retries, dead letters) are shown with its other topics, unless one of
    them is in trouble, `retries` is ``shown`` or the filter names one.
    """
    require_health(health or None)
    order = Order.of(sort, GROUPS)
    rows = with_severity(page.rows.of(progress.GROUPS))
    rows = having(rows, cluster=cluster or None, health=health or None, topic=topic or None)
    rows = having(rows, team=team or None)
    rows = containing(rows, q, ("consumer_group", "topic"))
    is_folded = not retries and not topic.startswith(OWN_TOPICS) and "%" not in q
    kept, folded = _divided(rows) if is_folded else (rows, rows.slice(0, 0))
    listed, following = page_of(kept, GROUPS, order, SHOWN, cursor or None)
    wanted = {"cluster": cluster, "q": q, "health": health, "topic": topic, "retries": retries}
    wanted |= {"team": team}
    return page.render(
        "groups.html",
        rows=_with_more(page, dict_rows(listed), folded),
        count=kept.num_rows,
        folded=folded.num_rows,
        following=following,
        columns=COLUMNS,
        always=ALWAYS,
        order=order,
        sort=sort,
        wanted=wanted,
        clusters=sorted(page.rows.at),
        states=WORST_FIRST,
        teams=page.view.team_names,
        trouble=TROUBLE,
    )


def _divided(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows to show, and those of own topics that their group has another row for."""
    is_own = pa.array([False] * rows.num_rows, pa.bool_())
    for prefix in OWN_TOPICS:
        starts = pc.starts_with(rows["topic"], prefix)
        is_own = pc.or_(is_own, starts)
    in_trouble = pc.is_in(rows["health"], value_set=pa.array(TROUBLE))
    group = pc.binary_join_element_wise(rows["cluster"], rows["consumer_group"], "/")
    named = group.filter(pc.invert(is_own)).unique()
    has_other = pc.is_in(group, value_set=named)
    is_folded = pc.and_(pc.and_(is_own, has_other), pc.invert(in_trouble))
    return rows.filter(pc.invert(is_folded)), rows.filter(is_folded)


def _with_more(page: Page, rows: list[dict[str, Any]], folded: pa.Table) -> list[dict[str, Any]]:
    """Return rows with their trend, their reason, and the own topics of their group."""
    own: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in dict_rows(folded):
        own[row["cluster"], row["consumer_group"]].append(row)
    trends = page.trends
    return [
        row
        | {
            "spark": sparkline(trends.of(row["cluster"], row["consumer_group"], row["topic"])),
            "reason": page.reason(row),
            "own": own.get((row["cluster"], row["consumer_group"]), []),
        }
        for row in rows
    ]
