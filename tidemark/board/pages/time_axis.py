"""The time that charts of a page show: a range that ends now, or from an instant to another."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import Query

from tidemark.board.pages.layout import ThePage
from tidemark.board.pages.wording import iso
from tidemark.board.responses import ProblemError
from tidemark.board.views.parameters import window_of
from tidemark.lake.clocks import MICROSECOND, Window

RANGES = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "90d": timedelta(days=90),
}


@dataclass(frozen=True, kw_only=True)
class TimeAxis:
    """The time axis of a page's charts, as its address gives it.

    Attributes:
        window: the time.
        range: name of the range; empty where instants were given.
        ranges: names of the ranges that the page offers.
        part: the instants that were given, by parameter; empty for a range.
    """

    window: Window
    range: str
    ranges: tuple[str, ...]
    part: dict[str, str]


def time_axis(usual: str, longest: str = "90d") -> Callable[..., TimeAxis]:
    """Return a dependency that reads the time axis from the address of a page.

    Args:
        usual: the range without parameters.
        longest: the longest range that the page offers.
    """
    names = tuple(RANGES)
    offered = names[: names.index(longest) + 1]

    def read(
        page: ThePage,
        range: Annotated[str, Query()] = "",
        from_: Annotated[str, Query(alias="from")] = "",
        to: str = "",
    ) -> TimeAxis:
        if from_:
            if range:
                raise ProblemError(400, "range: it does not go with from and to")
            window = window_of(from_, to or page.at)
            part = {"from": iso(window.start), "to": to and iso(window.end)}
            return TimeAxis(window=window, range="", ranges=offered, part=part)
        if to:
            raise ProblemError(400, "to: it needs from")
        chosen = range or usual
        if chosen not in offered:
            raise ProblemError(400, f"range={range!r}: it is one of {', '.join(offered)}")
        window = Window(page.end - RANGES[chosen], page.end + MICROSECOND)
        return TimeAxis(window=window, range=chosen, ranges=offered, part={})

    return read
