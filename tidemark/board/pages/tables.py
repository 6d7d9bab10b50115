"""Topics, brokers and events."""

from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

import pyarrow.compute as pc
from fastapi import APIRouter, Depends, Response

from tidemark.board.http_responses import ProblemError
from tidemark.board.newest import until
from tidemark.board.pages.charts import Chart, Line, Mark, chart, marks_of
from tidemark.board.pages.choices import TimeAxis, time_axis
from tidemark.board.pages.layout import Page, ThePage
from tidemark.board.pages.sparklines import Sparkline, sparkline
from tidemark.board.pages.timeline import Entry, happened, of_notes
from tidemark.board.trends import TOPICS
from tidemark.board.views.clusters import producer_rows, topic_details, topic_rows
from tidemark.board.views.groups import WORST_FIRST
from tidemark.board.views.incidents import event_rows, incident_rows
from tidemark.board.views.parameters import containing, having, page_of_list
from tidemark.board.views.series import series, step_for
from tidemark.lake.bounds import bound_of
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.tables import progress
from tidemark.lake.typed_rows import dict_rows
from tidemark.model.health import Health
from tidemark.rocketmq.names import OWN_TOPICS, TopicKind

router = APIRouter(include_in_schema=False)

MOST = 200
"""Rows of a table at most, as more take a second to draw; the API gives all of them."""

WITH_TREND = 100
"""Rows of a list that have a trend; to draw more takes longer than all else of the page."""

SPANS = (1, 6, 24, 24 * 7, 24 * 30)
"""Hours that the page of events offers."""

OF_USERS = (TopicKind.NORMAL, TopicKind.LMQ, None)
"""Kinds of topics that people made; None where no broker reports one."""


@router.get("/topics")
def topics(page: ThePage, cluster: str = "", q: str = "", cursor: str = "") -> Response:
    """Show topics of users by pages, then the first of those of RocketMQ and of its groups.

    Topics with messages that nobody can read precede the others, then the largest lag does.
    """
    rows = containing(having(topic_rows(page.rows), cluster=cluster or None), q, ("topic",))
    result = sorted(dict_rows(rows), key=_worst_of_topics)
    of_users = [row for row in result if _is_of_users(row)]
    own = [row for row in result if not _is_of_users(row)]
    by_name = [row | {"name": f"{row['cluster']}/{row['topic']}"} for row in of_users]
    listed, following = page_of_list(by_name, "name", MOST, cursor or None)
    columns = ("lag", "produce_tps", "messages", "unreadable_messages", "groups")
    return page.render(
        "topics.html",
        columns=columns,
        rows=[
            row | {"spark": _written(page, row) if place < WITH_TREND else None}
            for place, row in enumerate(listed)
        ],
        count=len(of_users),
        following=following,
        wanted={"cluster": cluster, "q": q},
        own=sorted(own, key=lambda row: (row["kind"] or "", row["topic"]))[:MOST],
        own_count=len(own),
        several=len(page.rows.at) > 1,
        q=q,
    )


def _is_of_users(row: dict[str, Any]) -> bool:
    """Return whether people made a topic; where no broker reports its kind, its name shows it."""
    return row["kind"] in OF_USERS and not row["topic"].startswith(OWN_TOPICS)


def _worst_of_topics(row: dict[str, Any]) -> tuple[bool, int, str]:
    return not row["unreadable_messages"], -(row["lag"] or 0), row["topic"]


def _written(page: Page, row: dict[str, Any]) -> Sparkline | None:
    """Return the trend of the messages written to a topic a second."""
    return sparkline(page.points(TOPICS).of(row["cluster"], row["topic"]), ("produce_tps",))


