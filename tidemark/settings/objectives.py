"""Objectives of groups: how late, or how far behind, a group may be, and for how much of the time.

::

    objectives:
    - name: orders-on-time
      match: {consumer_group: "orders-*"}   # globs; also cluster and topic
      delay: 30s                            # or `lag: 1000`, in messages
      target: 99.5%                         # of the minutes of the window
      window: 30d

Each objective counts for every group on a topic that it matches, whatever the others match.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from tidemark.settings.fields import GroupMatch, Messages, Seconds, Strict
from tidemark.settings.yaml_documents import read_items, schema_of_list

HOUR = timedelta(hours=1)

LONGEST_DAYS = 90
"""Longest window of an objective, in days. Tables keep as much history by default."""


LONGEST_HOURS = 6
"""Longest window of burn rates, in hours."""


class Measure(StrEnum):
    """The number that an objective bounds, by its name in the file and in tables."""

    DELAY = "delay"
    LAG = "lag"


class MinuteState(StrEnum):
    """Whether a minute met an objective, as ``progress.objectives.minutes`` spells it."""

    GOOD = "+"
    BAD = "-"
    UNKNOWN = "?"


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A promise about groups.

    Attributes:
        name: of the objective, unique in the file.
        match: column name (``cluster, consumer_group, topic``) to globs, of which one must match.
        measure: the number that it bounds.
        threshold: milliseconds of `Measure.DELAY`, messages of `Measure.LAG`; a minute with more
            is a bad one.
        target: share of the window's minutes that must not be bad, below 1.
        window: whole hours over which the target holds.
    """

    name: str
    match: Mapping[str, Sequence[str]]
    measure: Measure
    threshold: float
    target: float
    window: timedelta

    @property
    def budget(self) -> float:
        """Minutes of the window that may be bad."""
        return (1 - self.target) * (self.window / timedelta(minutes=1))


def _target(value: Any) -> Any:
    share = value
    if isinstance(value, str) and value.strip().endswith("%"):
        with suppress(ValueError):
            share = float(value.strip()[:-1]) / 100
    if isinstance(share, str) or (isinstance(share, int | float) and not 0 < share < 1):
        raise ValueError(f"a share of the time below 100% is wanted, e.g. 99.5%, not {value!r}")
    return share


class ObjectiveSettings(Strict, frozen=True):
    """One entry of the file; see `Objective`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    match: GroupMatch
    delay: Seconds | None = None
    lag: Messages | None = None
    target: Annotated[float, BeforeValidator(_target, json_schema_input_type=str | float)]
    window: Seconds

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.delay is None) == (self.lag is None):
            raise ValueError("delay or lag is wanted, and not both")
        window = timedelta(seconds=self.window)
        if window % HOUR or not HOUR <= window <= timedelta(days=LONGEST_DAYS):
            raise ValueError(f"a window of whole hours is wanted, at most {LONGEST_DAYS}d")
        return self

    def objective(self) -> Objective:
        """Return the objective that the entry declares."""
        is_delay = self.delay is not None
        return Objective(
            name=self.name,
            match=self.match.model_dump(),
            measure=Measure.DELAY if is_delay else Measure.LAG,
            threshold=1000 * self.delay if self.delay is not None else self.lag or 0.0,
            target=self.target,
            window=timedelta(seconds=self.window),
        )


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the file, for editors."""
    return schema_of_list("objectives", "Tidemark objectives", ObjectiveSettings)


def read(file: Path, *, required: bool = False) -> tuple[Sequence[Objective], list[str]]:
    """Return the objectives that can be used, and a line for each mistake.

    Args:
        file: mistakes name it as it is given here.
        required: whether it is a mistake when the file does not exist.
    """
    objectives: dict[str, Objective] = {}
    mistakes: list[str] = []
    validate = ObjectiveSettings.model_validate
    for item in read_items(
        file, "objectives", "an objective", validate, required=required, of=ObjectiveSettings
    ):
        if isinstance(item, str):
            mistakes.append(item)
        elif item.value.name in objectives:
            mistakes.append(f"{item.place('name')}: {item.value.name!r} is the name of another")
        else:
            objectives[item.value.name] = item.value.objective()
    return list(objectives.values()), mistakes
