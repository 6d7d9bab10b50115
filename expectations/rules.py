"""What a row rule is, and the few shapes that rules come in.

A rule's condition is Spark SQL with three values: TRUE the row keeps the rule, FALSE it breaks it,
NULL it was not asked, because an operand is not known or the rule does not apply. SQL's own NULL
arithmetic gives this for free: ``min_offset <= max_offset`` is NULL where either is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from lake.decisions import RELEASED
from lake.schema import Table

Severity = Literal["block", "quarantine", "warn"]

COPY = "_copy"
"""Annotation: 1 for the first of identical rows, 2 for the next, ... (`expectations.annotate`).
Of rows with one key, released ones come first."""

CONFLICT = "_conflict"
"""Annotation: whether rows with this row's key differ in any other column."""

KEY_UNIQUE = "key_unique"
"""Name of the rule that no two rows of a table have one key."""

DECISION = "_decision"
"""Annotation: what a person has decided on the row, ``released`` | ``dropped``; NULL = nothing."""


@dataclass(frozen=True)
class Rule:
    """One thing that must hold of every row of a table.

    Attributes:
        name: readable, unique in its table, e.g. ``consumer_offset_le_pull_offset``.
        severity: ``block`` = nothing may be computed on the table while it is broken;
            ``quarantine`` = the row cannot be a measurement and is kept out of the numbers;
            ``warn`` = the row is a measurement, the check fails and shows it.
        condition: Spark SQL; TRUE keeps the rule, FALSE breaks it, NULL is not asked.
        broken: what a broken row looks like, for people, e.g. ``min_offset > max_offset``.
        columns: columns that a sample of broken rows shows beside the key.
        mostly: share of the rows asked that must keep it, 0..1, as Great Expectations means it.
    """

    name: str
    severity: Severity
    condition: str
    broken: str
    columns: tuple[str, ...] = ()
    mostly: float = 1.0

    @property
    def expected(self) -> str:
        """The rule in one line for people."""
        most = "0 rows" if self.mostly == 1 else f"at most {100 * (1 - self.mostly):.6g}% of rows"
        return f"{most} where {self.broken}"

    @property
    def is_broken(self) -> Column:
        """TRUE for a row that breaks the rule, else FALSE; never NULL."""
        return F.coalesce(~F.expr(self.condition), F.lit(False))


def not_null(column: str, severity: Severity = "warn") -> Rule:
    """The column is known. The one shape that a NULL breaks."""
    return Rule(
        f"{column}_not_null", severity, f"{column} IS NOT NULL", f"{column} is NULL", (column,)
    )


def at_least(column: str, least: int, severity: Severity = "warn") -> Rule:
    """The number is not below `least`."""
    return Rule(
        f"{column}_ge_{least}",
        severity,
        f"{column} >= {least}",
        f"{column} < {least}",
        (column,),
    )


def between(column: str, least: int, most: int, severity: Severity = "warn") -> Rule:
    """The number lies in `least`..`most`, both included."""
    return Rule(
        f"{column}_in_{least}_to_{most}",
        severity,
        f"{column} BETWEEN {least} AND {most}",
        f"{column} is outside {least}..{most}",
        (column,),
    )


def one_of(column: str, *values: str) -> Rule:
    """The text is one of some."""
    known = ", ".join(f"'{value}'" for value in values)
    return Rule(
        f"{column}_known",
        "warn",
        f"{column} IN ({known})",
        f"{column} is none of {known}",
        (column,),
    )


def ordered(
    low: str,
    high: str,
    severity: Severity = "warn",
    *,
    where: str | None = None,
    show: tuple[str, ...] = (),
) -> Rule:
    """``low <= high``, asked only of the rows where `where` is true."""
    condition, broken = f"{low} <= {high}", f"{low} > {high}"
    return Rule(
        f"{low}_le_{high}",
        severity,
        f"CASE WHEN {where} THEN {condition} END" if where else condition,
        f"{broken} and {where}" if where else broken,
        (low, high, *show),
    )


def unique(table: Table, severity: Severity = "quarantine") -> Rule:
    """No two rows have one key: of identical rows one keeps the rule, of conflicting rows none.

    Which of several contents was measured cannot be told, so all of them go. A row whose key is
    not complete has no key to compare; `not_null` has it.
    """
    known = " AND ".join(f"{column} IS NOT NULL" for column in table.required)
    return Rule(
        KEY_UNIQUE,
        severity,
        f"CASE WHEN {known} THEN {COPY} = 1 AND NOT {CONFLICT} END",
        f"another row has the same {', '.join(table.key)}",
        tuple(table.column_names),
    )


def structural(table: Table, severity: Severity = "quarantine") -> tuple[Rule, ...]:
    """What the declaration of a table says of its rows: key columns known, key unique."""
    return (*(not_null(column, severity) for column in table.required), unique(table, severity))


def sound(rules: Sequence[Rule]) -> Column:
    """TRUE for a row that breaks no rule of severity ``quarantine``, else FALSE; never NULL.

    TRUE also for a released one, but of each key for one row only: no release makes a key double.
    """
    good = F.lit(True)
    for rule in rules:
        if rule.severity == "quarantine":
            good = good & ~rule.is_broken
    return good | (F.col(DECISION).eqNullSafe(RELEASED) & (F.col(COPY) == 1))
