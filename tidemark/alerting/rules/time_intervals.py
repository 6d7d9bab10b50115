"""Time intervals of routes: times of day, weekdays, days, months and years, in a zone.

The grammar is Alertmanager's, so that an interval means the same in both.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, field_validator

from tidemark.settings.fields import Strict, as_tuple, known_zone

WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)

_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00")

Range = tuple[int, int]
"""First and last value, both included."""


def _minutes(value: Any) -> Any:
    # YAML takes 17:00 without quotes for a number in base 60, which is its minute. A smaller number
    # than 1:00 makes was meant as an hour.
    if isinstance(value, int) and 60 <= value <= 24 * 60:
        return value
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError(f'a time in quotes is wanted, e.g. "17:00", not {value!r}')
    hours, minutes = value.split(":")
    return int(hours) * 60 + int(minutes)


MinuteOfDay = Annotated[int, BeforeValidator(_minutes, json_schema_input_type=str)]


class TimeRange(Strict, frozen=True):
    """Times of one day.

    Attributes:
        start_time: first minute of the day.
        end_time: minute at which it is over; ``24:00`` is the end of the day.
    """

    start_time: MinuteOfDay
    end_time: MinuteOfDay

    @field_validator("end_time")
    @classmethod
    def _after_start(cls, value: int, info: Any) -> int:
        if value <= info.data.get("start_time", -1):
            raise ValueError("it has to be after start_time; write two ranges to go over midnight")
        return value


def _number(text: str, names: Sequence[str], offset: int) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + offset
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    raise ValueError(f"{text!r} is unknown" + (f", known are {', '.join(names)}" if names else ""))


def _ranges(
    least: int, most: int, names: Sequence[str] = (), offset: int = 0, *, negative: bool = False
) -> Callable[[Any], Any]:
    def one(value: Any) -> Range:
        if isinstance(value, tuple):
            return value
        first, _, last = str(value).strip().partition(":")
        begin = _number(first, names, offset)
        end = _number(last, names, offset) if last else begin
        for part in (begin, end):
            if not (least <= part <= most or (negative and -most <= part <= -least)):
                raise ValueError(f"{part} is not within {least} to {most}")
        if begin > end and (begin < 0) == (end < 0):
            raise ValueError(f"{value!r} ends before it begins")
        return begin, end

    def every(value: Any) -> Any:
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(one(value) for value in values)

    return every


def _field(**how: Any) -> Any:
    validator = BeforeValidator(_ranges(**how), json_schema_input_type=str | int | list[str | int])
    return Annotated[tuple[Range, ...], validator]


class TimeInterval(Strict, frozen=True):
    """Instants: every field that is set has to fit, of each one of its ranges.

    Attributes:
        times: times of the day.
        weekdays: ``monday:friday`` or ``sunday``.
        days_of_month: ``1:5``; negative ones count from the end of the month.
        months: ``january:march`` or ``1:3``.
        years: ``2026:2027``.
        location: time zone.
    """

    times: Annotated[tuple[TimeRange, ...], BeforeValidator(as_tuple)] = ()
    weekdays: _field(least=0, most=6, names=WEEKDAYS) = ()  # pyright: ignore
    days_of_month: _field(least=1, most=31, negative=True) = ()  # pyright: ignore
    months: _field(least=1, most=12, names=MONTHS, offset=1) = ()  # pyright: ignore
    years: _field(least=1, most=9999) = ()  # pyright: ignore
    location: Annotated[str, BeforeValidator(known_zone)] = "UTC"

    def holds(self, instant: datetime) -> bool:
        """Return whether an instant lies in it."""
        here = instant.astimezone(ZoneInfo(self.location))
        minute = here.hour * 60 + here.minute
        days = monthrange(here.year, here.month)[1]
        return (
            _any(
                minute,
                [(time_range.start_time, time_range.end_time - 1) for time_range in self.times],
            )
            and _any(here.isoweekday() % 7, self.weekdays)
            and _any(here.day, [_from_start(day, days) for day in self.days_of_month])
            and _any(here.month, self.months)
            and _any(here.year, self.years)
        )


def _any(value: int, ranges: Sequence[Range]) -> bool:
    return not ranges or any(first <= value <= last for first, last in ranges)


def _from_start(days: Range, in_month: int) -> Range:
    first, last = (day if day > 0 else in_month + day + 1 for day in days)
    return first, last


class NamedIntervals(Strict, frozen=True):
    """Time intervals that routes name: an instant lies in them when it lies in one."""

    name: Annotated[str, Field(min_length=1)]
    time_intervals: Annotated[tuple[TimeInterval, ...], BeforeValidator(as_tuple)]

    def hold(self, instant: datetime) -> bool:
        """Return whether an instant lies in one of them."""
        return any(time_interval.holds(instant) for time_interval in self.time_intervals)
