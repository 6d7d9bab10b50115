"""``/groups/{cluster}/{group}``: one group, its past and its queues."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from tidemark.board.api.groups import GROUP_ROW
from tidemark.board.dependencies import At, Cluster, TheView, part_of
from tidemark.board.responses import (
    ProblemError,
    json_response,
    object_model,
    page_model,
    row_model,
)
from tidemark.board.views.groups import LISTS, group_details, rows_of_group
from tidemark.board.views.history import DEFAULT_COLUMNS, history_points
from tidemark.board.views.incidents import INCIDENTS
from tidemark.board.views.last_known import with_last_known
from tidemark.board.views.parameters import shown
from tidemark.lake.tables import progress, raw

router = APIRouter(tags=["groups"])

Group = Annotated[str, Depends(part_of("group"))]
Topic = Annotated[str, Depends(part_of("topic"))]

_LAST_KNOWN = (
    dict[str, dict[str, Any]],
    "columns that only deep snapshots request: the last known value, its marks and its instant",
)
_ROWS: dict[str, Any] = {
    **{name: row_model(table) for name, table in LISTS.items()},
    "topics": object_model(
        "GroupOnTopic",
        "A group on a topic.",
        GROUP_ROW,
        last_known=_LAST_KNOWN,
    ),
    "queues": object_model(
        "GroupQueue", "A queue of a group.", row_model(progress.QUEUES), last_known=_LAST_KNOWN
    ),
    "members": object_model(
        "GroupMember",
        "A member of a group.",
        row_model(raw.CLIENTS),
        reported_at=(datetime, "when it reported its threads and strategy"),
    ),
    "incidents": row_model(INCIDENTS),
}
_DETAILS = object_model(
    "GroupDetails",
    "A group at a snapshot.",
    cluster=(str, "the cluster"),
    consumer_group=(str, "the group"),
    observed_at=(datetime, "start of the snapshot"),
    team=(str, "the team that owns it, by owners.yaml"),
    contact=(str, "how to reach that team"),
    links=(dict[str, str], "name of a page of that team to its address"),
    **{name: (list[row], row.__doc__ or "") for name, row in _ROWS.items()},
)
_POINT = object_model(
    "HistoryPoint",
    "A point of a history.",
    observed_at=(datetime, "the observation, or the start of the step"),
    last=(dict[str, Any], "column to its value at the last observation"),
    max=(dict[str, Any], "column to its largest known value"),
)
_HISTORY = object_model(
    "GroupHistory",
    "Columns of a group on a topic over time.",
    cluster=(str, "the cluster"),
    consumer_group=(str, "the group"),
    topic=(str, "the topic"),
    **{"from": (datetime, "start of the window"), "to": (datetime, "its end")},
    step_seconds=(int, "time that a point covers; null where a point is an observation"),
    columns=(list[str], "the columns, and those that mark them as bounds"),
    points=(list[_POINT], "the points in order of time"),  # pyright: ignore
)


@router.get(
    "/groups/{cluster}/{group}",
    summary="A group: topics, members, queues, incidents",
    responses={200: {"model": _DETAILS}},
)
def group(view: TheView, cluster: Cluster, group: Group, at: At = None) -> Response:
    """Return everything that is known of a group at its newest snapshot, or as of an instant.

    ``last_known`` of a topic or queue has what only deep snapshots request, with its instant.
    """
    rows = shown(view, at)
    return json_response(with_last_known(view, rows, group_details(view, rows, cluster, group)))


@router.get(
    "/groups/{cluster}/{group}/{topic}/queues",
    summary="Queues of a group on a topic, now or then",
    responses={200: {"model": page_model(progress.QUEUES)}},
)
def queues(view: TheView, cluster: Cluster, group: Group, topic: Topic, at: At = None) -> Response:
    """Return the rows of ``progress.queues``, of the newest snapshot that is not after `at`."""
    rows = rows_of_group(shown(view, at), progress.QUEUES, cluster, group, topic)
    if not rows:
        raise ProblemError(404, f"no queue of {group!r} on {topic!r} in {cluster!r} then")
    return json_response({"items": rows, "next_cursor": None})


@router.get(
    "/groups/{cluster}/{group}/{topic}/history",
    summary="Columns of progress.groups over time",
    responses={200: {"model": _HISTORY}},
)
def history(
    view: TheView,
    cluster: Cluster,
    group: Group,
    topic: Topic,
    from_: Annotated[
        str, Query(alias="from", description="first instant; an hour before `to` without")
    ] = "",
    to: Annotated[str, Query(description="last instant; now without")] = "",
    step: Annotated[
        str, Query(description="time that a point stands for, e.g. 5m; chosen without")
    ] = "",
    columns: Annotated[
        str, Query(description=f"by commas; {','.join(DEFAULT_COLUMNS)} without")
    ] = "",
) -> Response:
    """Return series of at most 2,000 points: `last` and `max` of each; nulls stand in gaps.

    The columns that mark a number as a bound stand beside it.
    """
    return json_response(
        history_points(view, cluster, group, topic, start=from_, end=to, step=step, columns=columns)
    )
