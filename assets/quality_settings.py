"""The settings file of data quality: what single rules tolerate, and what breaking them does.

::

    quality:
    - table: raw.brokers
      expectation: put_tps_ge_0      # as quality.results names it
      mostly: 0.99                   # its check fails when fewer rows of a window keep it
    - {table: raw.topics, expectation: perm_in_0_to_7, severity: block}   # block or warn

A rule of severity ``quarantine`` says what cannot be a measurement. That is no matter of taste: it
always sets its rows aside, and only its `mostly` can be changed, which decides whether the check
fails. ``block`` is for the tables that ticks judge, where there is something to stop.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from alerting.fields import Strict
from expectations.rules import Rule
from expectations.suites import RULES, SUITES
from lake.documents import read_items
from lake.home import Home


class QualitySettings(Strict):
    """One entry of the file; see `expectations.rules.Rule`."""

    table: str
    expectation: str
    mostly: Annotated[float, Field(ge=0, le=1)] | None = None
    severity: Literal["block", "warn"] | None = None

    @field_validator("table")
    @classmethod
    def _judged(cls, value: str) -> str:
        if value not in SUITES:
            raise ValueError(f"no table {value!r}, there are {', '.join(sorted(SUITES))}")
        return value

    @field_validator("expectation")
    @classmethod
    def _declared(cls, value: str, info: ValidationInfo) -> str:
        table = info.data.get("table")
        names = [rule.name for rule in SUITES.get(table or "", ())]
        if table and value not in names:
            raise ValueError(f"{table} has no expectation {value!r}, it has {', '.join(names)}")
        return value

    @field_validator("severity")
    @classmethod
    def _changeable(cls, value: str | None, info: ValidationInfo) -> str | None:
        table, name = info.data.get("table"), info.data.get("expectation")
        for rule in SUITES.get(table or "", ()):
            if value and rule.name == name and rule.severity == "quarantine":
                raise ValueError(f"{name} always sets its rows aside, only mostly can be changed")
        by_ticks = [rule.name for rule in RULES.get(table or "", ())]
        if value == "block" and table and name not in by_ticks:
            raise ValueError(f"{name} is asked once an hour, when there is nothing to block")
        return value

    @model_validator(mode="after")
    def _says_something(self) -> "QualitySettings":
        if self.mostly is None and self.severity is None:
            raise ValueError("mostly or severity is wanted")
        return self

    def of(self, rule: Rule) -> Rule:
        """The rule as it says, where it says something."""
        said: dict[str, Any] = self.model_dump(include={"mostly", "severity"}, exclude_none=True)
        return replace(rule, **said)


NAMED_BY = "TIDEMARK_QUALITY"


def settings_path(home: Home, environment: Mapping[str, str] = os.environ) -> Path:
    """Where the file is: ``TIDEMARK_QUALITY``, else ``quality.yaml`` in the home."""
    return Path(environment.get(NAMED_BY) or home.path / "quality.yaml")


def read(file: Path) -> tuple[Sequence[QualitySettings], list[str]]:
    """The entries that can be used, and a line for each mistake; none where there is no file.

    A file that somebody named has to be there.

    Args:
        file: mistakes name it as it is given here.
    """
    found: dict[tuple[str, str], QualitySettings] = {}
    mistakes: list[str] = []
    validate = QualitySettings.model_validate
    for item in read_items(file, "quality", "an entry", validate, named_by=NAMED_BY):
        if isinstance(item, str):
            mistakes.append(item)
            continue
        rule = item.value.table, item.value.expectation
        if rule in found:
            mistakes.append(f"{item.place('expectation')}: {'.'.join(rule)} stands above too")
        else:
            found[rule] = item.value
    return list(found.values()), mistakes


def suites(
    settings: Sequence[QualitySettings], of: Mapping[str, tuple[Rule, ...]] = SUITES
) -> Mapping[str, tuple[Rule, ...]]:
    """The rules of tables, as configured.

    Args:
        settings: what is configured.
        of: the rules by full name of their table: all, or those that ticks ask.
    """
    said = {(each.table, each.expectation): each for each in settings}
    return {
        table: tuple(
            said[table, rule.name].of(rule) if (table, rule.name) in said else rule
            for rule in rules
        )
        for table, rules in of.items()
    }
