"""``/groups``, ``/dead-letters`` and ``/objectives``: consumer groups, one group, and its past."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from tidemark.board.dependencies import At, Cluster, Cursor, Limit, TheView, part_of
from tidemark.board.http_responses import (
    ProblemError,
    json_response,
    object_model,
    page_model,
    page_of,
    row_model,
)
from tidemark.board.trends import GROUPS, LEVELS, UNIT, Listed
from tidemark.board.views.dead_letters import DEAD_LETTERS, dead_letter_rows
from tidemark.board.views.groups import (
    LISTS,
    group_details,
    listed_groups,
    objective_rows,
    rows_of_group,
    statement_rows,
)
from tidemark.board.views.incidents import INCIDENTS
from tidemark.board.views.last_known import with_last_known
from tidemark.board.views.parameters import Order, containing, having, page, shown
from tidemark.board.views.scope import GROUPS_WITH_TEAM
from tidemark.board.views.series import DEFAULT_COLUMNS, history_points
from tidemark.lake.tables import progress, raw
from tidemark.lake.typed_rows import dict_rows
from tidemark.live.forecasts import LIKELIHOOD
from tidemark.model.forecasts import NoForecast
from tidemark.planning.objectives import MONTH, STATEMENTS, month_of

router = APIRouter(tags=["groups"])

_FORECAST = object_model(
    "Forecast",
    "The time from the newest observation until something happens, or why none is stated.",
    estimate=(float, "at the mean change of the last hours; null where nothing is stated"),
    low=(float, f"start of the interval that holds the time in {LIKELIHOOD:.0%} of cases"),
    high=(float, "end of that interval"),
    unit=(str, f"of these numbers: {UNIT}"),
    basis=(float, "time that the observations behind it cover; null where they are too few"),
    reason=(NoForecast, "why nothing is stated; null where there is an interval"),
)


def forecasts_model(listed: Listed) -> Any:
    """Return the type and the meaning of the forecasts of a row, for `object_model`."""
    kinds = ", ".join(LEVELS[listed])
    return dict[str, _FORECAST], f"{kinds}: the time until then"  # pyright: ignore


GROUP_ROW = object_model(
    "GroupRow",
    "A group on a topic at a snapshot.",
    row_model(GROUPS_WITH_TEAM),
    forecasts=forecasts_model(GROUPS),
)


@router.get(
    "/groups",
    summary="Groups on topics, newest rows",
    responses={200: {"model": page_of(GROUP_ROW)}},
)
def groups(
    view: TheView,
    cluster: Annotated[str | None, Query(description="only of this cluster")] = None,
    q: Annotated[str, Query(description="a part of the group's or topic's name")] = "",
    health: Annotated[str | None, Query(description="only in this state of health")] = None,
    topic: Annotated[str | None, Query(description="only on this topic")] = None,
    team: Annotated[str | None, Query(description="only of this team")] = None,
    sort: Annotated[
        str, Query(description="a column; `-` before it for the largest first")
    ] = "-lag",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return the newest rows of ``progress.groups``; unknown values come last in any order."""
    items, following = listed_groups(
        view,
        cluster=cluster,
        q=q,
        health=health,
        topic=topic,
        team=team,
        sort=sort,
        limit=limit,
        cursor=cursor,
    )
    return json_response({"items": items, "next_cursor": following})


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

    The columns that mark a number as a bound follow it.
    """
    return json_response(
        history_points(view, cluster, group, topic, start=from_, end=to, step=step, columns=columns)
    )


@router.get(
    "/dead-letters",
    summary="Dead letters and retries by group",
    responses={200: {"model": page_model(DEAD_LETTERS)}},
)
def dead_letters(
    view: TheView,
    cluster: Annotated[str | None, Query(description="only of this cluster")] = None,
    q: Annotated[str, Query(description="a part of the group's name")] = "",
    sort: Annotated[
        str, Query(description="a column; `-` before it: largest first")
    ] = "-added_last_hour",
    at: At = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return a row per group with a dead-letter topic, or with messages to try again."""
    rows = having(dead_letter_rows(shown(view, at)), cluster=cluster)
    rows = containing(rows, q, ("consumer_group",))
    listed, following = page(rows, DEAD_LETTERS, Order.of(sort, DEAD_LETTERS), limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})


@router.get(
    "/objectives",
    summary="Objectives of groups and their error budgets",
    responses={200: {"model": page_model(progress.OBJECTIVES)}},
)
def objectives(
    view: TheView,
    cluster: Annotated[str | None, Query(description="only of this cluster")] = None,
    group: Annotated[str | None, Query(description="only of this group")] = None,
    objective: Annotated[str | None, Query(description="only of this name")] = None,
    q: Annotated[str, Query(description="a part of the group's or topic's name")] = "",
    sort: Annotated[
        str, Query(description="a column; `-` before it: largest first")
    ] = "budget_left",
    at: At = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return the newest row of ``progress.objectives`` of each group, topic and objective."""
    rows = objective_rows(shown(view, at))
    rows = having(rows, cluster=cluster, consumer_group=group, objective=objective)
    rows = containing(rows, q, ("consumer_group", "topic"))
    order = Order.of(sort, progress.OBJECTIVES)
    listed, following = page(rows, progress.OBJECTIVES, order, limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})


@router.get(
    "/objectives/statement",
    summary="Whether objectives were met in a month",
    responses={200: {"model": page_model(STATEMENTS)}},
)
def statement(
    view: TheView,
    month: Annotated[str, Query(description="the month, 2026-10; the present one without")] = "",
    cluster: Annotated[str | None, Query(description="only of this cluster")] = None,
    group: Annotated[str | None, Query(description="only of this group")] = None,
    objective: Annotated[str | None, Query(description="only of this name")] = None,
    sort: Annotated[str, Query(description="a column; `-` before it: largest first")] = "-bad",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return good, bad and unknown minutes, and whether the objective was met, of each group.

    Unknown minutes are never good: `met` is null where they decide.
    """
    now = datetime.now(UTC)
    try:
        window = month_of(month or f"{now:{MONTH}}")
    except ValueError as error:
        raise ProblemError(400, f"month: {error}") from None
    equal = {"cluster": cluster, "consumer_group": group, "objective": objective}
    given = {name: value for name, value in equal.items() if value is not None}
    rows = statement_rows(view, window, now, given)
    order = Order.of(sort, STATEMENTS)
    listed, following = page(rows, STATEMENTS, order, limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})
