"""Consumer groups: how bad their state is, their details, and what is left of objectives."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.board import trends
from tidemark.board.http_responses import ProblemError
from tidemark.board.views.incidents import of_group, owner_columns
from tidemark.board.views.parameters import Order, containing, having, page
from tidemark.board.views.scope import GROUPS_WITH_TEAM
from tidemark.board.views.view import Shown, View
from tidemark.lake.clocks import Window
from tidemark.lake.schema import BIGINT, Column, Table
from tidemark.lake.tables import progress, raw
from tidemark.lake.typed_rows import dict_rows
from tidemark.model.health import TROUBLE as CERTAIN
from tidemark.model.health import Health
from tidemark.planning.objectives import statements_of

WORST_FIRST = (*CERTAIN, Health.UNKNOWN, Health.CATCHING_UP, Health.IDLE, Health.OK)
"""States of health by what they ask of a person.

UNKNOWN follows what is certainly wrong: one unreachable broker makes many groups unknown at once,
which would hide the few that lose messages.
"""

TROUBLE = (*CERTAIN, Health.UNKNOWN)
"""States that need a person, or may."""

SEVERITY = "severity"
LONGEST = 10**13
"""Milliseconds that no delay reaches: places of one state are below its multiple."""

GROUPS = replace(
    GROUPS_WITH_TEAM,
    columns=(
        *GROUPS_WITH_TEAM.columns,
        Column(SEVERITY, BIGINT, "place among groups: state of health, then longest delay"),
    ),
)
"""The columns of `with_severity`."""

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


def with_severity(rows: pa.Table) -> pa.Table:
    """Return rows of ``progress.groups`` with `SEVERITY`, the worst first in ascending order.

    A group without a known delay precedes the others of its state: it may be the worst of them.
    """
    states = pa.array(WORST_FIRST)
    place = pc.fill_null(
        pc.index_in(rows["health"], value_set=states),
        WORST_FIRST.index(Health.UNKNOWN),
    )
    delay = pc.fill_null(rows["delay_ms"], LONGEST - 1)
    delay = pc.min_element_wise(delay, pa.scalar(LONGEST - 1, pa.int64()))
    of_state = pc.multiply(place.cast(pa.int64()), LONGEST)
    within = pc.subtract(pa.scalar(LONGEST - 1, pa.int64()), delay)
    return rows.append_column(SEVERITY, pc.add(of_state, within))


def worst_groups(rows: pa.Table, count: int) -> list[dict[str, Any]]:
    """Return the rows of ``progress.groups`` with the worst `SEVERITY`, the worst first."""
    ranked = with_severity(rows)
    by_severity = [(SEVERITY, "ascending")]
    places = pc.sort_indices(ranked.select([SEVERITY]), sort_keys=by_severity)
    return dict_rows(ranked.take(places[:count]))


def require_health(health: str | None) -> None:
    """Refuse a text that is no state of health; None means all states.

    Raises:
        ProblemError: 400.
    """
    if health is not None and health not in tuple(Health):
        raise ProblemError(400, f"health={health!r}: it is one of {', '.join(Health)}")


def listed_groups(
    view: View,
    *,
    cluster: str | None = None,
    q: str = "",
    health: str | None = None,
    topic: str | None = None,
    team: str | None = None,
    sort: str = "-lag",
    limit: int = 100,
    cursor: str | None = None,
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of the newest rows of groups with forecasts, and the cursor of the next page.

    Args:
        view: the tables as the person sees them.
        cluster: only of this cluster.
        q: a part of the group's or topic's name.
        health: only in this state of health.
        topic: only on this topic.
        team: only of this team.
        sort: a column; `-` before it for the largest first.
        limit: rows of the page at most.
        cursor: of this page.

    Raises:
        ProblemError: there is no such state, column or place.
    """
    require_health(health)
    order = Order.of(sort, GROUPS_WITH_TEAM)
    rows = having(view.newest.of(progress.GROUPS, cluster), health=health, topic=topic, team=team)
    rows = containing(rows, q, ("consumer_group", "topic"))
    listed, following = page(rows, GROUPS_WITH_TEAM, order, limit, cursor)
    return view.with_forecasts(view.newest, trends.GROUPS, dict_rows(listed)), following


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
        "topics": view.with_forecasts(rows, trends.GROUPS, topics),
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


def objective_rows(rows: Shown) -> pa.Table:
    """Return the newest row of each group, topic and objective."""
    table = rows.of(progress.OBJECTIVES).sort_by([("hour", "descending")])
    key = [name for name in progress.OBJECTIVES.key if name != "hour"]
    names = [name for name in table.column_names if name not in key]
    newest = table.group_by(key, use_threads=False).aggregate([(name, "first") for name in names])
    newest = newest.rename_columns([*key, *names])
    return newest.select(progress.OBJECTIVES.column_names)


def statement_rows(view: View, window: Window, now: datetime, equal: Mapping[str, str]) -> pa.Table:
    """Return the statement of each objective over a month; see `statements_of`.

    Args:
        view: the tables as the person sees them.
        window: the month.
        now: the present instant.
        equal: column to value.

    Raises:
        DamagedError: a file of the table is missing or damaged.
    """
    rows = progress.OBJECTIVES.arrow_schema().empty_table()
    if not view.is_empty:
        rows = view.rows_between(progress.OBJECTIVES, window, equal)
    return statements_of(rows, window, now)


def least_left_first(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows by what is left of the budget, then by how fast it is used."""
    return sorted(
        rows,
        key=lambda row: (
            row["budget_left"],
            -(row["burn_rate_1h"] or 0),
            *(row["cluster"], row["consumer_group"], row["topic"], row["objective"]),
        ),
    )


def minutes_allowed(row: dict[str, Any]) -> float:
    """Return the minutes of the window that may be bad."""
    return (1 - row["target"]) * 60 * row["window_hours"]
