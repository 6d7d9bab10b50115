"""Bounds: numbers that the truth is not below, or not above, and the mark that shows it.

All code that shows a number of a row calls `bound_of`, and all code that compares one calls
`certain`, so a bound is neither shown nor compared as the number itself.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from tidemark.model.consumption import DelaySource
from tidemark.rocketmq.consume_modes import NUMBERS, Certainty, Number


class Bound(StrEnum):
    """Kind of bound that a number is: the true value is not below, or not above, it."""

    LOWER = "lower"
    UPPER = "upper"

    @property
    def mark(self) -> str:
        """The sign that is shown before the number."""
        return {Bound.LOWER: "≥", Bound.UPPER: "≤"}[self]


SUMS = frozenset(
    (
        *("lag", "inflight", "available", "lost", "readable_lag", "lag_upper", "max_queue_lag"),
        *("queues", "queues_unknown", "queues_never_committed", "queues_flow_controlled"),
        *("clients", "duplicate_client_ids", "redelivered_tps"),
        *("unreachable_messages", "inflight_witness"),
        *("delay_ms", "ready_delay_ms"),
        *("lag_span_ms", "inflight_span_ms", "available_span_ms"),
        *("produce_tps", "consume_tps", "pull_tps", "ack_tps"),
        *("filtered_lag", "filtered_lag_low", "filtered_lag_high", "retry_lag", "dlq_messages"),
    )
)
"""Columns of ``progress.groups`` that an unreachable broker could only raise: sums and maxima."""

SUMS_OF_TOPICS = frozenset(
    ("unreadable_messages", "messages", "added_last_hour", "newest_at", "dead_letter_age_seconds")
)
"""The same of ``progress.topics``, and of what is derived from it."""

MINIMA = frozenset({"loss_in_seconds"})
"""Columns that it could only lower."""

MINIMA_OF_TOPICS = frozenset({"oldest_at", "newest_age_seconds", "expires_in_seconds"})
"""The same of topics."""

_COUNTED_AS_BEFORE = frozenset({"queues", "queues_unknown"})
"""Sums that count the queues of an unreachable broker as it last reported them."""

_LAG = ("lag_is_lower_bound",)
_DELAY = ("lag_is_lower_bound", "delay_is_lower_bound")
_READY = ("ready_delay_is_lower_bound",)
_RETRY = ("retry_lag_is_lower_bound",)

MARKED_BY: Mapping[str, tuple[str, ...]] = {
    "lag": _LAG,
    "readable_lag": _LAG,
    "lag_upper": _LAG,
    "max_queue_lag": _LAG,
    "filtered_lag": _LAG,
    "filtered_lag_low": _LAG,
    "filtered_lag_high": _LAG,
    "drain_seconds": _LAG,
    # The first popped and unacknowledged message may be older than that at the commit.
    "delay_ms": _DELAY,
    "lag_span_ms": _DELAY,
    "loss_in_seconds": _DELAY,
    "ready_delay_ms": _READY,
    "available_span_ms": _READY,
    "retry_lag": _RETRY,
}
"""Columns to the boolean columns of the same row; a true one makes the number a bound."""

_REPLICA = ("replica_behind_is_lower_bound",)

MARKED_BY_OF_BROKERS: Mapping[str, tuple[str, ...]] = {"replica_behind_ms": _REPLICA}
"""The same of brokers."""

_OLDEST = ("oldest_at_is_upper_bound",)

MARKED_BY_OF_TOPICS: Mapping[str, tuple[str, ...]] = {
    "oldest_at": _OLDEST,
    "dead_letter_age_seconds": _OLDEST,
    "expires_in_seconds": _OLDEST,
}
"""The same of topics."""

_MARKED_BY = {**MARKED_BY, **MARKED_BY_OF_TOPICS, **MARKED_BY_OF_BROKERS}
_SUMS, _MINIMA = SUMS | SUMS_OF_TOPICS, MINIMA | MINIMA_OF_TOPICS

KIND = "consume_kind"
"""The column that names the kind of consumption."""

_OF_CERTAINTY = {Certainty.LOWER_BOUND: Bound.LOWER, Certainty.UPPER_BOUND: Bound.UPPER}

BOUND_BY_KIND: Mapping[str, Mapping[str, Bound]] = {
    number.value: bounds
    for number in (Number.ACK_TPS, Number.AVAILABLE, Number.READY_DELAY_MS)
    if (
        bounds := {
            kind.value: _OF_CERTAINTY[numbers[number].certainty]
            for kind, numbers in NUMBERS.items()
            if numbers[number].certainty in _OF_CERTAINTY
        }
    )
}
"""Columns that are a bound by the kind of consumption alone, without a mark of their own."""

MARKS = tuple(dict.fromkeys(mark for marks in MARKED_BY.values() for mark in marks))
"""The boolean columns of groups."""

ALL_MARKS = (*MARKS, *_OLDEST, *_REPLICA)
"""Marks of columns of all tables, topics and brokers too."""

SETTLED: Mapping[str, str] = {
    "lag_is_lower_bound": "acknowledged",
    "retry_lag_is_lower_bound": "acknowledged",
}
"""Marks to the boolean column that lets a rule be untrue in spite of them."""

INCOMPLETE = "queues_unknown"
"""The column that is above 0 where a part of the row is unknown."""


def bound_of(column: str, row: Mapping[str, Any]) -> Bound | None:
    """Return the kind of bound of a number of a row; None where it is exact or unknown.

    Args:
        column: its name.
        row: the row with its marks, of ``progress.groups``, ``progress.queues``,
            ``alerting.incidents`` or a live snapshot.
    """
    if row.get(column) is None:
        return None
    # The value of an alert rule is of any column, so its bound is recorded with it.
    if recorded := row.get(f"{column}_bound"):
        return Bound(recorded)
    is_upper = column in _MINIMA
    is_partial = (column in _SUMS or is_upper) and column not in _COUNTED_AS_BEFORE
    if (is_partial and _is_incomplete(row)) or any(
        _is_marked(mark, row) for mark in _MARKED_BY.get(column, ())
    ):
        return Bound.UPPER if is_upper else Bound.LOWER
    by_kind = BOUND_BY_KIND.get(column, {}).get(row.get(KIND) or "")
    # Nothing is less than 0, so an upper bound of 0 is the truth.
    return None if by_kind is Bound.UPPER and row[column] == 0 else by_kind


def marked(text: str, bound: Bound | None) -> str:
    """Return a number's text with its mark: ``≥ 18 m``."""
    return f"{bound.mark} {text}" if bound else text


