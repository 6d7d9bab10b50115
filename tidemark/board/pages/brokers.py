"""Brokers: the list, and one with its numbers over time and the groups that wait on it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter, Depends, Response

from tidemark.board.http_responses import ProblemError
from tidemark.board.newest import until
from tidemark.board.pages.charts import Chart, Line, Mark, chart, marks_of
from tidemark.board.pages.choices import TimeAxis, time_axis
from tidemark.board.pages.incidents import listed
from tidemark.board.pages.layout import Page, ThePage
from tidemark.board.pages.sparklines import sparkline
from tidemark.board.trends import BROKERS, forecasts
from tidemark.board.views.groups import worst_groups
from tidemark.board.views.incidents import incident_rows
from tidemark.board.views.last_known import LAST_KNOWN, with_last_known_of_brokers
from tidemark.board.views.series import Series, series, step_for
from tidemark.lake.bounds import INCOMPLETE
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress, raw
from tidemark.lake.typed_rows import dict_rows
from tidemark.model.consumption import DelaySource

router = APIRouter(include_in_schema=False)

DISK_WARNS, DISK_BAD = 0.75, 0.85
"""Shares of a full disk: RocketMQ deletes early above 0.75 and refuses messages above 0.9."""

FIGURES = ("disk_ratio", "dispatch_behind_bytes", "put_tps", "get_tps")
"""Columns of ``raw.brokers`` that a person on call reads first; each has a line in a chart."""

WAITS = ("send_wait_ms", "page_cache_lock_ms", "replica_behind_bytes")
"""Columns that have a line in a chart where they are known at any instant of it."""

FACTS = (
    *("role", "flush_mode", "version", "address", "booted_at", "retention_hours"),
    *("earliest_stored_at", "clock_skew_ms"),
)
"""Further columns that are shown of every broker."""

KNOWN_FACTS = (
    *("sends_waiting", "send_wait_ms", "page_cache_lock_ms", "failed_writes"),
    *("sends_refused", "sends_failed", "producers_online"),
    *("replica_behind_ms", "replica_behind_bytes"),
    *("light_queues", "light_queue_limit", "lite_subscriptions"),
    *("slave_read_enabled", "offsets_behind", "offsets_missing"),
    *("offsets_late", "offsets_stand", "shut_down_cleanly", "checkpoint_log_at"),
    *("index_behind_bytes",),
)
"""Columns that are shown where they are known: sends, slaves, store folders, 5.x."""

MOST = 50
"""Rows of a table at most; the pages of groups and topics list all."""


def disk_state(row: Mapping[str, Any]) -> str:
    """Return how full a disk is: ``bad``, ``warn``, or empty where it has room or is unknown."""
    share = row["disk_ratio"] or 0
    return "bad" if share >= DISK_BAD else "warn" if share >= DISK_WARNS else ""


def has_responded(row: Mapping[str, Any]) -> bool:
    """Return whether a broker responded in the snapshot of its row."""
    return row["version"] is not None or row["role"] is not None


@router.get("/brokers")
def brokers(page: ThePage) -> Response:
    """Show brokers at the newest snapshot, with dashes where one did not respond."""
    order = [(name, "ascending") for name in ("cluster", "broker", "broker_id")]
    addresses = dict_rows(page.rows.of(raw.BROKERS).sort_by(order))
    addresses = with_last_known_of_brokers(page.view, page.rows, addresses)
    rows = [row | _shown(page, row) for row in sorted(addresses, key=has_responded)]
    slaves = [row for row in rows if row["broker_id"]]
    return page.render(
        "brokers.html",
        rows=rows,
        slaves=slaves,
        unresponsive=sum(not row["is_up"] for row in rows),
        full=[row for row in rows if row["disk"]],
        proxies=[
            proxy | {"cluster": row["cluster"]}
            for row in dict_rows(page.rows.of(raw.SNAPSHOTS).sort_by("cluster"))
            for proxy in row["proxies"] or ()
        ],
    )


def _shown(page: Page, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a broker, and the trends and forecasts of its numbers."""
    points = page.points(BROKERS).of(row["cluster"], row["broker"], row["address"])
    return {
        "disk": disk_state(row),
        "is_up": has_responded(row),
        "sparks": {name: sparkline(points, (name,)) for name in BROKERS.columns},
        "forecasts": forecasts(points, BROKERS),
    }


@router.get("/broker")
def broker(
    page: ThePage,
    cluster: str,
    broker: str,
    axis: Annotated[TimeAxis, Depends(time_axis("6h", longest="30d"))],
    address: str = "",
) -> Response:
    """Show a broker at one of its addresses; without one at that of its master."""
    if cluster not in page.rows.at:
        raise ProblemError(404, f"no cluster {cluster!r}")
    rows = page.rows.of(raw.BROKERS, cluster)
    of_broker = rows.filter(pc.equal(rows["broker"], broker)).sort_by("broker_id")
    addresses = dict_rows(of_broker)
    row = next((row for row in addresses if address in ("", row["address"])), None)
    if row is None:
        where = f" at {address!r}" if address else ""
        raise ProblemError(404, f"no broker {broker!r}{where} in {cluster!r}: /brokers lists them")
    (row,) = with_last_known_of_brokers(page.view, page.rows, [row])
    past = _Past(page, axis.window, row)
    waiting = _waiting(page, cluster, broker)
    unreadable = _unreadable(page, cluster, broker)
    return page.render(
        "broker.html",
        row=row,
        addresses=addresses,
        disk=disk_state(row),
        is_up=has_responded(row),
        responded_at=past.responded_at,
        figures=FIGURES,
        facts_shown=[
            *FACTS,
            *(name for name in KNOWN_FACTS if row[name] is not None or name in row[LAST_KNOWN]),
        ],
        incidents=listed(page, _incidents(page, row)),
        axis=axis,
        charts=past.charts,
        marks=past.marks,
        waiting=worst_groups(waiting, MOST),
        waiting_count=waiting.num_rows,
        unreadable=unreadable[:MOST],
        unreadable_count=len(unreadable),
    )


