"""The settings file of data quality: tolerance and severity of single expectations.

::

    quality:
    - table: raw.brokers
      expectation: put_tps_ge_0      # as quality.results names it
      mostly: 0.99                   # its check fails when fewer rows of a window meet it
    - {table: raw.topics, expectation: perm_in_0_to_7, severity: block}   # block or warn

An expectation of severity ``quarantine`` defines rows that cannot be measurements, so its severity
is fixed: it always quarantines its rows. Its `mostly` can be changed, which decides whether the
check fails. ``block`` needs an expectation that ticks validate, because only a tick can be stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.declarations import Expectation
from expectations.tick_suites import TICK_EXPECTATIONS
from tidemark.settings.fields import Strict
from tidemark.settings.yaml_documents import read_items


class Tolerance(Strict, frozen=True):
    """One entry of the file; see `expectations.declarations.Expectation` for the fields."""

    table: str
    expectation: str
    mostly: Annotated[float, Field(ge=0, le=1)] | None = None
    severity: Literal["block", "warn"] | None = None

    @field_validator("table")
    @classmethod
    def _known_table(cls, value: str) -> str:
        if value not in AUDIT_EXPECTATIONS:
            tables = ", ".join(sorted(AUDIT_EXPECTATIONS))
            raise ValueError(f"no table {value!r}, there are {tables}")
        return value

    @field_validator("expectation")
    @classmethod
    def _known_expectation(cls, value: str, info: ValidationInfo) -> str:
        table = info.data.get("table")
        names = [expectation.name for expectation in AUDIT_EXPECTATIONS.get(table or "", ())]
        if table and value not in names:
            raise ValueError(f"{table} has no expectation {value!r}, it has {', '.join(names)}")
        return value

    @field_validator("severity")
    @classmethod
    def _changeable_severity(cls, value: str | None, info: ValidationInfo) -> str | None:
        table, name = info.data.get("table"), info.data.get("expectation")
        for expectation in AUDIT_EXPECTATIONS.get(table or "", ()):
            if value and expectation.name == name and expectation.severity == "quarantine":
                raise ValueError(f"{name} always quarantines its rows, only mostly can be changed")
        of_ticks = [expectation.name for expectation in TICK_EXPECTATIONS.get(table or "", ())]
        if value == "block" and table and name not in of_ticks:
            raise ValueError(f"{name} is validated once an hour, when there is nothing to block")
        return value

    @model_validator(mode="after")
    def _changes_something(self) -> "Tolerance":
        if self.mostly is None and self.severity is None:
            raise ValueError("mostly or severity is required")
        return self

    def applied_to(self, expectation: Expectation) -> Expectation:
        """Return the expectation with the fields that this entry sets."""
        changes: dict[str, Any] = self.model_dump(include={"mostly", "severity"}, exclude_none=True)
        return replace(expectation, **changes)


def read(file: Path, *, required: bool = False) -> tuple[Sequence[Tolerance], list[str]]:
    """Read the file.

    Args:
        file: its path, as mistakes name it.
        required: whether it is a mistake when the file does not exist.

    Returns:
        The valid entries, and one line for each mistake.
    """
    tolerances: dict[tuple[str, str], Tolerance] = {}
    mistakes: list[str] = []
    validate = Tolerance.model_validate
    for item in read_items(file, "quality", "an entry", validate, required=required, of=Tolerance):
        if isinstance(item, str):
            mistakes.append(item)
            continue
        key = item.value.table, item.value.expectation
        if key in tolerances:
            mistakes.append(f"{item.place('expectation')}: {'.'.join(key)} has an entry above")
        else:
            tolerances[key] = item.value
    return list(tolerances.values()), mistakes


def suites(
    tolerances: Sequence[Tolerance],
    declared: Mapping[str, tuple[Expectation, ...]] = AUDIT_EXPECTATIONS,
) -> Mapping[str, tuple[Expectation, ...]]:
    """Return the expectations of tables as configured.

    Args:
        tolerances: entries of the settings file.
        declared: expectations by full table name: all of them, or those of ticks.
    """
    by_expectation = {
        (tolerance.table, tolerance.expectation): tolerance for tolerance in tolerances
    }
    return {
        table: tuple(
            by_expectation[table, expectation.name].applied_to(expectation)
            if (table, expectation.name) in by_expectation
            else expectation
            for expectation in expectations
        )
        for table, expectations in declared.items()
    }
