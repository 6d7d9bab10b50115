"""The page of quality: expectations that are not met, and quarantined rows to decide on."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse
from starlette.responses import RedirectResponse

from tidemark.board.dependencies import ThePerson, TheView
from tidemark.board.http_responses import ProblemError
from tidemark.board.pages.layout import Page, ThePage, address, check_form
from tidemark.board.views.incidents import newest_results
from tidemark.host.failures import DamagedError
from tidemark.host.leases import HeldError
from tidemark.lake.landing import Landed
from tidemark.lake.tables import quality
from tidemark.lake.typed_rows import dict_rows
from tidemark.planning.quarantine_decisions import (
    POSSIBLE,
    UNDONE,
    Decision,
    DecisionError,
    QuarantinedRow,
    recompute_line,
    unique_rows,
    waiting_rows,
)

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Form()]

MOST = 100
"""Quarantined rows of a reason at most, and decisions; the command line lists all."""

MOST_READ = 5_000
"""Quarantined rows that a page reads at most, the newest of them."""

MOST_DECIDED = 50
"""Rows that one form decides on at most."""

SAMPLES = 3
"""Violating rows of an expectation at most."""


@router.get("/quality")
def results(page: ThePage, decided: str = "", recompute: bool = False) -> Response:
    """Show the newest result of every expectation, those not met first, and the quarantine.

    Args:
        page: what is shown.
        decided: ids of rows that a form has just decided on, separated by commas.
        recompute: whether numbers follow that decision when hours are computed again.
    """
    rows: list[dict[str, Any]] = dict_rows(newest_results(page.rows))
    rows.sort(key=lambda row: (row["table"], row["expectation"]))
    # An expectation that was evaluated on no row is not met, whatever its success.
    empty = [row for row in rows if row["success"] is None or row["elements"] == 0]
    failed = [row for row in rows if row["success"] is False and row["elements"] != 0]
    met = [row for row in rows if row["success"] and row["elements"] != 0]
    known = {} if page.view.is_empty else _decided(page)
    quarantined = page.rows.of(quality.QUARANTINE)
    newest = quarantined.sort_by([("observed_at", "descending")]).slice(0, MOST_READ).to_pylist()
    waiting = [] if page.at else waiting_rows(unique_rows(newest), known)
    return page.render(
        "quality.html",
        failed=[row | _of_failure(row) for row in _worst_first(failed)],
        empty=empty,
        met=[(table, list(rows)) for table, rows in groupby(met, key=itemgetter("table"))],
        met_count=len(met),
        validated_at=max((row["observed_at"] for row in rows), default=None),
        run_id=max(rows, key=itemgetter("observed_at"))["run_id"] if rows else None,
        quarantined=quarantined.num_rows,
        waiting=_by_reason(waiting),
        waiting_count=len(waiting),
        is_cut=quarantined.num_rows > MOST_READ and not page.at,
        decisions=sorted(known.values(), key=lambda row: row.decided_at, reverse=True)[:MOST],
        outcome=_outcome(page, decided, known, recompute=recompute),
        most=MOST,
        ahead=page.view.ahead(datetime.now(UTC)),
        aside=_aside(page),
        has_data_docs=page.view.data_docs is not None,
    )


@router.post("/quality/decide")
def decide_rows(
    request: Request,
    view: TheView,
    person: ThePerson,
    decision: Text,
    token: Text,
    reason: Text = "",
    row: Annotated[Sequence[str], Form()] = (),
) -> Response:
    """Record a decision on quarantined rows, as `tidemark quarantine` does, then show it."""
    check_form(request, token)
    if decision not in POSSIBLE:
        raise ProblemError(400, f"{decision!r} is no decision: {', '.join(POSSIBLE)}")
    if not reason.strip():
        raise ProblemError(400, "why: a reason is wanted, so that others can follow the decision")
    if not 0 < len(row) <= MOST_DECIDED:
        raise ProblemError(400, f"choose 1 to {MOST_DECIDED} rows")
    try:
        made, hours = view.decide(row, decision, person.name, reason.strip()[:1000])
    except DecisionError as error:
        raise ProblemError(409, str(error)) from error
    except HeldError as error:
        raise ProblemError(503, "somebody else decides; try again in a minute") from error
    ids = ",".join(item.row_id for item in made)
    changed = {} if hours is None else {"recompute": "true"}
    return RedirectResponse(address("/quality", {"decided": ids} | changed), 303)


def _decided(page: Page) -> Mapping[str, Decision]:
    """Return the decisions; none where they cannot be read, which a banner of the page states."""
    with suppress(DamagedError):
        return page.view.decided_rows()
    return {}


def _worst_first(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return failures that stop a run first, then those of most rows."""
    order = ("block", "quarantine", "warn")
    return sorted(
        rows,
        key=lambda row: (
            order.index(row["severity"]) if row["severity"] in order else len(order),
            -(row["unexpected"] or 0),
        ),
    )


