"""Weekly reports reach every channel once a week, also when it was down or the process was killed.

Simplifications that would look right: to record before sending (a kill would lose the report), to
record by report and not by channel (one that is down would repeat it on the others), and to send at
the first start (a schedule that was just written would send the last week at once).
"""

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.support.notification_servers import Webhook, mailbox, serve
from tidemark.alerting.delivery.channels import AppriseChannel, Channel
from tidemark.alerting.delivery.http_channels import AlertmanagerChannel, WebhookChannel
from tidemark.alerting.delivery.reports import (
    LONGEST_RETRY_PAUSE,
    NO_CHANNEL,
    RETRY_PAUSE,
    UnreadableReportsError,
    deliver_reports,
    due_reports,
    sent_reports,
)
from tidemark.alerting.delivery.templates import Words
from tidemark.alerting.rules.routing import ReportSchedule
from tidemark.alerting.weekly_report import Report
from tidemark.host.shared import Shared
from tidemark.host.state import FileState
from tidemark.lake.clocks import Week
from tidemark.settings.home import Home

pytestmark = pytest.mark.slow

SCHEDULE = ReportSchedule(receiver="chat", at="monday 09:00")
FRIDAY = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
DUE = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
WEEK = timedelta(days=7)


def compute(week: Week, team: str | None) -> Report:
    return Report(
        week=week, until=week.window.end, team=team, unobserved_seconds={"shop": 60.0}, missed=1,
        undecided=0, objectives=3, budgets=(), in_trouble=0, groups=(), fired=0, noisy=0, rules=(),
    )  # fmt: skip


def sent(
    shared: Shared, channels: list[Channel], now: datetime, schedule: ReportSchedule = SCHEDULE
) -> list[str]:
    """Send what is due, as often as the schedule of Dagster would."""
    if not due_reports(shared.state, [schedule], now):
        return []
    return deliver_reports(shared, [schedule], channels, compute, now)


@pytest.fixture
def shared(tmp_path) -> Shared:
    """A deployment that has known the schedule since Friday."""
    made = Shared.of_home(Home.of(tmp_path / "home"))
    assert sent(made, [], FRIDAY) == []
    return made


def weeks(hook: Webhook) -> list[str]:
    return [document["report"]["week"] for document in hook.received]


def test_once_a_week_and_not_before_the_schedule_was_known(shared: Shared) -> None:
    with serve() as hook:
        channels: list[Channel] = [WebhookChannel(hook.http, "k3y", "chat")]
        for now in (FRIDAY + SECOND, DUE - SECOND):
            sent(shared, channels, now)
        assert hook.received == []
        for minutes in range(0, 60, 5):
            sent(shared, channels, DUE + timedelta(minutes=minutes))
        assert weeks(hook) == ["2026-W47"]
        # Nobody was there for two weeks: the last one is sent.
        sent(shared, channels, DUE + 2 * WEEK + timedelta(days=3))
        assert weeks(hook) == ["2026-W47", "2026-W49"]
    assert hook.headers[0]["Idempotency-Key"] == "report/2026-W47"
    assert hook.headers[0]["X-Tidemark-Signature"].startswith("sha256=")
    report = hook.received[0]["report"]
    assert (report["missed"], report["unobserved_seconds"]) == (1, {"shop": 60.0})
    assert (report["since"], report["zone"]) == ("2026-11-16T00:00:00Z", "UTC")


def test_a_channel_that_is_down_is_tried_again_and_repeats_no_other(shared: Shared) -> None:
    with serve() as down, serve() as up:
        down.status = 503
        channels: list[Channel] = [
            WebhookChannel(down.http, None, "chat"),
            WebhookChannel(up.http, None, "chat"),
        ]
        (problem,) = sent(shared, channels, DUE)
        assert problem.endswith("refused: HTTP 503") and weeks(up) == ["2026-W47"]
        assert due_reports(shared.state, [SCHEDULE], DUE + SECOND) == []
        assert sent(shared, channels, DUE + RETRY_PAUSE) != []
        down.status = 200
        assert sent(shared, channels, DUE + RETRY_PAUSE + SECOND) == []
        assert down.received == [], "the second pause is longer"
        # Clocks that were put back hold up nothing.
        sent(shared, channels, DUE + 2 * LONGEST_RETRY_PAUSE)
        sent(shared, channels, DUE + 3 * LONGEST_RETRY_PAUSE)
        assert (weeks(down), weeks(up)) == (["2026-W47"], ["2026-W47"])