def _incidents(page: Page, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the open incidents about a broker, or about this address of it."""
    return [
        incident
        for incident in incident_rows(page.rows, "OPEN")
        if incident["cluster"] == row["cluster"]
        and incident["row"].get("broker") == row["broker"]
        and incident["row"].get("address") in (row["address"], None)
        and not incident["row"].get("consumer_group")
    ]


class _Past:
    """A broker over a window.

    Attributes:
        responded_at: when it last responded within the window; None where it never did.
        charts: disk, what is not dispatched, rates; waits of sends, or how far a slave is behind.
        marks: events, changes of incidents and annotations, the newest first.
    """

    def __init__(self, page: Page, window: Window, row: Mapping[str, Any]) -> None:
        equal = {name: row[name] for name in ("cluster", "broker", "address")}
        names = ("cluster", "version", "role", *FIGURES, *WAITS)
        rows = page.view.rows_between(raw.BROKERS, window, equal, names)
        rows = until(rows, page.rows.at)
        known = rows.filter(pc.or_(pc.is_valid(rows["version"]), pc.is_valid(rows["role"])))
        self.responded_at = pc.max(known["observed_at"]).as_py()
        step = step_for(window, rows.num_rows)
        past: Series = series(rows, "observed_at", (*FIGURES, *WAITS), step)
        values = past.last if step is None else past.maximum
        self.marks: list[Mark] = marks_of(
            page.view,
            page.rows,
            window,
            row["cluster"],
            lambda entry: entry.broker == row["broker"],
            page.words,
            {},
        )

        def drawn(title: str, unit: str, *names: str, top: float | None = None) -> Chart:
            lines = [
                Line(name=name, values=values[name], kind=kind)
                for name, kind in zip(names, ("a", "b"), strict=False)
            ]
            return chart(title, window, past.instants, lines, unit, self.marks, top=top)

        self.charts = [
            drawn("Disk", "share", "disk_ratio", top=1.0),
            drawn("Not in the consume queues yet", "bytes", "dispatch_behind_bytes"),
            drawn("Rates", "rate", "put_tps", "get_tps"),
            *(
                drawn(title, unit, *names)
                for title, unit, *names in (
                    ("Waits of sends", "ms", "send_wait_ms", "page_cache_lock_ms"),
                    ("Behind its master", "bytes", "replica_behind_bytes"),
                )
                if any(value is not None for name in names for value in values[name])
            ),
        ]


def _waiting(page: Page, cluster: str, broker: str) -> pa.Table:
    """Return a row per group and topic with unconsumed messages on a broker, or an unknown lag.

    Returns:
        ``cluster``, ``consumer_group``, ``topic``, ``health`` of all its queues, and of its queues
        on this broker ``queues``, ``lag`` and ``delay_ms`` with their marks of bounds.
    """
    rows = page.rows.of(progress.QUEUES, cluster)
    rows = rows.filter(pc.equal(rows["broker"], broker))
    is_least = pc.equal(rows["delay_source"], DelaySource.AT_LEAST.value)
    rows = rows.append_column("delay_is_lower_bound", is_least)
    key = ["cluster", "consumer_group", "topic"]
    marks = ("lag_is_lower_bound", "delay_is_lower_bound")
    sums = rows.group_by(key).aggregate(
        [("queue_id", "count"), ("lag", "count"), ("lag", "sum"), ("delay_ms", "max"),
         *((mark, "max") for mark in marks)]
    )  # fmt: skip
    result = pa.table(
        {name: sums[name] for name in key}
        | {mark: sums[f"{mark}_max"] for mark in marks}
        | {
            "queues": sums["queue_id_count"],
            "lag": sums["lag_sum"],
            "delay_ms": sums["delay_ms_max"],
        }
        | {INCOMPLETE: pc.subtract(sums["queue_id_count"], sums["lag_count"])}
    )
    waits = pc.or_(
        pc.not_equal(pc.fill_null(result["lag"], 1), 0), pc.greater(result[INCOMPLETE], 0)
    )
    result = _joinable(result, result.column_names)
    groups = _joinable(page.rows.of(progress.GROUPS, cluster), [*key, "health"])
    return result.filter(waits).join(groups, keys=key, join_type="left outer")


def _unreadable(page: Page, cluster: str, broker: str) -> list[dict[str, Any]]:
    """Return the topics of a broker that hold messages which nobody can read, the most first."""
    configured = page.rows.of(raw.TOPICS, cluster)
    configured = configured.filter(pc.equal(configured["broker"], broker))
    topics = page.rows.of(progress.TOPICS, cluster)
    topics = _joinable(
        topics.filter(pc.greater(topics["unreadable_messages"], 0)),
        ["cluster", "topic", "unreadable_messages", "unreadable_reason", "complete"],
    )
    settings = _joinable(configured, ["topic", "read_queues", "write_queues", "perm"])
    rows = dict_rows(topics.join(settings, keys="topic", join_type="inner"))
    return sorted(rows, key=lambda row: (-row["unreadable_messages"], row["topic"]))


def _joinable(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return columns with one type of text, without which Arrow joins none: readers give two."""
    return pa.table(
        {
            name: rows[name].cast(pa.string())
            if pa.types.is_large_string(rows[name].type)
            else rows[name]
            for name in names
        }
    )
