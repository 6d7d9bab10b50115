"""Consumer groups: all of them, one with its past, their dead letters, and their objectives."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter, Depends, Response

from tidemark.board.http_responses import ProblemError
from tidemark.board.pages.charts import GroupCharts
from tidemark.board.pages.choices import TimeAxis, time_axis
from tidemark.board.pages.incidents import listed
from tidemark.board.pages.layout import Page, ThePage
from tidemark.board.pages.sparklines import Sparkline, sparkline
from tidemark.board.pages.tables import MOST, WITH_TREND
from tidemark.board.pages.why import address_of_runbook, owned_queues, why_of_group
from tidemark.board.trends import TOPICS
from tidemark.board.views.dead_letters import dead_letter_rows, worst_first
from tidemark.board.views.groups import (
    GROUPS,
    SEVERITY,
    TROUBLE,
    WORST_FIRST,
    group_details,
    least_left_first,
    minutes_allowed,
    objective_rows,
    require_health,
    with_severity,
)
from tidemark.board.views.last_known import LAST_KNOWN, with_last_known
from tidemark.board.views.parameters import Order, containing, having
from tidemark.board.views.parameters import page as page_of
from tidemark.lake.bounds import MARKS
from tidemark.lake.tables import progress
from tidemark.lake.typed_rows import dict_rows
from tidemark.model.consumption import AssignmentState
from tidemark.rocketmq.allocation import STRATEGIES
from tidemark.rocketmq.names import DLQ_PREFIX, OWN_TOPICS, retry_topic
from tidemark.rocketmq.snapshot.online import speaks_grpc

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
    chosen, following = page_of(kept, GROUPS, order, SHOWN, cursor or None)
    wanted = {"cluster": cluster, "q": q, "health": health, "topic": topic, "retries": retries}
    wanted |= {"team": team}
    return page.render(
        "groups.html",
        rows=_with_more(page, dict_rows(chosen), folded),
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


FIGURES = ("delay_ms", "lag", "consume_tps", "produce_tps", "drain_seconds", "loss_in_seconds")
"""Columns of ``progress.groups`` that a person on call reads first."""

FACTS = (
    *("inflight", "available", "ready_delay_ms", "lost", "retry_lag", "dlq_messages"),
    *("filtered_lag", "queues", "queues_unknown", "queues_flow_controlled"),
    *("clients", "client_version"),
)
"""Further columns that are shown of every group."""

QUEUE_COLUMNS = (
    *("delay_ms", "lag", "consume_tps", "delay_error_ms", "consumer_offset", "max_offset"),
    *("inflight", "loss_in_seconds"),
)
"""Columns of ``progress.queues`` after the queue and its owner."""

HEAT = (("h5", 3_600_000), ("h4", 600_000), ("h3", 60_000), ("h2", 10_000))
"""Classes of a queue in the strip, by the milliseconds that its oldest message has waited."""

SCALE = (("h0", "no lag"), ("h1", "< 10 s"), ("h2", "≥ 10 s"), ("h3", "≥ 1 m"), ("h4", "≥ 10 m"),
         ("h5", "≥ 1 h"), ("unknown", "unknown"))  # fmt: skip
"""Their meaning: what is absolute is the same colour in every group."""

KNOWN_FACTS = ("consume_mode", "inflight_source", "ack_tps")
"""Columns that are shown where they are known, or were last."""

USUAL_FACTS = {
    "redelivered_tps": 0,
    "registered": True,
    "duplicate_client_ids": 0,
    "mixed_members": False,
}
"""Columns that are shown where they are known and not as usual."""


@router.get("/group")
def group(
    page: ThePage,
    cluster: str,
    group: str,
    axis: Annotated[TimeAxis, Depends(time_axis("1h"))],
    topic: str = "",
) -> Response:
    """Show one group over a range that ends now, or from an instant to another."""
    if cluster not in page.rows.at:
        raise ProblemError(404, f"no cluster {cluster!r}")
    details = with_last_known(
        page.view, page.rows, group_details(page.view, page.rows, cluster, group)
    )
    topics = _by_lag(details["topics"])
    # A group has no offsets on its own dead-letter topic, where links about it lead.
    is_dead = topic.startswith(DLQ_PREFIX) and all(row["topic"] != topic for row in topics)
    chosen = topics[0]["topic"] if is_dead or not topic else topic
    chosen_row = next((row for row in topics if row["topic"] == chosen), None)
    if chosen_row is None:
        raise ProblemError(404, f"{group!r} has nothing on topic {chosen!r}")
    past = GroupCharts(page.view, page.rows, axis.window, cluster, group, chosen, page.words)
    of_topic = [row for row in details["queues"] if row["topic"] == chosen]
    held = [row for row in details["assignments"] if row["topic"] == chosen]
    queues = owned_queues(of_topic, held)
    return page.render(
        "group.html",
        **details
        | {
            "topics": topics,
            "queues": queues,
            "members": [_member(row) for row in details["members"]],
            "incidents": listed(page, details["incidents"]),
        },
        row=chosen_row,
        why=why_of_group(page, chosen_row, queues, details["incidents"]),
        figures=FIGURES,
        facts_shown=_facts(chosen_row),
        queue_columns=QUEUE_COLUMNS,
        topic=chosen,
        axis=axis,
        charts=past.charts,
        marks=past.marks,
        heat=[(row, _heat(row)) for row in of_topic],
        scale=SCALE,
        is_owned=bool(held),
        wrong=any(row["state"] not in (AssignmentState.OK, None) for row in held),
        planned_clients=_planned_clients(chosen_row),
        capacity_row=_capacity(details["capacity"], chosen_row),
        strategies=STRATEGIES,
    )


def _planned_clients(row: Mapping[str, Any]) -> int:
    """Return one member more than now, as far as there are queues for it."""
    return max(1, min((row["clients"] or 0) + 1, row["queues"] or 1))


def _facts(row: Mapping[str, Any]) -> list[str]:
    """Return the columns of the tiles: those of every group, and others with a value to show."""
    known = (n for n in KNOWN_FACTS if row.get(n) is not None or n in row[LAST_KNOWN])
    unusual = (n for n, usual in USUAL_FACTS.items() if row.get(n) not in (None, usual))
    return [*FACTS, *known, *unusual]


def _member(row: dict[str, Any]) -> dict[str, Any]:
    """Return a member; no source reports threads or strategy of a gRPC client."""
    topics = [subscription["topic"] for subscription in row["subscriptions"] or ()]
    if not speaks_grpc(row["client_id"], topics):
        return row
    return row | {name: row[name] or "gRPC" for name in ("thread_count", "allocation_strategy")}


def _capacity(rows: list[dict[str, Any]], of_group: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the capacity of the group on a topic; a bound of its lag is one of times to drain."""
    row = next((row for row in rows if row["topic"] == of_group["topic"]), None)
    if row is None:
        return None
    marks = {name: of_group[name] for name in MARKS}
    online = of_group["clients"] or 0
    drained = [item | marks for item in row["drain_by_clients"] or () if item["clients"] > online]
    return row | {"drain_by_clients": drained}