def columns_with_marks(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return columns of ``progress.groups`` with those that mark any of them as a bound."""
    marks = [mark for name in columns for mark in MARKED_BY.get(name, ())]
    if any(name in SUMS or name in MINIMA for name in columns):
        marks.append(INCOMPLETE)
    if any(name in BOUND_BY_KIND for name in columns):
        marks.append(KIND)
    return tuple(dict.fromkeys((*columns, *marks)))


def certain(condition: str) -> str:
    """Return SQL of whether an SQL condition about groups may count as untrue.

    It may where all its numbers are exact. The lag of a group that acknowledges popped messages
    counts as exact too: an unacknowledged message is in a retry topic after its invisible time, so
    such a group hides no lag for long. Otherwise no incident of the group would ever resolve.
    """
    return f"complete AND {_without_marks(condition, SETTLED)}"


def bound_in_sql(value: str) -> str:
    """Return SQL of the `Bound` of an SQL expression about groups; NULL where it is the truth."""
    names = _columns_in(value)
    partial = (names & (_SUMS | _MINIMA)) - _COUNTED_AS_BEFORE
    if not names & _MARKED_BY.keys() and not partial:
        return "CAST(NULL AS STRING)"
    bound = Bound.UPPER if names & _MINIMA else Bound.LOWER
    exact = _without_marks(value)
    known = f"complete AND {exact}" if partial else exact
    by_kind = "".join(
        f" WHEN {_is_of_kind(bounds, bound)} THEN '{bound}'"
        for name, bounds in BOUND_BY_KIND.items()
        if name in names
        for bound in dict.fromkeys(bounds.values())
    )
    return (
        f"CASE WHEN ({value}) IS NULL THEN CAST(NULL AS STRING) "
        f"WHEN NOT ({known}) THEN '{bound}'{by_kind} END"
    )


def without_untrue_zero(column: str) -> str:
    """Return SQL of a column that is NULL where it is a lower bound of 0, which states nothing."""
    return f"CASE WHEN {column} <> 0 OR {_without_marks(column)} THEN {column} END"


def _is_incomplete(row: Mapping[str, Any]) -> bool:
    return row.get("complete") is False or bool(row.get(INCOMPLETE))


def _is_marked(mark: str, row: Mapping[str, Any]) -> bool:
    if mark == "delay_is_lower_bound" and row.get("delay_source") == DelaySource.AT_LEAST:
        # Rows of queues have the source of their delay in place of the mark.
        return True
    return bool(row.get(mark))


def _without_marks(sql: str, settled: Mapping[str, str] | None = None) -> str:
    """Return SQL of whether no mark makes a number of an SQL expression a bound.

    Args:
        sql: the expression.
        settled: marks to columns that overrule them where they are true.
    """
    marks = sorted({mark for name in _columns_in(sql) for mark in _MARKED_BY.get(name, ())})

    def unmarked(mark: str) -> str:
        overruled = (settled or {}).get(mark, "false")
        return f"(NOT coalesce({mark}, false) OR coalesce({overruled}, false))"

    of_kinds = [
        f"NOT {_is_of_kind(bounds, Bound.LOWER)}"
        for name, bounds in BOUND_BY_KIND.items()
        if name in _columns_in(sql) and Bound.LOWER in bounds.values()
    ]
    return " AND ".join([*map(unmarked, marks), *of_kinds]) or "true"


def _is_of_kind(bounds: Mapping[str, Bound], bound: Bound) -> str:
    """Return SQL of whether the kind of consumption makes a number this bound."""
    kinds = ", ".join(f"'{kind}'" for kind in bounds if bounds[kind] is bound)
    return f"coalesce({KIND} IN ({kinds}), false)"


def _columns_in(sql: str) -> frozenset[str]:
    """Return the columns with a bound that an SQL expression names."""
    bounded = _SUMS | _MINIMA | _MARKED_BY.keys() | BOUND_BY_KIND.keys()
    return names_in(sql) & bounded


def names_in(sql: str) -> frozenset[str]:
    """Return the words of an SQL text outside of its literals, among them the columns it names.

    SQL distinguishes no upper and lower case in them; they are returned in lower case.
    """
    without_literals = re.sub(r"'(?:[^'\\]|\\.|'')*'", " ", sql)
    return frozenset(re.findall(r"\w+", without_literals.lower()))