def _of_failure(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the problems of a result as lines, and its violating rows decoded."""
    samples: list[Any] = []
    # A row of an older version has none.
    with suppress(msgspec.DecodeError):
        samples = msgspec.json.decode(row["sample"] or "[]")
    return {
        "problems": [line for line in (row["problem"] or "").split("\n") if line],
        "samples": [msgspec.json.encode(item).decode() for item in samples[:SAMPLES]],
    }


def _by_reason(rows: Sequence[QuarantinedRow]) -> list[dict[str, Any]]:
    """Return the quarantined rows of each table and reason, the most first."""
    groups: dict[tuple[str, str], list[QuarantinedRow]] = {}
    for row in rows:
        groups.setdefault((row.table, row.reason), []).append(row)
    result = [
        {"table": table, "reason": reason, "count": len(members), "rows": members[:MOST]}
        | {"newest": members[0].observed_at, "oldest": members[-1].observed_at}
        for (table, reason), members in groups.items()
    ]
    return sorted(result, key=lambda group: -group["count"])


def _outcome(
    page: Page, decided: str, known: Mapping[str, Decision], *, recompute: bool
) -> dict[str, Any] | None:
    """Return what a form has decided, and how the numbers follow it; None without one."""
    ids = [name for name in decided.split(",") if name][:MOST_DECIDED]
    if not ids:
        return None
    rows: list[QuarantinedRow] = [known[name] for name in ids if name in known]
    undone = not rows
    if undone:
        waiting = page.view.known_rows()
        rows = [waiting[name] for name in ids if name in waiting]
    if not rows:
        return None
    hours = page.view.hours_to_compute(rows) if recompute else None
    first = rows[0]
    return {
        "decision": first.decision if isinstance(first, Decision) else UNDONE,
        "author": first.author if isinstance(first, Decision) else "",
        "comment": first.comment if isinstance(first, Decision) else "",
        "count": len(rows),
        "hours": hours,
        "command": recompute_line(hours) if hours else "",
    }


def _aside(page: Page) -> list[Landed]:
    """Return the snapshots of wrong clocks; none where the landing cannot be read just now."""
    with suppress(OSError):
        return page.view.aside()
    return []


DATA_DOCS_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
}
"""Great Expectations' pages have their styles inside; nothing else of theirs is applied."""


@router.get("/data-docs/{path:path}")
def data_docs(view: TheView, path: str) -> Response:
    """Show a page of Great Expectations' Data Docs of the last audit."""
    folder = view.data_docs
    if folder is not None:
        # No path may hold a NUL, and the next audit may replace the pages at any moment.
        with suppress(OSError, ValueError):
            file = (folder / path).resolve()
            if file.is_relative_to(folder.resolve()) and file.suffix == ".html":
                return HTMLResponse(file.read_bytes(), headers=DATA_DOCS_HEADERS)
    raise ProblemError(404, "no such page of Data Docs; the audit of each hour writes them")
