"""Types of the fields of rules: durations, numbers, hours of the day, globs on subjects."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from fnmatch import translate
from functools import cache
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from tidemark.settings.times import seconds

_HOUR = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
MOST_OBSERVATIONS = 10_000


class Strict(BaseModel, frozen=True):
    """A mapping whose unknown keys and near-miss types are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_by_name=True)


Seconds = Annotated[
    float,
    BeforeValidator(seconds, json_schema_input_type=Annotated[str, Field(pattern=r"^\d")] | float),
]


Messages = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Messages; a rule is true *above* it."""

Count = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Queues, members or the like; a rule is true *above* it."""

Share = Annotated[float, Field(gt=0, lt=1)]
"""A share, 0.85 for 85 %."""

Limit = Annotated[float, Field(allow_inf_nan=False)]
"""Any number that a column can be compared with."""


@dataclass(frozen=True)
class Span:
    """Duration of a condition: a number of consecutive observations, or a time.

    Attributes:
        observations: known ones in a row, at least 1.
        time: from the first of them to the last.
    """

    observations: int = 1
    time: timedelta = timedelta(0)

    def reached(self, observations: int, lasted: timedelta, times: int = 1) -> bool:
        """Return whether the condition has lasted long enough, or that many times as long."""
        return observations >= self.observations * times and lasted >= self.time * times


def _span(value: Any) -> Any:
    if isinstance(value, Span):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= MOST_OBSERVATIONS:
            raise ValueError(f"1 to {MOST_OBSERVATIONS} observations are wanted, not {value}")
        return Span(value)
    if isinstance(value, str):
        if value.strip().isdecimal():  # perhaps meant as a number of observations
            raise ValueError(f"a duration is wanted, e.g. 90s, 5m, 2h or 1d, not {value!r}")
        return Span(1, timedelta(seconds=seconds(value)))
    raise ValueError(f"a number of observations (3) or a duration (10m) is wanted, not {value!r}")


For = Annotated[Span, BeforeValidator(_span, json_schema_input_type=int | str)]
"""Observations in a row (``3``; those not known are passed over), or a time (``10m``)."""


def _one_or_many(value: Any) -> Any:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


Globs = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    BeforeValidator(_one_or_many, json_schema_input_type=str | list[str]),
    Field(min_length=1),
]
"""One glob, or a list of which one must match: ``*`` any text, ``?`` a character, case counts."""


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    # Only * and ? mean something: a topic may well hold a bracket.
    return re.compile(translate(glob.replace("[", "[[]")))


def fits(globs: Mapping[str, Sequence[str]], columns: Mapping[str, Any]) -> bool:
    """Return whether one glob of every column fits; a missing column fits only ``*``."""
    return all(
        "*" in patterns or _fits(patterns, columns.get(name)) for name, patterns in globs.items()
    )


def fits_text(globs: Iterable[str], text: str) -> bool:
    """Return whether one glob fits a text, which may be empty."""
    return any(_pattern(glob).match(text) for glob in globs)


def as_tuple(value: Any) -> Any:
    """Return one text or mapping, or a list of them, as a tuple, and any other value unchanged."""
    if isinstance(value, str | dict):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _fits(globs: Iterable[str], value: Any) -> bool:
    return value is not None and any(_pattern(glob).match(str(value)) for glob in globs)


def _hour(value: Any) -> Any:
    if not isinstance(value, str) or not _HOUR.fullmatch(value):
        # YAML takes 22:00 without quotes for a number.
        raise ValueError(f'an hour in quotes is wanted, e.g. "22:00", not {value!r}')
    return value


HourOfDay = Annotated[str, BeforeValidator(_hour, json_schema_input_type=str)]


def known_zone(value: Any) -> Any:
    """Return the name of a time zone.

    Raises:
        ValueError: there is none of that name.
    """
    try:
        ZoneInfo(value)
    except (KeyError, OSError, ValueError, TypeError):
        raise ValueError(
            f"{value!r} is no time zone, write one like UTC or Europe/Berlin"
        ) from None
    return value


class QuietHours(Strict, frozen=True):
    """Hours without notifications; incidents that are open at their end are notified then."""

    start: Annotated[HourOfDay, Field(alias="from")]
    end: Annotated[HourOfDay, Field(alias="to")]
    zone: str = "UTC"

    @field_validator("zone")
    @classmethod
    def _known(cls, value: str) -> str:
        return known_zone(value)

    def hold(self, instant: datetime) -> bool:
        """Return whether an instant lies in them; ``22:00`` to ``07:00`` includes midnight."""
        here = instant.astimezone(ZoneInfo(self.zone)).time()
        start, end = time.fromisoformat(self.start), time.fromisoformat(self.end)
        return start <= here < end if start < end else here >= start or here < end


class GroupMatch(Strict, frozen=True):
    """Condition on the groups and topics that a rule is about.

    Everything by default, ``%RETRY%`` topics too: messages that wait there for another attempt are
    waiting like any others, and the alert's subject names the topic.
    """

    cluster: Globs = ("*",)
    consumer_group: Globs = ("*",)
    topic: Globs = ("*",)


class TopicMatch(Strict, frozen=True):
    """Condition on the topics that a rule is about."""

    cluster: Globs = ("*",)
    topic: Globs = ("*",)


class BrokerMatch(Strict, frozen=True):
    """Condition on the brokers that a rule is about; by default all, masters and slaves."""

    cluster: Globs = ("*",)
    broker: Globs = ("*",)


class ClusterMatch(Strict, frozen=True):
    """Condition on the clusters that a rule is about."""

    cluster: Globs = ("*",)


class TableMatch(Strict, frozen=True):
    """Condition on the rows of ``quality.results`` that a rule is about."""

    table: Globs = ("*",)
    expectation: Globs = ("*",)


Match = Mapping[str, tuple[str, ...]]
"""Column name to globs, of which one must match."""
