"""Choices of a person: language, colours, the instant shown, and the time that charts show."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, Form, Query, Request, Response
from starlette.responses import RedirectResponse

from tidemark.board.dependencies import free_of_groups
from tidemark.board.http_responses import ProblemError
from tidemark.board.pages.layout import LANGUAGES, THEMES, ThePage, address, check_form
from tidemark.board.pages.wording import iso
from tidemark.board.views.parameters import instant_of, window_of
from tidemark.lake.clocks import MICROSECOND, Window

router = APIRouter(include_in_schema=False)

YEAR = 365 * 86_400

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


@router.post("/preferences")
@free_of_groups
def choose(
    request: Request,
    token: Annotated[str, Form()],
    back: Annotated[str, Form()] = "/",
    language: Annotated[str, Form()] = "",
    theme: Annotated[str, Form()] = "",
) -> Response:
    """Remember a language or colours in a cookie, and go back."""
    check_form(request, token)
    response = RedirectResponse(_inside(back), 303)
    for name, value, known in (("language", language, LANGUAGES), ("theme", theme, THEMES)):
        if value in known:
            response.set_cookie(name, value, YEAR, httponly=True, samesite="strict")
    return response


@router.get("/as-of")
@free_of_groups
def as_of(back: str = "/", at: str = "") -> Response:
    """Go back to a page, as of an instant or of now."""
    parts = urlsplit(_inside(back))
    given = {name: value for name, value in parse_qsl(parts.query) if name not in ("at", "cursor")}
    wanted = iso(instant_of("at", at)) if at.strip() else ""
    return RedirectResponse(address(parts.path, given | {"at": wanted}), 303)


def _inside(back: str) -> str:
    """Return an address of the board; its first page instead of one elsewhere."""
    try:
        parts = urlsplit(back)
    except ValueError:
        return "/"
    is_inside = not parts.scheme and not parts.netloc and back.startswith("/")
    return back if is_inside and not back.startswith(("//", "/\\")) else "/"
