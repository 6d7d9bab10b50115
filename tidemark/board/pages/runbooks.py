"""Runbooks of the documentation: their page, and the addresses that lead to it."""

from pathlib import Path

from fastapi import APIRouter, Response

from tidemark.board.pages.layout import ROOM, Page, ThePage
from tidemark.board.responses import ProblemError

router = APIRouter(include_in_schema=False)

RUNBOOKS = ROOM.parent.parent / "docs" / "runbooks"
"""Pages of the documentation; an installed wheel has none."""


@router.get("/runbook")
def runbook(page: ThePage, name: str) -> Response:
    """Show a runbook of the documentation, where this program runs with its documentation."""
    path = _runbooks().get(name)
    if path is None:
        raise ProblemError(404, f"no runbook {name!r}")
    return page.render("runbook.html", name=name, text=path.read_text(encoding="utf-8"))


def address_of_runbook(page: Page, runbook: str) -> str:
    """Return where a runbook opens; empty where it is neither an address nor a page here."""
    if runbook.startswith(("https://", "http://")):
        return runbook
    name = runbook.rpartition("/")[2]
    return page.url("/runbook", name=name) if name in _runbooks() else ""


def _runbooks() -> dict[str, Path]:
    """Return the pages by name: a name from outside chooses one of them, and no other file."""
    return {path.name: path for path in RUNBOOKS.glob("*.md")}
