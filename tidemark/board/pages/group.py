"""One group: its numbers, its past on one time axis, queues, members and capacity."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from tidemark.board.pages.charts import GroupCharts
from tidemark.board.pages.incidents import listed
from tidemark.board.pages.layout import ThePage
from tidemark.board.pages.time_axis import TimeAxis, time_axis
from tidemark.board.pages.why import owned_queues, why_of_group
from tidemark.board.responses import ProblemError
from tidemark.board.views.groups import group_details
from tidemark.board.views.last_known import LAST_KNOWN, with_last_known
from tidemark.lake.bounds import MARKS
from tidemark.model.consumers import AssignmentState
from tidemark.rocketmq.allocation import STRATEGIES
from tidemark.rocketmq.names import DLQ_PREFIX, OWN_TOPICS
from tidemark.rocketmq.snapshot.online import speaks_grpc

router = APIRouter(include_in_schema=False)

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
