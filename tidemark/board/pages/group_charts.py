"""The charts of a group: lag, delay and rates, with events and incidents on the same time axis."""

from collections.abc import Callable, Iterable
from typing import Any

from tidemark.board.api.events import event_rows
from tidemark.board.api.group import history_of
from tidemark.board.group_copies import COLUMNS, ERROR
from tidemark.board.group_history import Series
from tidemark.board.incident_rows import incident_rows
from tidemark.board.pages.charts import Chart, Line, Mark, chart
from tidemark.board.past import Shown
from tidemark.board.store import Store
from tidemark.lake.bounds import bound_of
from tidemark.lake.clocks import Window

DRAWN = (*COLUMNS, ERROR)


class GroupCharts:
    """The past of a group on a topic, over a window.

    Attributes:
        charts: lag, delay, rates.
        marks: events and incidents in the window, the newest first.
    """

    def __init__(
        self,
        store: Store,
        rows: Shown,
        window: Window,
        cluster: str,
        group: str,
        topic: str,
        incident_address: Callable[[str], str],
    ) -> None:
        """Read the rows of the charts.

        Args:
            store: the tables.
            rows: the shown rows, which contain the incidents.
            window: the time axis.
            cluster: the cluster.
            group: the group.
            topic: the topic.
            incident_address: gives the address of the page of an incident's id.

        Raises:
            DamagedError: a file of a table is missing or damaged.
        """
        past: Series = history_of(store, rows, window, cluster, group, topic, DRAWN, None)
        values = past.last if past.step is None else past.maximum
        events = event_rows(store, rows, window, cluster=cluster).to_pylist()
        marks = [
            *_events(events, group, topic),
            *_incidents(incident_rows(rows), cluster, group, topic, incident_address),
        ]
        self.marks = sorted((m for m in marks if m.at in window), key=lambda m: m.at, reverse=True)
        delays, errors = values["delay_ms"], values[ERROR]
        band = None
        if any(error is not None for error in errors):
            band = _band(delays, errors)
        points = [{name: values[name][n] for name in DRAWN} for n in range(len(past.instants))]

        def line(name: str, kind: str = "a") -> Line:
            bounds = [bound_of(name, point) for point in points]
            return Line(name, values[name], kind, bounds)

        lags = [line("lag")]
        if values["readable_lag"] != values["lag"]:
            lags.append(line("readable_lag", "b"))
        rates = [line("produce_tps"), line("consume_tps", "b")]

        def drawn(title: str, lines: list[Line], unit: str, **more: Any) -> Chart:
            return chart(title, window, past.instants, lines, unit, self.marks, **more)

        self.charts = [
            drawn("Lag", lags, "number"),
            drawn("Delay", [line("delay_ms")], "ms", band=band),
            drawn("Rates", rates, "rate"),
        ]


def _events(rows: Iterable[dict[str, Any]], group: str, topic: str) -> list[Mark]:
    """Return a mark for each instant and kind of event, of however many queues."""
    happened = {
        (row["observed_at"], row["kind"])
        for row in rows
        if row["consumer_group"] in (group, None) and row["topic"] in (topic, None)
    }
    return [Mark(at, kind, "event") for at, kind in happened]


def _incidents(
    rows: Iterable[dict[str, Any]],
    cluster: str,
    group: str,
    topic: str,
    incident_address: Callable[[str], str],
) -> list[Mark]:
    incidents = []
    for row in rows:
        of = row["row"]
        if row["cluster"] != cluster or of.get("consumer_group") != group:
            continue
        if of.get("topic") not in (topic, None):
            continue
        where = incident_address(row["incident_id"])
        incidents.append(Mark(row["fired_at"] or row["opened_at"], row["rule"], "fired", where))
        if row["resolved_at"]:
            incidents.append(Mark(row["resolved_at"], row["rule"], "done", where))
    return incidents


def _band(
    delays: Iterable[float | None], errors: Iterable[float | None]
) -> tuple[list[float | None], list[float | None]]:
    """Return the least and largest delay per point."""
    low: list[float | None] = []
    high: list[float | None] = []
    for delay, error in zip(delays, errors, strict=True):
        if delay is None or error is None:
            low.append(None)
            high.append(None)
        else:
            low.append(max(0.0, delay - error))
            high.append(delay + error)
    return low, high
