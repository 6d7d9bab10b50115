"""``/audit``: what people did, when, on what and why."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response

from tidemark.alerting.audit_trail import ACTIONS
from tidemark.board.dependencies import Cursor, Limit, TheView
from tidemark.board.responses import json_response, page_model
from tidemark.board.views.events import ACTIONS_NEWEST_FIRST, action_rows
from tidemark.board.views.parameters import having, page, window_of
from tidemark.lake.typed_rows import dict_rows
from tidemark.model.people import ActionKind

router = APIRouter(tags=["audit"])

SPAN = timedelta(days=30)
"""Time of the trail where no start is given."""


@router.get(
    "/audit",
    summary="What people did, the newest first",
    responses={200: {"model": page_model(ACTIONS)}},
)
def audit(
    view: TheView,
    person: Annotated[str | None, Query(description="only of this person")] = None,
    action: Annotated[str | None, Query(description=" | ".join(ActionKind))] = None,
    cluster: Annotated[str | None, Query(description="only on this cluster")] = None,
    group: Annotated[str | None, Query(description="only on this consumer group")] = None,
    from_: Annotated[
        str, Query(alias="from", description="first instant; 30 days before `to` without")
    ] = "",
    to: Annotated[str, Query(description="last instant; now without")] = "",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return acknowledgements, resolutions, silences, annotations, decisions and requests.

    Accesses that were refused are counted by hour, person or address, and part of the board.

    Decisions on quarantined rows are kept as long as these are; those on incidents as long as the
    incident, ended silences and refused accesses 30 days, annotations and requests for stacks 90.
    """
    rows = action_rows(view, window_of(from_, to, SPAN), person, action)
    rows = having(rows, cluster=cluster, consumer_group=group)
    listed, following = page(rows, ACTIONS, ACTIONS_NEWEST_FIRST, limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})
