"""``reports`` of rule files: when a report is due, and mistakes with their line."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemark.alerting.rules.files import read_rule_set, schema
from tidemark.alerting.rules.routing import ReportSchedule


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "zone", "now", "due", "week"),
    [
        ("monday 09:00", "UTC", "2026-11-23T09:00", "2026-11-23T09:00", "2026-W47"),
        ("Mon 09:00", "UTC", "2026-11-23T08:59", "2026-11-16T09:00", "2026-W46"),
        ("sunday 23:59", "UTC", "2026-11-23T09:00", "2026-11-22T23:59", "2026-W46"),
        ("fri 17:00", "UTC", "2026-11-26T12:00", "2026-11-20T17:00", "2026-W46"),
        # 09:00 in Shanghai is 01:00 UTC, and Sunday in UTC is Monday there.
        ("monday 07:00", "Asia/Shanghai", "2026-11-22T23:00", "2026-11-22T23:00", "2026-W47"),
        # Clocks change on 2026-10-25, so 09:00 is an hour later by UTC.
        ("monday 09:00", "Europe/Berlin", "2026-10-26T07:59", "2026-10-19T07:00", "2026-W42"),
        ("monday 09:00", "Europe/Berlin", "2026-10-26T08:00", "2026-10-26T08:00", "2026-W43"),
    ],
)
def test_a_report_is_due_at_a_time_of_the_zone(
    at: str, zone: str, now: str, due: str, week: str
) -> None:
    schedule = ReportSchedule(at=at, location=zone)
    assert schedule.last_due(instant(now)) == instant(due)
    assert schedule.last_week(instant(now)).name == week


def read(tmp_path: Path, text: str):
    file = tmp_path / "rules.yaml"
    file.write_text(text, encoding="utf-8")
    return read_rule_set(file)


def test_reports_need_no_routes(tmp_path: Path) -> None:
    rule_set = read(
        tmp_path,
        """\
receivers:
  - {name: chat, urls: ["json://127.0.0.1/x"], language: zh}
  - {name: other, urls: ["json://127.0.0.1/y"]}
reports:
  - {receiver: chat, at: monday 09:00, location: Asia/Shanghai, team: payments}
  - {at: mon 08:00}
""",
    )
    assert rule_set.mistakes == ()
    assert [it.key for it in rule_set.reports] == ["chat/payments", "default/"]
    assert [it.name for it in rule_set.report_receivers] == ["chat"]
    # Nobody is notified of incidents by it, and the ready-made rules hold.
    assert rule_set.routing.used_receivers == () and rule_set.rules
    assert "reports" in schema()["properties"]


def test_every_mistake_has_its_line(tmp_path: Path) -> None:
    rule_set = read(
        tmp_path,
        """\
receivers:
  - {name: chat, urls: ["json://127.0.0.1/x"]}
reports:
  - {receiver: chta, at: monday 09:00}
  - {receiver: chat, at: someday}
  - {receiver: chat, at: monday 25:00}
  - {receiver: chat, at: monday 09:00, location: Mars}
  - {receiver: chat, at: monday 09:00, teem: a}
  - {receiver: chat, at: monday 09:00}
  - {receiver: chat, at: friday 09:00}
  - {receiver: chat}
""",
    )
    lines = [line.split("rules.yaml:", 1)[1] for line in rule_set.mistakes]
    assert [line.partition(":")[0] for line in lines] == ["5", "6", "7", "8", "11", "4", "10"]
    assert "teem: unknown field" in lines[3] and "team" in lines[3]
    assert "'chta' is no receiver" in lines[5] and "another report" in lines[6]
    assert [it.key for it in rule_set.reports] == ["chat/"]
