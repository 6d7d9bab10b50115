"""Topics, brokers, events and quality: one table each, in the same manner."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Response

from board.api.events import event_rows, newest_results
from board.pages.layout import ThePage
from board.paging import containing, having
from board.responses import ProblemError
from board.topic_rows import topic_details, topic_rows
from lake.landing import Landed, aside
from lake.landing_places import Landing
from lake.tables import quality, raw
from lake.typed_rows import dict_rows
from lake.window import MICROSECOND, Window
from rocketmq.names import TopicKind

router = APIRouter(include_in_schema=False)

MOST = 500
"""Rows of a table at most; the API gives all of them."""


@router.get("/topics")
def topics(page: ThePage, cluster: str = "", q: str = "") -> Response:
    """Show topics, those of users first."""
    rows = containing(having(topic_rows(page.rows), cluster=cluster or None), q, ("topic",))
    found = sorted(dict_rows(rows), key=_users_first)
    columns = ("cluster", "topic", "kind", "message_type", "messages", "unreadable_messages",
               "produce_tps", "groups", "lag", "newest_stored_at")  # fmt: skip
    return page.render("table.html", title="Topics", columns=columns, rows=found[:MOST],
                       count=len(found), q=q, filters=True, quarantined=0,
                       ahead=(), aside=())  # fmt: skip


def _users_first(row: dict[str, Any]) -> tuple[bool, bool, str]:
    """Return the order of topics: those of users, those that groups have, those of RocketMQ."""
    return row["kind"] == TopicKind.SYSTEM, row["kind"] != TopicKind.NORMAL, row["topic"]


@router.get("/topic")
def topic(page: ThePage, cluster: str, topic: str) -> Response:
    """Show a topic: its queues, and the groups that consume it."""
    if cluster not in page.rows.at:
        raise ProblemError(404, f"no cluster {cluster!r}")
    return page.render("topic.html", **topic_details(page.rows, cluster, topic))


@router.get("/brokers")
def brokers(page: ThePage) -> Response:
    """Show brokers at the newest snapshot, with dashes where one did not respond."""
    columns = ("cluster", "broker", "broker_id", "address", "role", "flush_mode", "version",
               "put_tps", "get_tps", "disk_ratio", "dispatch_behind_bytes", "retention_hours",
               "booted_at")  # fmt: skip
    rows = page.rows.of(raw.BROKERS).sort_by([("cluster", "ascending"), ("broker", "ascending")])
    return page.render("table.html", title="Brokers", columns=columns, rows=dict_rows(rows),
                       count=rows.num_rows, q="", filters=False, quarantined=0,
                       ahead=(), aside=())  # fmt: skip


@router.get("/events")
def events(page: ThePage, hours: int = 24) -> Response:
    """Show events of queues and brokers, newest first."""
    if not 1 <= hours <= 24 * 90:
        raise ProblemError(400, "hours: 1 to 2160 is wanted")
    end = page.instant or datetime.now(UTC)
    window = Window(end - timedelta(hours=hours), end + MICROSECOND)
    rows = event_rows(page.store, page.rows, window).sort_by([("observed_at", "descending")])
    columns = ("observed_at", "kind", "cluster", "broker", "consumer_group", "topic", "queue_id",
               "from_offset", "to_offset", "messages", "likely_cause")  # fmt: skip
    return page.render("table.html", title="Events", columns=columns,
                       rows=dict_rows(rows.slice(0, MOST)), count=rows.num_rows, q="",
                       filters=False, quarantined=0,
                       ahead=(), aside=())  # fmt: skip


@router.get("/quality")
def results(page: ThePage) -> Response:
    """Show the newest result of every expectation, those not met first."""
    rows: list[dict[str, Any]] = dict_rows(newest_results(page.rows))
    rows.sort(key=lambda row: (row["success"] is not False, row["table"], row["expectation"]))
    columns = ("table", "expectation", "success", "unexpected", "elements", "severity",
               "observed_at")  # fmt: skip
    return page.render("table.html", title="Quality", columns=columns, rows=rows[:MOST],
                       count=len(rows), q="", filters=False,
                       quarantined=page.rows.of(quality.QUARANTINE).num_rows,
                       ahead=page.store.ahead(datetime.now(UTC)),
                       aside=_aside(page.store.lake.landing))  # fmt: skip


def _aside(place: Landing) -> list[Landed]:
    """Return the snapshots of wrong clocks; none where the landing cannot be read just now."""
    with suppress(OSError):
        return aside(place)
    return []
