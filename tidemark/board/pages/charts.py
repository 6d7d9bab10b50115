"""Charts of groups, as shapes on a plane of `WIDTH` by `HEIGHT`; a template draws them.

A browser with JavaScript draws the same numbers with uPlot, so that a pointer reads them.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from tidemark.alerting.delivery.messages import Phrase
from tidemark.board.group_history import COLUMNS, ERROR
from tidemark.board.pages.timeline import Entry, happened, of_notes
from tidemark.board.pages.wording import milliseconds, number, share, size
from tidemark.board.views.incidents import event_rows, incident_rows
from tidemark.board.views.series import Series, history_of
from tidemark.board.views.view import Shown, View
from tidemark.lake.bounds import Bound, bound_of, marked
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.tables import progress
from tidemark.model.incidents import IncidentState

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 920, 190, 64, 22, 12

STEPS = (60, 300, 600, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 259_200, 864_000)
"""Seconds between two marks of the time axis."""

MOST_CHANGES = 300
"""Newest changes of health that a chart marks; a group may change every minute."""

TIMES = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 43_200)
"""Seconds at which an axis of durations may end, besides whole days."""

LARGEST_ERROR = 1.25
"""Share of the largest value up to which the area of error may raise the value axis."""

USUAL_MOST = 2.0
"""The same of the usual range. A line at 0 has no height that the range could take from it."""

USUAL_WITHIN = timedelta(days=2)
"""Longest window with usual ranges: each of its hours is in a file of its own, which takes 1 ms."""

MARKS = 8
"""Marks of the time axis at most."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line: its name, and a value per instant, None where it is unknown.

    Attributes:
        name: its name.
        values: a value per instant.
        kind: its colour, ``a`` or ``b``.
        bounds: the kind of bound of each value; empty where all are exact.
    """

    name: str
    values: Sequence[float | None]
    kind: str = "a"
    bounds: Sequence[Bound | None] = ()

    @property
    def has_bounds(self) -> bool:
        """Whether a value is a bound."""
        return any(self.bounds)

    @property
    def exact(self) -> list[float | None]:
        """The values without the bounds: a line is drawn between two of them."""
        return [None if self._is_bound(n) else value for n, value in enumerate(self.values)]

    @property
    def bounded(self) -> list[float | None]:
        """The bounds with the values next to them: between two of these a line is dashed."""
        return [
            value if any(map(self._is_bound, (n - 1, n, n + 1))) else None
            for n, value in enumerate(self.values)
        ]

    def newest(self, text: Callable[[float | None], str]) -> str:
        """Return the last value as a text, with its mark."""
        if not self.values:
            return text(None)
        return marked(text(self.values[-1]), self.bounds[-1] if self.bounds else None)

    def _is_bound(self, place: int) -> bool:
        return 0 <= place < len(self.bounds) and self.bounds[place] is not None


@dataclass(frozen=True, kw_only=True)
class Usual:
    """The usual range of an hour, with which rules of kind `unusual` compare.

    Attributes:
        hour: its start.
        low: the lower end.
        high: the upper end.
    """

    hour: datetime
    low: float
    high: float

    @property
    def end(self) -> datetime:
        """The end of the hour."""
        return self.hour + HOUR

    def range(self, text: Callable[[float | None], str]) -> str:
        """Return both ends as a text."""
        return " – ".join(dict.fromkeys((text(self.low), text(self.high))))


@dataclass(frozen=True, kw_only=True)
class Mark:
    """An event to mark on the time axis of a chart."""

    at: datetime
    title: str
    kind: str
    address: str = ""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart as lines, areas and texts that a template draws.

    Attributes:
        title: its title.
        unit: of its values.
        paths: kind, name, newest value as text, and the path of a line.
        dashed: kind and path of the parts of a line that are bounds.
        points: kind, x and y of observations between two gaps, which no line shows.
        band: path of the area of error; empty without.
        usual: x, y, width and height of the usual range of an hour, its start, and both its ends as
            text; no row where they are unknown.
        usual_newest: both ends at the newest value, as text; empty without `usual`.
        rows: y and text of the value axis.
        columns: x and text of the time axis.
        marks: x, kind, title and address of events.
        data: the same as numbers, JSON, for a browser that draws by itself.
        is_empty: whether no value is known.
    """

    title: str
    unit: str = "number"
    paths: list[tuple[str, str, str, str]] = field(default_factory=list)
    dashed: list[tuple[str, str]] = field(default_factory=list)
    points: list[tuple[str, float, float]] = field(default_factory=list)
    band: str = ""
    usual: list[tuple[float, float, float, float, datetime, str]] = field(default_factory=list)
    usual_newest: str = ""
    rows: list[tuple[float, str]] = field(default_factory=list)
    columns: list[tuple[float, str]] = field(default_factory=list)
    marks: list[tuple[float, str, str, str]] = field(default_factory=list)
    data: str = ""
    is_empty: bool = False