def test_a_kill_after_sending_repeats_it_with_the_same_key(shared: Shared) -> None:
    class Killed(FileState):
        """A disk that is full at the write after sending, which no test can time."""

        def write(self, name: str, text: str) -> None:
            if "2026-W47" in text:
                raise OSError("killed")
            super().write(name, text)

    with serve() as hook:
        channels: list[Channel] = [WebhookChannel(hook.http, None, "chat")]
        broken = Shared(shared.leases, Killed(shared.state._home))  # pyright: ignore
        with pytest.raises(OSError, match="killed"):
            sent(broken, channels, DUE)
        sent(shared, channels, DUE + SECOND)
        sent(shared, channels, DUE + 2 * SECOND)
        keys = [headers["Idempotency-Key"] for headers in hook.headers]
        assert keys == ["report/2026-W47"] * 2


def test_teams_have_reports_of_their_own(shared: Shared) -> None:
    own = ReportSchedule(receiver="chat", at="monday 09:00", team="pay ments")
    with serve() as hook:
        channels: list[Channel] = [WebhookChannel(hook.http, None, "chat")]
        deliver_reports(shared, [own], channels, compute, FRIDAY)
        deliver_reports(shared, [SCHEDULE, own], channels, compute, DUE)
        assert [document["report"]["team"] for document in hook.received] == [None, "pay ments"]
        keys = [headers["Idempotency-Key"] for headers in hook.headers]
        assert keys == ["report/2026-W47", "report/2026-W47/pay%20ments"]


def test_services_get_a_message_in_the_language_of_the_receiver(shared: Shared) -> None:
    with mailbox() as (address, received), serve() as hook:
        channels: list[Channel] = [
            AppriseChannel(address, receiver="chat", words=Words("zh")),
            AppriseChannel(hook.url, receiver="chat"),
            AppriseChannel(hook.url, receiver="others"),
        ]
        assert sent(shared, channels, DUE) == []
        (mail,), (message,) = received, hook.received
    text = json.dumps(message)
    assert (
        "Tidemark 2026-W47: objectives missed: 1, undecided: 0;" in text
        and "nothing is known of 1 m" in text
    )
    (part,) = [it for it in mail.walk() if it.get_content_maintype() == "text"]
    body = part.get_payload(decode=True).decode()  # pyright: ignore
    assert "没有消费组处于异常状态" in body and "nothing is known" not in body


def test_pagers_and_alertmanagers_get_no_report(shared: Shared) -> None:
    channels: list[Channel] = [
        AlertmanagerChannel("http://127.0.0.1:9", "chat"),
        AppriseChannel("pagerduty://a1b2c3d4e5@f6a7b8c9d0", receiver="chat"),
        AppriseChannel("json://127.0.0.1:9/x", timedelta(days=1), receiver="chat"),
    ]
    assert sent(shared, channels, DUE) == [f"chat: {NO_CHANNEL}"]
    assert due_reports(shared.state, [SCHEDULE], DUE + SECOND) == [], "it is tried later"


def test_a_person_sends_a_week_again(shared: Shared) -> None:
    with serve() as hook:
        channels: list[Channel] = [WebhookChannel(hook.http, None, "chat")]
        for week in (Week.named("2026-W40", ZoneInfo("UTC")), Week.of(FRIDAY, ZoneInfo("UTC"))):
            deliver_reports(shared, [SCHEDULE], channels, compute, DUE + SECOND, week)
        # The second is the one that was due, which is not sent once more.
        sent(shared, channels, DUE + 2 * SECOND)
        assert weeks(hook) == ["2026-W40", "2026-W47"]


def test_an_unreadable_record_is_one_line(shared: Shared) -> None:
    shared.state.write("reports.json", "[{]")
    with pytest.raises(UnreadableReportsError, match="delete it"):
        sent_reports(shared.state)
