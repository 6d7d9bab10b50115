"""When and to whom weekly reports go: the list ``reports`` of rule files."""

import re
from datetime import datetime, time, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field

from tidemark.alerting.rules.routing import DEFAULT_RECEIVER
from tidemark.alerting.rules.time_intervals import WEEKDAYS
from tidemark.lake.clocks import Week
from tidemark.settings.fields import Strict, known_zone

_AT = re.compile(r"([a-z]+) +(([01]\d|2[0-3]):[0-5]\d)", re.IGNORECASE)


def _at(value: Any) -> Any:
    match = _AT.fullmatch(value.strip()) if isinstance(value, str) else None
    days = [day for day in WEEKDAYS if match and day.startswith(match[1].lower())]
    if not match or len(match[1]) < 3 or len(days) != 1:
        raise ValueError(
            f"a day of the week and a time are wanted, e.g. monday 09:00, not {value!r}"
        )
    return f"{days[0]} {match[2]}"


class ReportSchedule(Strict, frozen=True):
    """A weekly report for a receiver.

    Attributes:
        receiver: name of the receiver; `DEFAULT_RECEIVER` for ``TIDEMARK_NOTIFY_URLS``.
        at: day of the week and time at which the last whole week is sent: ``monday 09:00``.
        location: time zone of `at`, and of the week, which begins on Monday 00:00 there.
        team: the team whose groups it is about; all groups unless set.
    """

    receiver: str = DEFAULT_RECEIVER
    at: Annotated[str, BeforeValidator(_at)]
    location: Annotated[str, BeforeValidator(known_zone)] = "UTC"
    team: Annotated[str, Field(min_length=1)] | None = None

    @property
    def key(self) -> str:
        """Its key among all reports."""
        return f"{self.receiver}/{self.team or ''}"

    @property
    def zone(self) -> ZoneInfo:
        """Its time zone."""
        return ZoneInfo(self.location)

    def last_due(self, now: datetime) -> datetime:
        """Return when a report was last due, at `now` or before."""
        day, text = self.at.split()
        here = now.astimezone(self.zone)
        # Weekdays of intervals begin on Sunday, those of Python on Monday.
        behind = (here.weekday() - (WEEKDAYS.index(day) - 1)) % 7
        due = datetime.combine(here.date() - timedelta(behind), time.fromisoformat(text), self.zone)
        if due > now:
            due = datetime.combine(due.date() - timedelta(7), due.time(), self.zone)
        return due

    def last_week(self, now: datetime) -> Week:
        """Return the week that the last due report is about: the whole one before it."""
        return Week.of(self.last_due(now), self.zone).before