@dataclass(frozen=True)
class _Axes:
    """The place of an instant and a value in the picture, from 0 to the largest drawn value."""

    window: Window
    top: float

    def x(self, at: datetime) -> float:
        span = (self.window.end - self.window.start).total_seconds()
        return round(LEFT + (WIDTH - LEFT) * (at - self.window.start).total_seconds() / span, 1)

    def y(self, value: float) -> float:
        inside = min(max(0.0, value), self.top)
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * inside / self.top, 1)


def chart(
    title: str,
    window: Window,
    instants: Sequence[datetime],
    lines: Sequence[Line],
    unit: str = "number",
    marks: Sequence[Mark] = (),
    band: tuple[Sequence[float | None], Sequence[float | None]] | None = None,
    usual: Sequence[Usual] = (),
    top: float | None = None,
) -> Chart:
    """Return the chart of lines over a window.

    Args:
        title: its title.
        window: the time axis.
        instants: of the values, in order.
        lines: the lines, which are interrupted where a value is None.
        unit: ``number``, ``rate`` (a second), ``ms``, ``bytes`` or ``share``.
        marks: events on the same axis.
        band: least and largest value per instant, of the first line.
        usual: the usual ranges of hours of the window.
        top: the end of the value axis; by the largest value without one.
    """
    text = _TEXTS[unit]
    known = [value for line in lines for value in line.values if value is not None]
    most = max(known, default=0)
    # An error that is larger than all values would squash their line to the floor.
    errors = [value for value in (band[1] if band else ()) if value is not None]
    highest = max((item.high for item in usual), default=0)
    most = max(
        most,
        min(max(errors, default=0), most * LARGEST_ERROR),
        min(highest, most * USUAL_MOST) if most else highest,
    )
    top = top or (_round_up_time(most) if unit == "ms" else _round_up(most))
    axes = _Axes(window, top)
    x, y = axes.x, axes.y
    drawn = [(line, parts_of(instants, line.exact)) for line in lines]
    bounded = [(line, parts_of(instants, line.bounded)) for line in lines if line.has_bounds]
    paths = [(line.kind, line.name, line.newest(text), _path(parts, x, y)) for line, parts in drawn]
    points = [
        (kind, x(part[0][0]), y(part[0][1]))
        for kind, parts in [
            *((line.kind, parts) for line, parts in drawn),
            *((f"{line.kind} bound", parts) for line, parts in bounded),
        ]
        for part in parts
        if len(part) == 1
    ]
    rows = [(top * part / 4, text(top * part / 4)) for part in (0, 2, 4)]
    columns = _times(window)
    marks = [mark for mark in marks if mark.at in window]
    ranges = [(item, item.range(text)) for item in usual]
    newest = [item for item in usual if instants and item.hour <= instants[-1] < item.end]
    return Chart(
        title=title,
        unit=unit,
        paths=paths,
        dashed=[(line.kind, _path(parts, x, y)) for line, parts in bounded],
        points=points,
        band=_band(instants, band, x, y) if band else "",
        usual=[_usual(item, axes, text) for item in usual if item.low <= top],
        usual_newest=(newest[0].range(text) if newest else text(None)) if usual else "",
        rows=[(y(value), label) for value, label in rows],
        columns=[(x(at), label) for at, label in columns],
        marks=[(x(mark.at), mark.kind, mark.title, mark.address) for mark in marks],
        data=_data(window, instants, lines, marks, band, ranges, rows, columns) if known else "",
        is_empty=not known,
    )


