"""Events of queues, results of expectations and actions of people that a person sees."""

from typing import Any

import pyarrow as pa

from tidemark.alerting.annotations import UnreadableAnnotationsError
from tidemark.alerting.delivery.silences import UnreadableSilencesError
from tidemark.board.newest import until
from tidemark.board.responses import ProblemError
from tidemark.board.views.parameters import Order, having
from tidemark.board.views.view import Shown, View
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress, quality
from tidemark.model.incidents import ActionKind

ACTIONS_NEWEST_FIRST = Order("at", descending=True)
"""The order of `action_rows`."""


def event_rows(view: View, shown: Shown, window: Window, **equal: str | None) -> pa.Table:
    """Return the events of a window with these values up to the shown instant, in order of time."""
    if view.is_empty:
        return progress.EVENTS.arrow_schema().empty_table()
    known = {name: value for name, value in equal.items() if value is not None}
    rows = view.rows_between(progress.EVENTS, window, known)
    return until(rows, shown.at)


def newest_results(rows: Shown) -> pa.Table:
    """Return the newest result of each expectation of a table."""
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows.of(quality.RESULTS).sort_by("observed_at").to_pylist():
        newest[row["table"], row["expectation"]] = row
    return quality.RESULTS.arrow_table(newest.values())


def action_rows(
    view: View, window: Window, person: str | None = None, action: str | None = None
) -> pa.Table:
    """Return the actions of a window, of one person and of one kind where these are given.

    Raises:
        ProblemError: there is no such kind, or a part of the trail cannot be read.
    """
    if action and action not in tuple(ActionKind):
        raise ProblemError(400, f"action={action!r}: it is one of {', '.join(ActionKind)}")
    try:
        rows = view.actions(window)
    except (UnreadableSilencesError, UnreadableAnnotationsError) as error:
        raise ProblemError(503, str(error)) from error
    return having(rows, author=person or None, action=action or None)
