"""Delivery of weekly reports: each channel gets the report of a week once, however late.

A report is sent first and recorded afterwards, so a process that is killed between the two repeats
it with the same key, and loses none. A channel that fails is tried again until the next report is
due. The record is a text of the shared state.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import structs

from tidemark.alerting.delivery.channels import Channel, ChannelError
from tidemark.alerting.rules.routing import ReportSchedule
from tidemark.alerting.weekly_report import Report
from tidemark.host.failures import DamagedError
from tidemark.host.leases import REPORTS
from tidemark.host.shared import Shared
from tidemark.host.state import State, decoded
from tidemark.lake.clocks import Week

_NAME = "reports.json"

RETRY_PAUSE, LONGEST_RETRY_PAUSE = timedelta(minutes=5), timedelta(hours=6)
"""Pause after the first failure of a channel, which doubles, and the longest one."""

NO_CHANNEL = "the receiver has no channel that takes a report"

LOG = logging.getLogger("tidemark.notifications")

Compute = Callable[[Week, str | None], Report]
"""Returns the report of a week about a team, or about all groups."""


class Attempts(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts to send a report on a channel.

    Attributes:
        attempts: their number.
        delivered_at: when the channel accepted it; None = not yet.
        last_error: why the last attempt failed.
        next_attempt_at: no attempt before this instant.
    """

    attempts: int = 0
    delivered_at: datetime | None = None
    last_error: str | None = None
    next_attempt_at: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Return whether the channel is to be tried now."""
        if self.delivered_at is not None:
            return False
        # A longer pause was set before the clock was put back.
        next_at = self.next_attempt_at
        return next_at is None or not now < next_at <= now + LONGEST_RETRY_PAUSE


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery of the reports of one schedule.

    Attributes:
        since: when the schedule was first known; what was due before is not sent.
        week: name of the week that `channels` are about; empty before the first.
        channels: the attempts by channel.
    """

    since: datetime
    week: str = ""
    channels: dict[str, Attempts] = {}


class UnreadableReportsError(DamagedError):
    """The record of reports cannot be read; one line."""


def sent_reports(state: State) -> dict[str, Sent]:
    """Return what was sent, by `ReportSchedule.key`.

    Raises:
        UnreadableReportsError: it cannot be read.
    """
    return decoded(
        state,
        _NAME,
        dict[str, Sent],
        UnreadableReportsError,
        empty="{}",
        advice="delete it, and the last reports are not sent again",
    )


def due_reports(
    state: State, schedules: Sequence[ReportSchedule], now: datetime
) -> list[ReportSchedule]:
    """Return the schedules of which a channel may have to get a report now, or that are new.

    Raises:
        UnreadableReportsError: the record cannot be read.
    """
    known = sent_reports(state)
    return [schedule for schedule in schedules if _is_open(schedule, known.get(schedule.key), now)]


def _is_open(schedule: ReportSchedule, sent: Sent | None, now: datetime) -> bool:
    if sent is None:
        return True
    if schedule.last_due(now) <= sent.since:
        return False
    if sent.week != schedule.last_week(now).name:
        return True
    return not sent.channels or any(it.is_due(now) for it in sent.channels.values())


def deliver_reports(
    shared: Shared,
    schedules: Sequence[ReportSchedule],
    channels: Sequence[Channel],
    compute: Compute,
    now: datetime,
    week: Week | None = None,
) -> list[str]:
    """Send the reports that are due, on every channel of their receivers that takes reports.

    Only one process sends at a time; the others return at once.

    Args:
        shared: leases, and the record of what was sent.
        schedules: the reports that are wanted.
        channels: the channels of their receivers.
        compute: returns a report; called for each channel that is tried.
        now: the present.
        week: a week that a person wants to be sent now, whatever was sent before; None = those due.

    Returns:
        A line for each thing that is wrong.

    Raises:
        UnreadableReportsError: the record cannot be read.
        LeaseError: leases cannot be had.
    """
    lease = shared.leases.attempt(REPORTS)
    if lease is None:
        return []
    with lease:
        known = sent_reports(shared.state)
        problems: list[str] = []
        for schedule in schedules:
            mine = {
                it.name: it
                for it in channels
                if it.receiver == schedule.receiver and it.takes_reports
            }
            sent = known.get(schedule.key)
            if sent is None:
                sent = known[schedule.key] = Sent(since=now)
                _write(shared.state, known)
            due = schedule.last_week(now)
            if week is None and schedule.last_due(now) <= sent.since:
                continue
            attempts = dict(sent.channels) if sent.week == due.name else {}
            # Without a channel the receiver itself has failed, and is tried again later.
            names = mine.keys() or {schedule.receiver}
            attempts = {name: made for name, made in attempts.items() if name in names}
            tried = [it for it in names if week or attempts.get(it, Attempts()).is_due(now)]
            for name in tried:
                error = NO_CHANNEL
                if name in mine:
                    error = _send(mine[name], compute(week or due, schedule.team))
                if error:
                    problems.append(f"{name}: {error}")
                if week in (None, due):
                    attempts[name] = _after(attempts.get(name), now, error)
                    known[schedule.key] = structs.replace(sent, week=due.name, channels=attempts)
                    _write(shared.state, known)
        return problems


def _after(before: Attempts | None, now: datetime, error: str | None) -> Attempts:
    attempts = (before.attempts if before else 0) + 1
    if error is None:
        return Attempts(attempts=attempts, delivered_at=now)
    if before and before.delivered_at:
        return before
    pause = min(RETRY_PAUSE * 2 ** min(attempts - 1, 10), LONGEST_RETRY_PAUSE)
    return Attempts(attempts=attempts, last_error=error, next_attempt_at=now + pause)


def _send(channel: Channel, report: Report) -> str | None:
    """Send a report; return the reason in one line where the channel did not accept it."""
    try:
        channel.report(report)
    except Exception as error:
        # Only the text of a `ChannelError` is known to hold no secret.
        known = isinstance(error, ChannelError)
        reason = str(error) if known else f"failed: {type(error).__name__}"
        LOG.warning("channel %s did not accept the weekly report: %s", channel.name, reason)
        return reason
    LOG.info("the report of %s was sent on %s", report.week.name, channel.name)
    return None


def _write(state: State, sent: Mapping[str, Sent]) -> None:
    state.write(_NAME, msgspec.json.encode(dict(sent)).decode())
