"""Groups: a table of thousands that filters and sorts at once, and one group with its past."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from board.api.events import event_rows
from board.api.group import group_details, history_of
from board.api.groups import HEALTH
from board.dependencies import instant_of
from board.incident_rows import incident_rows
from board.pages.charts import Chart, Line, Mark, chart
from board.pages.layout import Page, ThePage
from board.pages.wording import milliseconds, number
from board.paging import Order, containing, having
from board.paging import page as page_of
from board.past import rows_between
from board.responses import ProblemError
from board.series import Series
from lake.tables import progress
from lake.window import MICROSECOND, Window

router = APIRouter(include_in_schema=False)

SHOWN = 100
RANGES = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "90d": timedelta(days=90),
}
COLUMNS = (
    "lag",
    "delay_ms",
    "inflight",
    "produce_tps",
    "consume_tps",
    "drain_seconds",
    "loss_in_seconds",
    "clients",
)
"""Columns of the table of groups after cluster, group, topic and health."""

DRAWN = ("lag", "readable_lag", "delay_ms", "produce_tps", "consume_tps")

RATES = (("produce_tps", "a"), ("consume_tps", "b"))

BAND_WITHIN = timedelta(days=1)
"""Errors of delays stand with queues, whose rows are many: they are drawn over so long a time."""


@router.get("/groups")
def groups(
    page: ThePage,
    cluster: str = "",
    q: str = "",
    health: str = "",
    topic: str = "",
    sort: str = "-lag",
    cursor: str = "",
) -> Response:
    """Show the newest rows of groups, filtered and sorted."""
    order = Order.of(sort, progress.GROUPS)
    rows = page.rows.of(progress.GROUPS)
    rows = having(rows, cluster=cluster or None, health=health or None, topic=topic or None)
    rows = containing(rows, q, ("consumer_group", "topic"))
    found, following = page_of(rows, progress.GROUPS, order, SHOWN, cursor or None)
    wanted = {"cluster": cluster, "q": q, "health": health, "topic": topic}
    return page.render(
        "groups.html",
        rows=found.to_pylist(),
        count=rows.num_rows,
        following=following,
        columns=COLUMNS,
        order=order,
        sort=sort,
        wanted=wanted,
        clusters=sorted(page.rows.at),
        states=HEALTH,
    )


@router.get("/group")
def group(
    page: ThePage,
    cluster: str,
    group: str,
    topic: str = "",
    range: Annotated[str, Query()] = "1h",
) -> Response:
    """Show one group: its numbers, its past on one time axis, queues, members and capacity."""
    if range not in RANGES:
        raise ProblemError(400, f"range={range!r}: it is one of {', '.join(RANGES)}")
    if cluster not in page.rows.at:
        raise ProblemError(404, f"no cluster {cluster!r}")
    details = group_details(page.rows, cluster, group)
    topics = [row["topic"] for row in details["topics"]]
    chosen = topic or _default_topic(details["topics"])
    if chosen not in topics:
        raise ProblemError(404, f"{group!r} has nothing on topic {chosen!r}")
    charts = _charts(page, cluster, group, chosen, RANGES[range])
    queues = [row for row in details["queues"] if row["topic"] == chosen]
    most = max((row["lag"] or 0 for row in queues), default=0)
    return page.render(
        "group.html",
        **details | {"queues": queues, "topics": details["topics"]},
        row=next(row for row in details["topics"] if row["topic"] == chosen),
        topic=chosen,
        range=range,
        ranges=tuple(RANGES),
        charts=charts,
        heat=[(row, _heat(row["lag"], most)) for row in queues],
        wrong=[
            row
            for row in details["assignments"]
            if row["topic"] == chosen and row["state"] not in ("OK", None)
        ],
        capacity_row=next((row for row in details["capacity"] if row["topic"] == chosen), None),
    )


def _default_topic(rows: list[dict[str, Any]]) -> str:
    """Return the topic with the largest lag that is not a retry topic, if there is one."""
    worst = sorted(rows, key=lambda row: (row["topic"].startswith("%"), -(row["lag"] or 0)))
    return worst[0]["topic"]


def _heat(lag: int | None, most: int) -> str:
    """Return the class of a queue in the strip: unknown, or how much of the worst lag it has."""
    if lag is None:
        return "unknown"
    return f"h{min(5, -(-5 * lag // most))}" if lag > 0 and most else "h0"


def _charts(page: Page, cluster: str, group: str, topic: str, span: timedelta) -> list[Chart]:
    end = instant_of("at", page.at) if page.at else max(page.rows.at[cluster], datetime.now(UTC))
    window = Window(end - span, end + MICROSECOND)
    past: Series = history_of(page.store, window, cluster, group, topic, DRAWN, None)
    values = past.last if past.step is None else past.maximum
    marks = _marks(page, window, cluster, group, topic)
    delays = values["delay_ms"]
    band = None
    if span <= BAND_WITHIN and past.step is None:
        band = _band(page, window, cluster, group, topic, past)

    def rate(value: float | None) -> str:
        return f"{number(value, 1)}/s" if value is not None else number(value)

    return [
        chart(
            "Lag",
            window,
            past.instants,
            [Line("lag", values["lag"]), Line("readable_lag", values["readable_lag"], "b")],
            number,
            marks,
        ),
        chart(
            "Delay", window, past.instants, [Line("delay_ms", delays)], milliseconds, marks, band,
            is_time=True,
        ),
        chart(
            "Rates",
            window,
            past.instants,
            [Line(name, values[name], kind) for name, kind in RATES],
            rate,
            marks,
        ),
    ]  # fmt: skip


def _band(
    page: Page, window: Window, cluster: str, group: str, topic: str, past: Series
) -> tuple[list[float | None], list[float | None]]:
    """Return the least and largest delay per point, by the error of the most delayed queue."""
    equal = {"cluster": cluster, "consumer_group": group, "topic": topic}
    names = ("delay_ms", "delay_error_ms")
    rows = rows_between(page.store.lake, progress.QUEUES, window, equal, names).to_pylist()
    errors: dict[datetime, tuple[float, float | None]] = {}
    for row in rows:
        delay = row["delay_ms"]
        if delay is not None and delay >= errors.get(row["observed_at"], (-1.0, None))[0]:
            errors[row["observed_at"]] = (delay, row["delay_error_ms"])
    low: list[float | None] = []
    high: list[float | None] = []
    for at, delay in zip(past.instants, past.last["delay_ms"], strict=True):
        error = errors.get(at, (0.0, None))[1]
        if delay is None or error is None:
            low.append(None)
            high.append(None)
        else:
            low.append(max(0.0, delay - error))
            high.append(delay + error)
    return low, high


def _marks(page: Page, window: Window, cluster: str, group: str, topic: str) -> list[Mark]:
    events = event_rows(page.store, window, cluster=cluster).to_pylist()
    happened = {
        (row["observed_at"], row["kind"])
        for row in events
        if row["consumer_group"] in (group, None) and row["topic"] in (topic, None)
    }
    found = [Mark(at, kind, "event") for at, kind in sorted(happened)]
    for row in incident_rows(page.rows):
        if row["cluster"] == cluster and row["row"].get("consumer_group") == group:
            where = page.url("/incident", id=row["incident_id"])
            if row["fired_at"]:
                found.append(Mark(row["fired_at"], f"{row['rule']} fired", "fired", where))
            if row["resolved_at"]:
                found.append(Mark(row["resolved_at"], f"{row['rule']} resolved", "done", where))
    return found
