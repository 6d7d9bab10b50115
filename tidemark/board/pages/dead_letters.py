"""Dead letters and retries: which groups gave up on messages, when, and how often they try."""

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from tidemark.board.pages.layout import Page, ThePage
from tidemark.board.pages.runbooks import address_of_runbook
from tidemark.board.pages.sparklines import Sparkline, sparkline
from tidemark.board.pages.tables import MOST, WITH_TREND
from tidemark.board.trends import TOPICS
from tidemark.board.views.dead_letters import dead_letter_rows, worst_first
from tidemark.board.views.parameters import containing, having
from tidemark.lake.typed_rows import dict_rows
from tidemark.rocketmq.names import retry_topic

router = APIRouter(include_in_schema=False)

RUNBOOK = "runbooks/dead-letters.md"


@router.get("/dead-letters")
def dead_letters(page: ThePage, cluster: str = "", q: str = "") -> Response:
    """Show groups with new dead letters first, then all others, then those that only retry."""
    rows = having(dead_letter_rows(page.rows), cluster=cluster or None)
    rows = worst_first(dict_rows(containing(rows, q, ("consumer_group",))))
    dead = [row for row in rows if row["messages"] != 0 and row["topic"]]
    retried = [row for row in rows if row["retry_lag"] or row["redelivered_tps"]]
    return page.render(
        "dead_letters.html",
        dead=_with_trends(dead, partial(_kept, page)),
        dead_count=len(dead),
        retried=_with_trends(_by_retries(retried), partial(_retries, page)),
        retried_count=len(retried),
        new=_sum(dead, "added_last_hour"),
        kept=_sum(dead, "messages"),
        runbook=address_of_runbook(page, RUNBOOK),
        q=q,
        cluster=cluster,
        clusters=sorted(page.rows.at),
    )


def _with_trends(
    rows: list[dict[str, Any]], trend: Callable[[dict[str, Any]], Sparkline | None]
) -> list[dict[str, Any]]:
    """Return the rows of a table, the first of them with their trend."""
    return [
        row | {"spark": trend(row) if place < WITH_TREND else None}
        for place, row in enumerate(rows[:MOST])
    ]


def _by_retries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (-(row["redelivered_tps"] or 0), -(row["retry_lag"] or 0)))


def _kept(page: Page, row: dict[str, Any]) -> Sparkline | None:
    return sparkline(page.points(TOPICS).of(row["cluster"], row["topic"]), ("messages",))


def _retries(page: Page, row: dict[str, Any]) -> Sparkline | None:
    group = row["consumer_group"]
    return sparkline(page.trends.of(row["cluster"], group, retry_topic(group)))


def _sum(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return a sum over groups as a row; a lower bound where a part of it is unknown."""
    known = [row[name] for row in rows if row[name] is not None]
    whole = len(known) == len(rows) and all(row["complete"] for row in rows)
    return {name: sum(known) if known or not rows else None, "complete": whole}