def _by_lag(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the topics of a group, the largest lag first, and retry topics after all others."""
    return sorted(rows, key=lambda row: (row["topic"].startswith(OWN_TOPICS), -(row["lag"] or 0)))


def _heat(queue: Mapping[str, Any]) -> str:
    """Return the class of a queue in the strip, by how long its oldest message has waited."""
    lag, delay = queue["lag"], queue["delay_ms"]
    if lag is None or (lag > 0 and delay is None):
        return "unknown"
    if lag <= 0:
        return "h0"
    return next((name for name, least in HEAT if delay >= least), "h1")


DEAD_LETTERS_RUNBOOK = "runbooks/dead-letters.md"


@router.get("/dead-letters")
def dead_letters(page: ThePage, cluster: str = "", q: str = "") -> Response:
    """Show groups with new dead letters first, then all others, then those that only retry."""
    rows = having(dead_letter_rows(page.rows), cluster=cluster or None)
    rows = worst_first(dict_rows(containing(rows, q, ("consumer_group",))))
    dead = [row for row in rows if row["messages"] != 0 and row["topic"]]
    retried = [row for row in rows if row["retry_lag"] or row["redelivered_tps"]]
    return page.render(
        "dead_letters.html",
        dead=_with_trends(dead, partial(_kept, page)),
        dead_count=len(dead),
        retried=_with_trends(_by_retries(retried), partial(_retries, page)),
        retried_count=len(retried),
        new=_sum(dead, "added_last_hour"),
        kept=_sum(dead, "messages"),
        runbook=address_of_runbook(page, DEAD_LETTERS_RUNBOOK),
        q=q,
        cluster=cluster,
        clusters=sorted(page.rows.at),
    )


def _with_trends(
    rows: list[dict[str, Any]], trend: Callable[[dict[str, Any]], Sparkline | None]
) -> list[dict[str, Any]]:
    """Return the rows of a table, the first of them with their trend."""
    return [
        row | {"spark": trend(row) if place < WITH_TREND else None}
        for place, row in enumerate(rows[:MOST])
    ]


def _by_retries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (-(row["redelivered_tps"] or 0), -(row["retry_lag"] or 0)))


def _kept(page: Page, row: dict[str, Any]) -> Sparkline | None:
    return sparkline(page.points(TOPICS).of(row["cluster"], row["topic"]), ("messages",))


def _retries(page: Page, row: dict[str, Any]) -> Sparkline | None:
    group = row["consumer_group"]
    return sparkline(page.trends.of(row["cluster"], group, retry_topic(group)))


def _sum(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return a sum over groups as a row; a lower bound where a part of it is unknown."""
    known = [row[name] for row in rows if row[name] is not None]
    whole = len(known) == len(rows) and all(row["complete"] for row in rows)
    return {name: sum(known) if known or not rows else None, "complete": whole}


MOST_OBJECTIVES = 500
"""Rows of the table at most; the API gives all of them."""


@router.get("/objectives")
def objectives(page: ThePage, cluster: str = "", q: str = "") -> Response:
    """Show objectives, those with the least budget left first."""
    rows = having(objective_rows(page.rows), cluster=cluster or None)
    rows = least_left_first(
        dict_rows(containing(rows, q, ("consumer_group", "topic", "objective")))
    )
    return page.render(
        "objectives.html",
        objectives=[
            row
            | {
                "left_ratio": row["budget_left"],
                "share": f"{100 * row['target']:.6g} %",
                "window_seconds": 3600 * row["window_hours"],
                "allowed_seconds": 60 * minutes_allowed(row),
                "bad_seconds": 60 * (row["bad_before"] + row["bad"]),
                "unknown_seconds": 60 * (row["unknown_before"] + row["unknown"]),
            }
            for row in rows[:MOST_OBJECTIVES]
        ],
        count=len(rows),
        missed_count=sum(row["budget_left"] < 0 for row in rows),
        burning_count=sum((row["burn_rate_1h"] or 0) > 1 for row in rows),
        q=q,
        cluster=cluster,
        clusters=sorted(page.rows.at),
    )
