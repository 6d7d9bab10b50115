"""Trends as small drawings next to numbers: lines of the last hours from 0 to the largest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemark.board.pages.charts import Line, parts_of
from tidemark.board.pages.wording import cell
from tidemark.lake.bounds import bound_of

WIDTH, HEIGHT, MARGIN = 96, 24, 3


@dataclass(frozen=True, kw_only=True)
class Sparkline:
    """Paths and points of one line, as a template draws them.

    Attributes:
        name: the column.
        path: of the known values.
        dashed: of the values that are bounds.
        end: x and y of the newest value; None where it is unknown.
        most: the largest value as text, with the mark of a bound.
    """

    name: str
    path: str
    dashed: str
    end: tuple[float, float] | None = None
    most: str = field(default="")


OF_GROUPS = ("delay_ms", "lag")


def sparkline(
    points: Sequence[Mapping[str, Any]], names: tuple[str, ...] = OF_GROUPS
) -> Sparkline | None:
    """Return the drawing of observations in order of time; None with fewer than two known ones.

    Args:
        points: the observations.
        names: columns, of which the first that is anywhere above 0 is drawn, or else the last.
    """
    name = next((name for name in names if any(row[name] for row in points)), names[-1])
    known = [row for row in points if row[name] is not None]
    if len(known) < 2:
        return None
    most = max(known, key=lambda row: row[name])
    instants = [row["observed_at"] for row in points]
    span = (instants[-1] - instants[0]).total_seconds()
    line = Line(
        name=name,
        values=[row[name] for row in points],
        kind="a",
        bounds=[bound_of(name, row) for row in points],
    )

    def x(at: Any) -> float:
        return round(MARGIN + (WIDTH - 2 * MARGIN) * (at - instants[0]).total_seconds() / span, 1)

    def y(value: float) -> float:
        share = max(0.0, value) / (most[name] or 1)
        return round(HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * share, 1)

    def path(values: Sequence[float | None]) -> str:
        return " ".join(
            "M" + " L".join(f"{x(at)} {y(value)}" for at, value in part)
            for part in parts_of(instants, values)
            if len(part) > 1
        )

    newest = line.values[-1]
    return Sparkline(
        name=name,
        path=path(line.exact),
        dashed=path(line.bounded) if line.has_bounds else "",
        end=None if newest is None else (x(instants[-1]), y(newest)),
        most=cell(name, most),
    )
