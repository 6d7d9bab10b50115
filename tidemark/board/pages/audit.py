"""The page of what people did: who, when, on what and why."""

from datetime import timedelta
from typing import Any

import pyarrow.compute as pc
from fastapi import APIRouter, Response

from tidemark.alerting.audit_trail import ACTIONS
from tidemark.board.pages.layout import Page, ThePage
from tidemark.board.responses import ProblemError
from tidemark.board.views.events import ACTIONS_NEWEST_FIRST, action_rows
from tidemark.board.views.parameters import having, page
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.typed_rows import dict_rows
from tidemark.model.people import ActionKind

router = APIRouter(include_in_schema=False)

MOST = 100
"""Actions of a page."""

SPANS = (1, 7, 30, 90)
"""Days that a person may choose."""


@router.get("/audit")
def audit(
    page_: ThePage, days: int = 30, person: str = "", action: str = "", cursor: str | None = None
) -> Response:
    """Show actions of people, the newest first; refused accesses where these are chosen.

    Whoever repeats refused requests must not move actions to later pages.
    """
    if not 1 <= days <= max(SPANS):
        raise ProblemError(400, f"days: 1 to {max(SPANS)} is wanted")
    window = Window(page_.now - timedelta(days=days), page_.now + MICROSECOND)
    of_all = action_rows(page_.view, window, action=action)
    if not action:
        of_all = of_all.filter(pc.not_equal(of_all["action"], ActionKind.REFUSED.value))
    rows = having(of_all, author=person or None)
    listed, following = page(rows, ACTIONS, ACTIONS_NEWEST_FIRST, MOST, cursor)
    people = set(of_all["author"].to_pylist()) | ({person} if person else set())
    return page_.render(
        "audit.html",
        actions=[row | {"link": _link(page_, row)} for row in dict_rows(listed)],
        count=rows.num_rows,
        following=following,
        chosen={"days": days, "person": person, "action": action},
        people=sorted(people),
        kinds=tuple(ActionKind),
        spans=SPANS,
    )


def _link(page: Page, row: dict[str, Any]) -> str:
    """Return the address of what was acted on; empty where no page shows it alone."""
    if row["action"] in (ActionKind.ACKNOWLEDGED, ActionKind.RESOLVED):
        return page.incident(row["target"])
    if row["cluster"] and row["consumer_group"]:
        return page.url(
            "/group", cluster=row["cluster"], group=row["consumer_group"], topic=row["topic"]
        )
    return ""
