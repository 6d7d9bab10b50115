"""`Expectation`, a condition on the rows of a table, its constructors and annotation columns.

A condition is Spark SQL with three values. TRUE: the row meets the expectation. FALSE: the row
violates it. NULL: the condition does not apply, because an operand is unknown or the expectation
excludes the row. SQL gives this by itself: ``min_offset <= max_offset`` is NULL where either is.

Where a built-in expectation type of Great Expectations means the same, the declaration names it,
and a suite holds that type. Conditions that no built-in type can express are of a type of our own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.lake.schema import Table
from tidemark.planning.quarantine_decisions import KEY_UNIQUE, RELEASED

COPY = "_copy"
"""Every table: 1 for the first of identical rows, 2 for the next, and so on. Among rows of one key,
released ones come first."""

COPIES = "_copies"
"""Every table: number of rows with the same key."""

CONFLICT = "_conflict"
"""Every table: whether rows with the same key differ in any other column."""

DECISION = "_decision"
"""Every table: a person's decision on the row, ``released`` or ``dropped``; NULL without one."""

QUEUE_ROW = "_queue_row"
"""``raw.consumer_offsets``: state of the queue's row in ``raw.queue_offsets`` of the same snapshot,
``valid``, ``quarantined`` or ``absent``."""

LAG_OF_QUEUES = "_lag_of_queues"
"""``progress.groups``: the sum of ``lag`` over the group's rows of ``progress.queues`` in the same
snapshot; NULL when those rows are not given or none of them has a lag."""

ROWS = "_rows"
"""``raw.snapshots``: number of rows of queue offsets and consumer offsets in the snapshot."""

USUAL_ROWS = "_usual_rows"
"""``raw.snapshots``: mean of `ROWS` over the cluster's snapshots of the hour before; NULL when that
hour has none."""

DISAGREEING_QUEUES = "_disagreeing_queues"
"""``raw.snapshots`` of a store: number of queues whose ``max_offset`` is not between those of the
live snapshots before and after; NULL when no queue has both."""

BULK = "_bulk"
"""``raw.consume_stats``: ``consumer_offset`` and ``max_offset`` of the same queue as read in bulk,
in the same snapshot and in the next one (``next_consumer_offset``, ``next_max_offset``). NULL
without a next one, or when one of the offsets fell in between."""

LAG_OF_OFFSETS = "_lag_of_offsets"
"""``raw.broker_metrics``: the least and the most lag (``least``, ``most``) that the group can have
had at the broker between this snapshot's offsets and the next one's, with its ``consume_mode`` and
``match_method``. NULL where they do not show it: without a next snapshot, with queues that never
committed, for groups that broadcast, or when an offset fell in between."""


Severity = Literal["block", "quarantine", "warn"]

NAME = "expectation"
"""Key in the ``meta`` of an expectation of Great Expectations: its name."""


def texts(values: Iterable[str]) -> str:
    """Return texts as literals of Spark SQL, separated by commas."""
    return ", ".join(f"'{value}'" for value in values)


@dataclass(frozen=True)
class BuiltIn:
    """A built-in expectation type of Great Expectations with its arguments.

    Attributes:
        type: e.g. ``expect_column_values_to_be_between``.
        arguments: its arguments besides ``mostly``.
    """

    type: str
    arguments: Mapping[str, Any] = field(hash=False)

    @property
    def condition(self) -> str:
        """Spark SQL with the same meaning; NULL where the type ignores the row.

        Raises:
            ValueError: the type compares rows, which no condition on one row does.
        """
        arguments = self.arguments
        column = arguments.get("column", "")
        match self.type.removeprefix("expect_column_"):
            case "values_to_not_be_null":
                return f"{column} IS NOT NULL"
            case "values_to_be_between" if "max_value" in arguments:
                return f"{column} BETWEEN {arguments['min_value']} AND {arguments['max_value']}"
            case "values_to_be_between":
                return f"{column} >= {arguments['min_value']}"
            case "values_to_be_in_set":
                return f"{column} IN ({texts(arguments['value_set'])})"
            case "values_to_not_be_in_set":
                return f"{column} NOT IN ({texts(arguments['value_set'])})"
            case "pair_values_a_to_be_greater_than_b":
                least = "<=" if arguments["or_equal"] else "<"
                return f"{arguments['column_B']} {least} {arguments['column_A']}"
        raise ValueError(f"{self.type} has no condition on one row")


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """One condition that every row of a table must meet.

    Attributes:
        name: readable and unique in its table, e.g. ``consumer_offset_le_pull_offset``.
        severity: ``block`` = nothing is computed from the table while a row violates it;
            ``quarantine`` = a row that violates it cannot be a measurement and is quarantined;
            ``warn`` = a row that violates it is a measurement; the check fails and shows it.
        condition: Spark SQL; TRUE = met, FALSE = violated, NULL = does not apply.
        violation: a violating row in words, e.g. ``min_offset > max_offset``.
        columns: columns that a sample of violating rows shows besides the key.
        mostly: share of the rows to which it applies that must meet it, 0..1, as in Great
            Expectations.
        built_in: the type of Great Expectations that the same rows violate; None where none does.
        own_check: whether it has an asset check of its own in Dagster besides that of its table,
            because a person wants to be alerted about it by name.
    """

    name: str
    severity: Severity
    condition: str
    violation: str
    columns: tuple[str, ...] = ()
    mostly: float = 1.0
    built_in: BuiltIn | None = None
    own_check: bool = False

    @property
    def expected(self) -> str:
        """The expectation in one line for people."""
        most = "0 rows" if self.mostly == 1 else f"at most {100 * (1 - self.mostly):.6g}% of rows"
        return f"{most} where {self.violation}"

    @property
    def description(self) -> str:
        """Name, expectation and severity in one line, as Dagster and Data Docs show them."""
        return f"{self.name}: {self.expected} ({self.severity})"

    @property
    def is_violated(self) -> Column:
        """TRUE for a row that violates the expectation, else FALSE; never NULL."""
        return F.coalesce(~F.expr(self.condition), F.lit(False))


