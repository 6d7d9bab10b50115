"""Language, colours and the instant shown, as a person chooses them."""

from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, Form, Request, Response
from starlette.responses import RedirectResponse

from tidemark.board.dependencies import free_of_groups
from tidemark.board.pages.layout import LANGUAGES, THEMES, address, check_form
from tidemark.board.pages.wording import iso
from tidemark.board.views.parameters import instant_of

router = APIRouter(include_in_schema=False)

YEAR = 365 * 86_400


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