def _data(
    window: Window,
    instants: Sequence[datetime],
    lines: Sequence[Line],
    marks: Sequence[Mark],
    band: tuple[Sequence[float | None], Sequence[float | None]] | None,
    usual: Sequence[tuple[Usual, str]],
    rows: Sequence[tuple[float, str]],
    columns: Sequence[tuple[datetime, str]],
) -> str:
    """Return the arguments of `chart` as JSON, instants as seconds since 1970."""
    values = [line.values for line in lines] + list(band or ())
    content = {
        "from": round(window.start.timestamp()),
        "to": round(window.end.timestamp()),
        "at": [round(at.timestamp()) for at in instants],
        "kinds": [line.kind for line in lines] + ["low", "high"][: len(band or ())],
        "values": [
            [None if v is None else float(f"{v:.6g}") for v in numbers] for numbers in values
        ],
        "bounds": [
            [bound.mark if bound else "" for bound in line.bounds] if line.has_bounds else None
            for line in lines
        ],
        "usual": [
            (round(item.hour.timestamp()), round(item.end.timestamp()), item.low, item.high, text)
            for item, text in usual
        ],
        "rows": rows,
        "columns": [(round(at.timestamp()), label) for at, label in columns],
        "marks": [(round(mark.at.timestamp()), mark.kind, mark.title) for mark in marks],
    }
    return json.dumps(content, separators=(",", ":"))


def _usual(
    usual: Usual, axes: _Axes, text: Callable[[float | None], str]
) -> tuple[float, float, float, float, datetime, str]:
    """Return the usual range of an hour as `Chart` has it; one of no width is a line."""
    left = axes.x(max(usual.hour, axes.window.start))
    right = axes.x(min(usual.end, axes.window.end))
    above, below = axes.y(usual.high), axes.y(usual.low)
    height = max(1.0, round(below - above, 1))
    return left, below - height, round(right - left, 1), height, usual.hour, usual.range(text)


def _rate(value: float | None) -> str:
    return f"{number(value, 1)}/s" if value is not None else number(value)


_TEXTS = {"number": number, "ms": milliseconds, "rate": _rate, "bytes": size, "share": share}


def parts_of(
    instants: Sequence[datetime], values: Sequence[float | None]
) -> list[list[tuple[datetime, float]]]:
    """Return the runs of known values."""
    pairs = zip(instants, values, strict=True)
    grouped = groupby(pairs, key=lambda pair: pair[1] is not None)
    return [
        [(at, value) for at, value in part if value is not None] for known, part in grouped if known
    ]


def _path(
    parts: Sequence[Sequence[tuple[datetime, float]]],
    x: Callable[[datetime], float],
    y: Callable[[float], float],
) -> str:
    """Return the runs of known values as an SVG path; one value alone is drawn as a point."""
    return " ".join(
        "M" + " L".join(f"{x(at)} {y(value)}" for at, value in part)
        for part in parts
        if len(part) > 1
    )


def _band(
    instants: Sequence[datetime],
    band: tuple[Sequence[float | None], Sequence[float | None]],
    x: Callable[[datetime], float],
    y: Callable[[float], float],
) -> str:
    rows = [
        (at, (low, high) if low is not None and high is not None else None)
        for at, low, high in zip(instants, *band, strict=True)
    ]
    drawn = []
    for known, part in groupby(rows, key=lambda row: row[1] is not None):
        points = [(at, pair) for at, pair in part if pair is not None]
        if known and len(points) > 1:
            above = [f"{x(at)} {y(pair[1])}" for at, pair in points]
            below = [f"{x(at)} {y(pair[0])}" for at, pair in reversed(points)]
            drawn.append("M" + " L".join(above + below) + "Z")
    return " ".join(drawn)