def not_null(column: str, severity: Severity = "warn") -> Expectation:
    """Expect a known value. This is the only kind that NULL violates."""
    built_in = BuiltIn("expect_column_values_to_not_be_null", {"column": column})
    return Expectation(
        name=f"{column}_not_null",
        severity=severity,
        condition=built_in.condition,
        violation=f"{column} is NULL",
        columns=(column,),
        built_in=built_in,
    )


def at_least(column: str, least: int, severity: Severity = "warn") -> Expectation:
    """Expect a number that is not below `least`."""
    arguments = {"column": column, "min_value": least}
    built_in = BuiltIn("expect_column_values_to_be_between", arguments)
    return Expectation(
        name=f"{column}_ge_{least}",
        severity=severity,
        condition=built_in.condition,
        violation=f"{column} < {least}",
        columns=(column,),
        built_in=built_in,
    )


def between(column: str, least: int, most: int, severity: Severity = "warn") -> Expectation:
    """Expect a number in `least`..`most`, both included."""
    arguments = {"column": column, "min_value": least, "max_value": most}
    built_in = BuiltIn("expect_column_values_to_be_between", arguments)
    return Expectation(
        name=f"{column}_in_{least}_to_{most}",
        severity=severity,
        condition=built_in.condition,
        violation=f"{column} is outside {least}..{most}",
        columns=(column,),
        built_in=built_in,
    )


def one_of(column: str, *values: str) -> Expectation:
    """Expect one of these texts."""
    arguments = {"column": column, "value_set": list(values)}
    built_in = BuiltIn("expect_column_values_to_be_in_set", arguments)
    return Expectation(
        name=f"{column}_known",
        severity="warn",
        condition=built_in.condition,
        violation=f"{column} is none of {texts(values)}",
        columns=(column,),
        built_in=built_in,
    )


def ordered(
    low: str,
    high: str,
    severity: Severity = "warn",
    *,
    show: tuple[str, ...] = (),
    name: str = "",
    strictly: bool = False,
    own_check: bool = False,
) -> Expectation:
    """Expect ``low <= high``.

    Args:
        low: a column.
        high: another.
        severity: of the expectation.
        show: further columns that a sample shows.
        name: of the expectation, unless it is ``low_le_high``.
        strictly: whether equal values violate it too.
        own_check: whether it has an asset check of its own.
    """
    arguments: dict[str, Any] = {"column_A": high, "column_B": low, "or_equal": not strictly}
    arguments["ignore_row_if"] = "either_value_is_missing"
    built_in = BuiltIn("expect_column_pair_values_a_to_be_greater_than_b", arguments)
    return Expectation(
        name=name or f"{low}_le_{high}",
        severity=severity,
        condition=built_in.condition,
        violation=f"{low} {'>=' if strictly else '>'} {high}",
        columns=(low, high, *show),
        built_in=built_in,
        own_check=own_check,
    )


def unique(table: Table, severity: Severity = "quarantine") -> Expectation:
    """Expect no other row with the same key, where the key is complete.

    In tables with a quarantine, one of several identical rows meets the expectation, because it is
    the measurement. No conflicting row meets it, because nothing shows which of them was measured.
    In other tables all rows of the key violate it.
    """
    known = " AND ".join(f"{column} IS NOT NULL" for column in table.required)
    met = f"{COPY} = 1 AND NOT {CONFLICT}" if severity == "quarantine" else f"{COPIES} = 1"
    # A NULL in an optional column is a value of the key, and the built-in type ignores it. It takes
    # two columns or more.
    is_complete = table.required == list(table.key)
    is_built_in = severity != "quarantine" and is_complete and len(table.key) > 1
    arguments = {"column_list": list(table.key), "ignore_row_if": "any_value_is_missing"}
    return Expectation(
        name=KEY_UNIQUE,
        severity=severity,
        condition=f"CASE WHEN {known} THEN {met} END",
        violation=f"another row has the same {', '.join(table.key)}",
        columns=tuple(table.column_names),
        built_in=BuiltIn("expect_compound_columns_to_be_unique", arguments)
        if is_built_in
        else None,
    )


def structural(table: Table, severity: Severity = "quarantine") -> tuple[Expectation, ...]:
    """Return the expectations that a table's declaration implies: a known and unique key."""
    return (*(not_null(column, severity) for column in table.required), unique(table, severity))


def is_valid(expectations: Sequence[Expectation]) -> Column:
    """Return TRUE for a row that violates no expectation of severity ``quarantine``, else FALSE.

    A released row is valid too, but only one row of each key: a release never duplicates a key. The
    column is never NULL.
    """
    meets_all = F.lit(True)
    for expectation in expectations:
        if expectation.severity == "quarantine":
            meets_all = meets_all & ~expectation.is_violated
    return meets_all | (F.col(DECISION).eqNullSafe(RELEASED) & (F.col(COPY) == 1))
