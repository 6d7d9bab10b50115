"""Groups: a table of thousands that filters and sorts at once."""

from fastapi import APIRouter, Response

from board.api.groups import HEALTH, require_health
from board.pages.layout import ThePage
from board.paging import Order, containing, having
from board.paging import page as page_of
from lake.tables import progress
from lake.typed_rows import dict_rows

router = APIRouter(include_in_schema=False)

SHOWN = 100
COLUMNS = (
    "lag",
    "delay_ms",
    "inflight",
    "produce_tps",
    "consume_tps",
    "drain_seconds",
    "loss_in_seconds",
    "clients",
)
"""Columns of the table of groups after cluster, group, topic and health."""


@router.get("/groups")
def groups(
    page: ThePage,
    cluster: str = "",
    q: str = "",
    health: str = "",
    topic: str = "",
    sort: str = "-lag",
    cursor: str = "",
) -> Response:
    """Show the newest rows of groups, filtered and sorted."""
    require_health(health or None)
    order = Order.of(sort, progress.GROUPS)
    rows = page.rows.of(progress.GROUPS)
    rows = having(rows, cluster=cluster or None, health=health or None, topic=topic or None)
    rows = containing(rows, q, ("consumer_group", "topic"))
    found, following = page_of(rows, progress.GROUPS, order, SHOWN, cursor or None)
    wanted = {"cluster": cluster, "q": q, "health": health, "topic": topic}
    return page.render(
        "groups.html",
        rows=dict_rows(found),
        count=rows.num_rows,
        following=following,
        columns=COLUMNS,
        order=order,
        sort=sort,
        wanted=wanted,
        clusters=sorted(page.rows.at),
        states=HEALTH,
    )