def _round_up(value: float) -> float:
    """Return the least of 1, 2, 4, 5, 8 times a power of ten that is not below a value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    return next(
        (factor * power for factor in (1, 2, 4, 5, 8, 10) if factor * power >= value), value
    )


def _round_up_time(value: float) -> float:
    """Return the least round duration that is not below one, both in milliseconds."""
    days = -(-value // 86_400_000)
    return next((time * 1000.0 for time in TIMES if time * 1000 >= value), days * 86_400_000)


def _times(window: Window) -> list[tuple[datetime, str]]:
    span = (window.end - window.start).total_seconds()
    step = next((step for step in STEPS if span / step <= MARKS), STEPS[-1])
    form = "%H:%M" if step < 86_400 and span <= 86_400 * 1.1 else "%m-%d %H:%M"
    form = "%m-%d" if step >= 86_400 else form
    first = datetime.fromtimestamp(-(-window.start.timestamp() // step) * step, UTC)
    count = int((window.end - first).total_seconds() // step) + 1
    marks = [first + timedelta(seconds=step * place) for place in range(max(0, count))]
    return [(at, at.strftime(form)) for at in marks if at in window]


DRAWN = (*COLUMNS, ERROR)


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words of marks.

    Attributes:
        phrase: words a text in the language of the person.
        incident: returns the address of an incident's page.
        names_groups: whether marks name their group, as where a chart is of several.
    """

    phrase: Phrase
    incident: Callable[[str], str]
    names_groups: bool = False

    def about(self, entry: Entry) -> str:
        """Return the group of an entry as the begin of its title, where titles name it."""
        return f"{entry.group}: " if self.names_groups and entry.group else ""


class GroupCharts:
    """The past of a group on a topic, over a window.

    Attributes:
        charts: lag, delay, rates.
        marks: events, changes of health and of incidents in the window, the newest first.
    """

    def __init__(
        self,
        view: View,
        rows: Shown,
        window: Window,
        cluster: str,
        group: str,
        topic: str,
        words: Words,
    ) -> None:
        """Read the rows of the charts.

        Args:
            view: the tables as the person sees them.
            rows: the shown rows, which contain the incidents.
            window: the time axis.
            cluster: the cluster.
            group: the group.
            topic: the topic.
            words: the words of marks.

        Raises:
            DamagedError: a file of a table is missing or damaged.
        """
        past: Series = history_of(view, rows, window, cluster, group, topic, DRAWN, None)
        values = past.last if past.step is None else past.maximum

        def is_about(entry: Entry) -> bool:
            is_of_group = entry.group == group or (entry.kind == "event" and not entry.group)
            return is_of_group and entry.topic in (topic, None)

        subject = {"consumer_group": group, "topic": topic}
        self.marks = marks_of(view, rows, window, cluster, is_about, words, subject)
        delays, errors = values["delay_ms"], values[ERROR]
        band = None
        if any(error is not None for error in errors):
            band = _error_band(delays, errors)
        points = [{name: values[name][n] for name in DRAWN} for n in range(len(past.instants))]

        def line(name: str, kind: str = "a") -> Line:
            bounds = [bound_of(name, point) for point in points]
            return Line(name=name, values=values[name], kind=kind, bounds=bounds)

        lags = [line("lag")]
        if values["readable_lag"] != values["lag"]:
            lags.append(line("readable_lag", "b"))
        rates = [line("produce_tps"), line("consume_tps", "b")]

        def drawn(title: str, lines: list[Line], unit: str, **more: Any) -> Chart:
            return chart(title, window, past.instants, lines, unit, self.marks, **more)

        usual = _usual_ranges(view, window, {"cluster": cluster, **subject}, ("lag", "delay_ms"))
        self.charts = [
            drawn("Lag", lags, "number", usual=usual["lag"]),
            drawn("Delay", [line("delay_ms")], "ms", band=band, usual=usual["delay_ms"]),
            drawn("Rates", rates, "rate"),
        ]