@router.get("/topic")
def topic(
    page: ThePage,
    cluster: str,
    topic: str,
    axis: Annotated[TimeAxis, Depends(time_axis("6h", longest="30d"))],
) -> Response:
    """Show a topic: its queues, and the groups that consume it."""
    if cluster not in page.rows.at:
        raise ProblemError(404, f"no cluster {cluster!r}")
    details = topic_details(page.rows, cluster, topic)
    groups = [
        row | {"spark": sparkline(page.trends.of(cluster, row["consumer_group"], topic))}
        for row in sorted(
            details["groups"],
            key=lambda row: (
                WORST_FIRST.index(row["health"] or Health.UNKNOWN),
                -(row["delay_ms"] or 0),
            ),
        )
    ]
    rates = _rates(page, cluster, topic)
    queues = [
        row | {"produce_tps": rates.get((row["broker"], row["queue_id"]))}
        for row in details["queues"]
    ]
    producers = producer_rows(page.view, page.rows, cluster, topic)
    drawn, marks = _produced(page, axis.window, cluster, topic)
    return page.render(
        "topic.html",
        **details | {"groups": groups, "queues": queues},
        axis=axis,
        drawn=drawn,
        marks=marks,
        producers=producers and producers[:MOST],
        producer_count=len(producers or ()),
    )


def _rates(page: Page, cluster: str, topic: str) -> dict[tuple[str, int], float]:
    """Return the messages written a second to each queue, as far as a group's progress shows it."""
    rows = page.rows.of(progress.QUEUES, cluster)
    rows = rows.filter(pc.equal(rows["topic"], topic))
    names = ("broker", "queue_id", "produce_tps")
    return {
        (row["broker"], row["queue_id"]): row["produce_tps"]
        for row in rows.select(names).to_pylist()
        if row["produce_tps"] is not None
    }


def _produced(page: Page, window: Window, cluster: str, topic: str) -> tuple[Chart, list[Mark]]:
    """Return the chart of the messages written to a topic, and the marks of its time axis."""
    names = ("produce_tps", "complete")
    of_topic = {"cluster": cluster, "topic": topic}
    rows = page.view.rows_between(progress.TOPICS, window, of_topic, ("cluster", *names))
    rows = until(rows, page.rows.at)
    rows = rows.append_column("partial", pc.invert(rows["complete"]))
    step = step_for(window, rows.num_rows)
    past = series(rows, "observed_at", ("produce_tps", "partial"), step)
    values = past.maximum["produce_tps"]
    # A point of several observations is a bound where one of them is.
    bounds = [
        bound_of("produce_tps", {"produce_tps": value, "complete": not partial})
        for value, partial in zip(values, past.maximum["partial"], strict=True)
    ]
    lines = [Line(name="produce_tps", values=values, kind="a", bounds=bounds)]

    def is_about(entry: Entry) -> bool:
        is_of_topic = entry.topic == topic or (entry.kind == "event" and not entry.topic)
        return is_of_topic and not (entry.group and not entry.topic)

    words = replace(page.words, names_groups=True)
    marks = marks_of(
        page.view,
        page.rows,
        window,
        cluster,
        is_about,
        words,
        {"topic": topic},
    )
    return chart("Rates", window, past.instants, lines, "rate", marks), marks


@router.get("/events")
def events(page: ThePage, hours: int = 24) -> Response:
    """Show events, changes of health and transitions of incidents, newest first."""
    if not 1 <= hours <= 24 * 90:
        raise ProblemError(400, "hours: 1 to 2160 is wanted")
    window = Window(page.end - timedelta(hours=hours), page.end + MICROSECOND)
    health = page.view.health_changes(page.rows, window)
    changes = health.newest(MOST)
    entries = happened(
        window,
        events=event_rows(page.view, page.rows, window).to_pylist(),
        changes=changes,
        incidents=incident_rows(page.rows),
        notes=of_notes(page.view),
    )
    shown = [replace(entry, dated=True) for entry in entries[:MOST]]
    return page.render(
        "events.html",
        entries=shown,
        # Changes of health beyond those that the page may show are not made into entries.
        count=len(entries) + health.rows.num_rows - len(changes),
        unread=sum((gap.end - gap.start).total_seconds() for gap in health.missing),
        hours=hours,
        spans=SPANS,
    )
