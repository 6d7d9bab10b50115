"""Numbers that only some snapshots have, as they were last known.

Deep snapshots request what members and counters report. Between two of them such a number is NULL
in the tables, because it is not known of that instant. A page shows the last one with its age.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.board.newest import GROUP_REACH
from tidemark.board.views.view import Shown, View
from tidemark.host.failures import DamagedError, one_line
from tidemark.lake.bounds import columns_with_marks
from tidemark.lake.clocks import Window
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress, raw
from tidemark.lake.typed_rows import dict_rows

_log = logging.getLogger(__name__)

REPORTED = ("inflight", "inflight_source", "available", "ready_delay_ms", "ack_tps")
"""Columns of ``progress.groups`` that depend on what members or counters report."""

REPORTED_OF_BROKERS = (
    *("offsets_missing", "offsets_late", "offsets_behind", "producers_online"),
    *("sends_refused", "sends_failed"),
    *("light_queues", "light_queue_limit", "lite_subscriptions"),
)
"""Columns of ``raw.brokers`` that only deep snapshots fill."""

LAST_KNOWN = "last_known"
"""The key that is added to rows."""


def with_last_known(view: View, rows: Shown, details: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a group, with `LAST_KNOWN` in the rows of its topics and queues.

    It maps each column of `REPORTED` that is NULL to the newest row of the hour before in which it
    is known: the column, those that mark it as a bound, and ``observed_at``.

    Args:
        view: the tables as the person sees them.
        rows: what is shown.
        details: of `tidemark.board.views.groups.group_details`.

    Raises:
        DamagedError: a file of a table is missing or damaged.
    """
    at = rows.at[details["cluster"]]
    equal = {name: details[name] for name in ("cluster", "consumer_group")}
    columns = (*_names(progress.GROUPS), "topic")
    window = Window(at - GROUP_REACH, at)
    earlier = view.group_rows_between(window, equal, columns)
    topics = _completed(details["topics"], earlier, progress.GROUPS, ("topic",))
    instants = {known["observed_at"] for row in topics for known in row[LAST_KNOWN].values()}
    queues = [{**row, LAST_KNOWN: {}} for row in details["queues"]]
    if instants:
        key = ("topic", "broker", "queue_id", "client_id")
        window = Window.through(min(instants), max(instants))
        names = (*_names(progress.QUEUES), *key, "snapshot_id")
        of_queues = view.rows_between(progress.QUEUES, window, equal, names)
        # Files of one broker are left out as for groups.
        is_shown = pc.is_in(
            of_queues["snapshot_id"], value_set=earlier["snapshot_id"].combine_chunks()
        )
        queues = _completed(queues, of_queues.filter(is_shown), progress.QUEUES, key)
    return {**details, "topics": topics, "queues": queues}


def with_last_known_of_brokers(
    view: View, rows: Shown, brokers: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return brokers with `LAST_KNOWN` of `REPORTED_OF_BROKERS`, as `with_last_known`.

    Args:
        view: the tables as the person sees them.
        rows: what is shown.
        brokers: rows of ``raw.brokers`` among these. Where those before them cannot be read, a
            number that is not known now has no last one.
    """
    completed: list[dict[str, Any]] = []
    for cluster in sorted({row["cluster"] for row in brokers}):
        own = [row for row in brokers if row["cluster"] == cluster]
        window = Window(rows.at[cluster] - GROUP_REACH, rows.at[cluster])
        key = ("broker", "address")
        columns = (*key, raw.BROKERS.instant, *REPORTED_OF_BROKERS)
        try:
            earlier = view.rows_between(raw.BROKERS, window, {"cluster": cluster}, columns)
        # Brokers as they are now are better than none.
        except DamagedError as error:
            _log.warning("last known numbers of brokers cannot be read: %s", one_line(error))
            earlier = raw.BROKERS.arrow_schema().empty_table()
        completed += _completed(own, earlier, raw.BROKERS, key, REPORTED_OF_BROKERS)
    return completed


def _names(table: Table) -> list[str]:
    """Return the columns of `REPORTED` that a table has, with those that mark them as bounds."""
    reported = tuple(name for name in REPORTED if name in table.column_names)
    return [name for name in columns_with_marks(reported) if name in table.column_names]


def _completed(
    rows: Sequence[Mapping[str, Any]],
    earlier: pa.Table,
    table: Table,
    key: Sequence[str],
    reported: Sequence[str] = REPORTED,
) -> list[dict[str, Any]]:
    """Return rows with `LAST_KNOWN`.

    Args:
        rows: the rows that are shown.
        earlier: rows of the same table before them, in order of time.
        table: their declaration.
        key: columns by which they belong together.
        reported: the columns that only some snapshots have.
    """
    completed = [{**row, LAST_KNOWN: {}} for row in rows]
    of_key = {tuple(row[name] for name in key): row for row in completed}
    for column in (name for name in reported if name in table.column_names):
        marks = [name for name in columns_with_marks((column,)) if name in table.column_names]
        for known in _newest(earlier, column, [*key, table.instant, *marks], key):
            row = of_key.get(tuple(known[name] for name in key))
            if row is not None and row[column] is None:
                row[LAST_KNOWN][column] = {name: known[name] for name in (table.instant, *marks)}
    return completed


def _newest(
    rows: pa.Table, column: str, names: Sequence[str], key: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the last row of each key in which a column is known, with some of its columns."""
    known = rows.filter(pc.is_valid(rows[column])).select(names)
    places = pa.array(range(known.num_rows), type=pa.int64())
    last = known.append_column("place", places).group_by(list(key)).aggregate([("place", "max")])
    return dict_rows(known.take(last["place_max"]))