def _usual_ranges(
    view: View, window: Window, equal: Mapping[str, str], measures: Sequence[str]
) -> dict[str, list[Usual]]:
    """Return the usual ranges of a group on a topic by measure, none of hours without.

    Raises:
        DamagedError: a file of a table is missing or damaged.
    """
    if window.end - window.start > USUAL_WITHIN:
        return {name: [] for name in measures}
    hours = Window(floor_hour(window.start), window.end)
    ends = [f"{name}_{end}" for name in measures for end in ("low", "high")]
    rows = view.rows_between(progress.BASELINES, hours, equal, ends).to_pylist()
    return {
        name: [
            Usual(hour=row["hour"], low=row[f"{name}_low"], high=row[f"{name}_high"])
            for row in rows
            if row[f"{name}_low"] is not None and row[f"{name}_high"] is not None
        ]
        for name in measures
    }


def marks_of(
    view: View,
    rows: Shown,
    window: Window,
    cluster: str,
    is_about: Callable[[Entry], bool],
    words: Words,
    subject: Mapping[str, str],
) -> list[Mark]:
    """Return what happened in a window as marks of a time axis, the newest first.

    Args:
        view: the tables as the person sees them.
        rows: the shown rows, which contain the incidents.
        window: the time axis.
        cluster: the cluster.
        is_about: whether an entry of the cluster belongs to the chart.
        words: the language of the person, and addresses of incidents.
        subject: the columns that annotations and groups of the chart match, besides the cluster;
            none where the chart is not about groups.

    Raises:
        DamagedError: a file of a table is missing or damaged.
    """
    changes = []
    if subject:
        equal = {"cluster": cluster, **subject}
        changes = view.health_changes(rows, window, equal).newest(MOST_CHANGES)
    entries = happened(
        window,
        events=event_rows(view, rows, window, cluster=cluster).to_pylist(),
        changes=changes,
        incidents=incident_rows(rows),
        notes=of_notes(view, {"cluster": cluster, **subject}),
    )
    return [
        _mark(entry, words)
        for entry in entries
        if entry.kind == "note" or (entry.cluster == cluster and is_about(entry))
    ]


_KINDS = {IncidentState.FIRING: "fired", IncidentState.RESOLVED: "done"}
_OF_STATES = {
    IncidentState.FIRING: "{rule}",
    IncidentState.RESOLVED: "{rule} resolved",
    IncidentState.ACKNOWLEDGED: "{rule} acknowledged",
}


def _mark(entry: Entry, words: Words) -> Mark:
    """Return an entry as a mark, worded as a pointer reads it."""
    phrase = words.phrase
    if entry.kind == "health":
        title = f"{phrase(entry.was)} → {phrase(entry.state)}".replace("_", " ")
        return Mark(at=entry.at, title=words.about(entry) + title, kind="health")
    if entry.kind == "incident":
        text = _OF_STATES.get(IncidentState(entry.state), "{rule}")
        return Mark(
            at=entry.at,
            title=words.about(entry) + phrase(text, rule=entry.title),
            kind=_KINDS.get(IncidentState(entry.state), "event"),
            address=words.incident(entry.incident_id),
        )
    if entry.kind == "note":
        return Mark(at=entry.at, title=f"{entry.title} ({entry.cause})", kind="note")
    title = phrase(entry.title).replace("_", " ")
    if entry.messages is not None:
        title += f", {phrase('{count} messages', count=number(entry.messages))}"
    if entry.cause:
        title += f" ({phrase(entry.cause)})"
    return Mark(at=entry.at, title=words.about(entry) + title, kind="event")


def _error_band(
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
