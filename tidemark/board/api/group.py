"""``/groups/{cluster}/{group}``: one group, its past and its queues."""

from datetime import datetime
from operator import itemgetter
from typing import Annotated, Any

import pyarrow.compute as pc
from fastapi import APIRouter, Depends, Query, Response

from tidemark.board.api.groups import GROUP_ROW
from tidemark.board.dependencies import At, Cluster, TheView, part_of
from tidemark.board.group_copies import COLUMNS, ERROR, MOST, POINT
from tidemark.board.group_history import MOST_POINTS, STEPS, Series, series, step_for, steps_in
from tidemark.board.responses import (
    ProblemError,
    json_response,
    object_model,
    page_model,
    row_model,
)
from tidemark.board.trends import GROUPS
from tidemark.board.views.incidents import INCIDENTS, of_group, owner_columns
from tidemark.board.views.last_known import with_last_known
from tidemark.board.views.parameters import shown, window_of
from tidemark.board.views.view import Shown, View
from tidemark.lake.bounds import columns_with_marks
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress, raw
from tidemark.lake.typed_rows import dict_rows
from tidemark.settings.times import seconds

router = APIRouter(tags=["groups"])

Group = Annotated[str, Depends(part_of("group"))]
Topic = Annotated[str, Depends(part_of("topic"))]

DEFAULT_COLUMNS = ("lag", "readable_lag", "delay_ms", "produce_tps", "consume_tps", "health")

LISTS = {
    "members": raw.CLIENTS,
    "queues": progress.QUEUES,
    "assignments": progress.ASSIGNMENTS,
    "idle_clients": progress.IDLE_CLIENTS,
    "capacity": progress.CAPACITY,
    "subscriptions": progress.SUBSCRIPTIONS,
    "client_topics": raw.CLIENT_TOPICS,
}
"""Tables of the details of a group, by their names there."""

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
    window = window_of(from_, to)
    names = columns_with_marks(columns_of(columns))
    rows = view.newest
    made = history_of(view, rows, window, cluster, group, topic, names, _step(step))
    return json_response(
        {
            "cluster": cluster,
            "consumer_group": group,
            "topic": topic,
            "from": window.start,
            "to": window.end,
            "step_seconds": made.step,
            "columns": list(names),
            "points": [
                {
                    "observed_at": at,
                    "last": {name: made.last[name][place] for name in names},
                    "max": {name: made.maximum[name][place] for name in names},
                }
                for place, at in enumerate(made.instants)
            ],
        }
    )


def history_of(
    view: View,
    rows: Shown,
    window: Window,
    cluster: str,
    group: str,
    topic: str,
    names: tuple[str, ...],
    step: int | None,
) -> Series:
    """Return the series of a group on a topic; see `tidemark.board.group_history`.

    Args:
        view: the tables as the person sees them.
        rows: the shown rows; observations after their snapshot are left out.
        window: the window.
        cluster: the cluster.
        group: the group.
        topic: the topic.
        names: columns of ``progress.groups``, and ``delay_error_ms`` in addition to those of pages.
        step: seconds of a point; None: as many as there are observations, or as few as are drawn.

    Raises:
        ProblemError: the step gives too many points.
    """
    if view.is_empty:
        raise ProblemError(404, "nothing is computed yet")
    minutes = (window.end - window.start).total_seconds() / 60
    if step and steps_in(window, step) > MOST_POINTS:
        raise ProblemError(400, f"step: it gives more than {MOST_POINTS} points; take a longer one")
    step = step or step_for(window, round(minutes))
    equal = {"cluster": cluster, "consumer_group": group, "topic": topic}
    if (newest := rows.at.get(cluster)) is not None:
        end = max(window.start, min(window.end, newest + MICROSECOND))
        window = Window(window.start, end)
    if set(names) <= {*COLUMNS, ERROR}:
        by_day = step is not None and step % POINT == 0
        past = view.history(window, equal, names, by_day=by_day)
        return series(past, "observed_at", names, step or step_for(window, past.num_rows), MOST)
    past = view.group_rows_between(window, equal, names)
    return series(past, "observed_at", names, step or step_for(window, past.num_rows))


def group_details(view: View, rows: Shown, cluster: str, group: str) -> dict[str, Any]:
    """Return the details of a group from the shown rows.

    Args:
        view: the tables as the person sees them.
        rows: what is shown.
        cluster: the cluster.
        group: the group.

    Raises:
        ProblemError: the group has no rows.
    """
    topics = rows_of_group(rows, progress.GROUPS, cluster, group)
    if not topics:
        raise ProblemError(404, f"no group {group!r} in {cluster!r}: GET /api/v1/groups lists them")
    details = {name: rows_of_group(rows, table, cluster, group) for name, table in LISTS.items()}
    return {
        "cluster": cluster,
        "consumer_group": group,
        "observed_at": rows.at[cluster],
        **owner_columns(rows.owners.of(cluster, group)),
        "topics": view.with_forecasts(rows, GROUPS, topics),
        **details | {"members": with_reports(**details)},
        "incidents": of_group(rows, cluster, group),
    }


def with_reports(
    members: list[dict[str, Any]],
    capacity: list[dict[str, Any]],
    subscriptions: list[dict[str, Any]],
    **_: Any,
) -> list[dict[str, Any]]:
    """Return members with their last report and its instant ``reported_at``.

    A report has threads and strategy. Only deep snapshots request reports of members; between two
    of them the newest report stays.
    """
    reports: dict[str, dict[str, Any]] = {}
    for row in sorted(subscriptions, key=itemgetter("observed_at")):
        for member in row["evidence"] or ():
            if member["allocation_strategy"] is not None:
                reports[member["client_id"]] = {
                    "allocation_strategy": member["allocation_strategy"],
                    "reported_at": row["observed_at"],
                }
    for row in sorted(capacity, key=itemgetter("observed_at")):
        for member in row["members"] or ():
            reports.setdefault(member["client_id"], {}).update(
                thread_count=member["threads"], reported_at=row["observed_at"]
            )
    own = ({"reported_at": None, **member} for member in members)
    return [
        member | {"reported_at": member["observed_at"]}
        if member["thread_count"] is not None
        else member | reports.get(member["client_id"], {})
        for member in own
    ]


def rows_of_group(
    rows: Shown, table: Table, cluster: str, group: str, topic: str | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a table about a group, and a topic, in the order of the key."""
    result = rows.of(table, cluster)
    result = result.filter(pc.equal(result["consumer_group"], group))
    if topic is not None:
        result = result.filter(pc.equal(result["topic"], topic))
    return dict_rows(result.sort_by([(name, "ascending") for name in table.key]))


def columns_of(text: str) -> tuple[str, ...]:
    """Return the columns that a parameter names by commas.

    Raises:
        ProblemError: ``progress.groups`` has no such column.
    """
    given = (name.strip() for name in text.split(","))
    names = tuple(dict.fromkeys(given)) if text else DEFAULT_COLUMNS
    unknown = [name for name in names if name not in progress.GROUPS.column_names]
    if unknown:
        raise ProblemError(400, f"columns: progress.groups has no {', '.join(unknown)}")
    return names


def _step(text: str) -> int | None:
    if not text:
        return None
    try:
        step = int(seconds(text))
    except ValueError as error:
        raise ProblemError(400, f"step: {error}") from error
    if not 1 <= step <= STEPS[-1]:
        raise ProblemError(400, "step: 1s to 1d is wanted")
    return step
