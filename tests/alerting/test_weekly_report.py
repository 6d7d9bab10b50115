"""The weekly report: sums of time by hand, with what is unknown as unknown.

Simplifications that would look right: to count observations (a cluster that is read each 15 s would
weigh four times as much), to let the last observation before an outage speak for all of it, and to
take unknown time for good.
"""

import ast
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from tests.support import board_home
from tests.support.board_home import CLUSTER, group, rows_of
from tests.support.objective_hours import whole_month
from tests.support.table_rows import arrow
from tidemark.alerting.delivery import report_messages
from tidemark.alerting.delivery.report_messages import report_body, report_document, report_title
from tidemark.alerting.delivery.templates import CHINESE_FILE, in_chinese
from tidemark.alerting.weekly_report import GroupWeek, Report, weekly_report
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Week
from tidemark.lake.tables import alerting, progress
from tidemark.model.health import TROUBLE, Health
from tidemark.settings.owners import OwnedGroups, Owner, Owners

WEEK = Week.named("2026-W44", ZoneInfo("UTC"))
MONDAY = WEEK.window.start
OVER = MONDAY + timedelta(days=8)
MINUTE = timedelta(minutes=1)
WHOLE = 7 * 24 * 3600


def observe(lake: Lake, at: datetime, *groups: dict[str, Any], cluster: str = CLUSTER) -> None:
    lake.append(progress.SNAPSHOTS, rows_of(progress.SNAPSHOTS, at, [{}], cluster))
    lake.append(progress.GROUPS, rows_of(progress.GROUPS, at, groups, cluster))


def made(lake: Lake, now: datetime = OVER, **options: Any) -> Report:
    return weekly_report(lake, WEEK, now, options.pop("owners", Owners()), **options)


def of(report: Report, name: str) -> GroupWeek:
    return next(it for it in report.groups if it.consumer_group == name)


def test_time_counts_and_not_observations(lake: Lake) -> None:
    late = group("late", health="STALLED", delay_ms=90_000)
    fine = group("fine", delay_ms=40)
    # Four in the first minute, one in the second, then nothing: 5 minutes are carried.
    for seconds in (0, 15, 30, 45, 60):
        observe(lake, MONDAY + timedelta(seconds=seconds), late, fine)
    # An hour later it is well.
    observe(lake, MONDAY + HOUR, group("late", delay_ms=1_000), fine)
    report = made(lake)
    assert report.unobserved_seconds == {CLUSTER: WHOLE - 60 - 300 - 300}
    first, second = report.groups
    assert (first.consumer_group, first.worst, first.trouble_seconds) == ("late", "STALLED", 360)
    assert (first.delay_ms, first.unknown_seconds) == (90_000, WHOLE - 660)
    assert first.trouble_bound == first.delay_bound == "lower"
    assert (second.consumer_group, second.worst, second.trouble_seconds) == ("fine", None, 0)
    assert report.in_trouble == 1


def test_a_snapshot_before_the_week_speaks_for_its_part_only(lake: Lake) -> None:
    late = group("late", health="LOSING", delay_ms=1)
    observe(lake, MONDAY - 2 * MINUTE, late)
    observe(lake, MONDAY - 9 * MINUTE, group("late", health="STALLED", delay_ms=10**9))
    observe(lake, WEEK.window.end - MINUTE, late)
    observe(lake, WEEK.window.end, group("late", health="STALLED", delay_ms=10**9))
    one = of(made(lake), "late")
    assert (one.trouble_seconds, one.worst, one.delay_ms) == (180 + 60, Health.LOSING, 1)


def test_without_unknown_time_numbers_are_exact(lake: Lake) -> None:
    now = MONDAY + 3 * MINUTE
    for number in range(3):
        stalled = group("late", health="STALLED", delay_ms=1_000 * number)
        bound = group("popped", delay_ms=5_000, delay_is_lower_bound=True)
        unknown = group("dark", health="UNKNOWN", delay_ms=None, complete=False)
        seen = group("dark", health="BLOCKED", delay_ms=7_000)
        observe(lake, MONDAY + number * MINUTE, stalled, bound, seen if number == 2 else unknown)
    report = made(lake, now)
    late, popped, dark = (of(report, name) for name in ("late", "popped", "dark"))
    assert (late.trouble_seconds, late.trouble_bound, late.delay_bound) == (180, None, None)
    assert late.delay_ms == 2_000
    assert (popped.delay_ms, popped.delay_bound, popped.trouble_bound) == (5_000, "lower", None)
    assert (dark.trouble_seconds, dark.trouble_bound, dark.unknown_seconds) == (60, "lower", 120)
    assert (dark.delay_ms, dark.delay_bound) == (7_000, "lower")
    text = report_body(report)
    assert f"{CLUSTER}/late/orders: 3 m in trouble, longest STALLED, delay up to 2 s" in text
    assert f"{CLUSTER}/dark/orders: ≥ 1 m in trouble" in text and "unknown 2 m" in text
    assert "delay up to ≥ 5 s" in text


def test_rules_by_how_often_they_fired(lake: Lake) -> None:
    def at(*hours: int) -> list[dict[str, Any]]:
        names = ("FIRING", "RESOLVED", "FIRING_2", "RESOLVED_2")
        return [
            {"transition": name, "at": MONDAY + hour * HOUR}
            for name, hour in zip(names, hours, strict=False)
        ]

    rows = [
        {"rule": "flaps", "group_name": "a", "transitions": at(-1, 1, 2, 3)},
        {"rule": "flaps", "group_name": "b", "transitions": at(5, 6, 7)},
        {"rule": "once", "group_name": "a", "transitions": at(8)},
        {"rule": "before", "group_name": "a", "transitions": at(-9, -8)},
        {"rule": "after", "group_name": "a", "transitions": at(200)},
    ]
    incidents = [board_home.incident(MONDAY, **row) for row in rows]
    lake.append(alerting.INCIDENTS, incidents)
    report = made(lake)
    counts = [(it.rule, it.fired, it.resolved, it.flapped, it.subjects) for it in report.rules]
    # The first incident of `flaps` fired once within the week, and once before it.
    assert counts == [("flaps", 3, 3, 1, 2), ("once", 1, 0, 0, 1)]
    assert report.fired == 4
    assert "flaps: fired 3, resolved 3, flapped 1, subjects 2" in report_body(report)


def test_rules_that_are_left_out_are_counted(lake: Lake) -> None:
    incidents = [board_home.incident(MONDAY, rule=f"rule-{number:02}") for number in range(13)]
    lake.append(alerting.INCIDENTS, incidents)
    report = made(lake)
    assert (len(report.rules), report.noisy, report.fired) == (10, 13, 13)
    assert "- +3" in report_body(report) and "- +12" in report_body(report, room=190)


@pytest.mark.slow
def test_budgets_of_the_week_with_what_unknown_minutes_may_have_used(lake: Lake) -> None:
    rows = whole_month(h5="+" * 50 + "-" * 8 + "??", h6="")
    lake.append(progress.OBJECTIVES, arrow(progress.OBJECTIVES, rows))
    first = min(row["hour"] for row in rows)
    week = Week.of(first, ZoneInfo("UTC"))
    report = weekly_report(lake, week, first + timedelta(days=40), Owners())
    (budget,) = report.budgets
    assert budget.good + budget.bad + budget.unknown == 7 * 24 * 60
    assert budget.bad == 8 and budget.unknown > 0
    assert budget.left == budget.allowed - 8 and budget.left_bound == "upper"
    assert "≤" in report_body(report) and "bad 8 m" in report_body(report)


def test_a_team_reads_of_its_groups_only(lake: Lake) -> None:
    owned = OwnedGroups(match={"consumer_group": ("own",)}, owner=Owner(team="alpha"))
    rows = [group(name, health="STALLED", delay_ms=9_000) for name in ("own", "others")]
    observe(lake, MONDAY, *rows)
    lake.append(
        alerting.INCIDENTS, [board_home.incident(MONDAY, group_name=it) for it in ("own", "others")]
    )
    hours = whole_month(h5="-" * 60)
    hours = [row | {"hour": MONDAY, "observed_at": MONDAY} for row in hours[:1]]
    lake.append(progress.OBJECTIVES, arrow(progress.OBJECTIVES, hours))
    report = made(lake, owners=Owners([owned]), team="alpha")
    assert [it.consumer_group for it in report.groups] == ["own"]
    assert (report.fired, report.objectives) == (1, 0)
    assert "others" not in report_body(report) + str(report_document(report))
    assert made(lake, owners=Owners([owned])).objectives == 1


def test_an_empty_home_is_known_to_know_nothing(lake: Lake) -> None:
    report = made(lake)
    assert report_title(report) == "Tidemark 2026-W44: no snapshot was taken"
    text = report_body(report)
    assert "No snapshot was taken: nothing is known of objectives and groups." in text
    assert "No alert fired." in text
    assert "No group was in trouble" not in text, "nobody is calmed by what is not known"


def test_a_report_in_chinese_and_in_little_room(lake: Lake) -> None:
    names = [f"group-{number:02}" for number in range(12)]
    observe(lake, MONDAY, *(group(name, health="STALLED", delay_ms=9_000) for name in names))
    report = made(lake)
    counts = "objectives missed: 0, undecided: 0; groups in trouble: 12; alerts: 0"
    assert report_title(report) == f"Tidemark 2026-W44: {counts}"
    whole = report_body(report, in_chinese)
    assert "处于异常" in whole and "in trouble" not in whole and whole.count("group-") == 10
    assert "- +2" in whole
    short = report_body(report, in_chinese, room=700)
    assert len(short.encode()) <= 700 and "- +" in short


def test_every_text_of_a_report_has_chinese_words() -> None:
    tree = ast.parse(Path(report_messages.__file__).read_text(encoding="utf-8"))
    texts = {
        call.args[0].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "phrase"
        if isinstance(call.args[0], ast.Constant)
    }
    assert len(texts) > 15
    known = yaml.safe_load(CHINESE_FILE.read_text(encoding="utf-8"))
    assert sorted({*texts, "kept", "missed", "undecided", *TROUBLE} - known.keys()) == []


def test_a_name_calls_nobody_in_a_chat(lake: Lake) -> None:
    observe(lake, MONDAY, group("@everyone", health="STALLED"))
    assert "@everyone" not in report_body(made(lake))


@pytest.mark.parametrize(
    ("name", "zone", "start", "hours"),
    [
        ("2026-W47", "UTC", "2026-11-16T00:00", 168),
        ("2026-W43", "Europe/Berlin", "2026-10-18T22:00", 169),
        ("2026-W13", "Europe/Berlin", "2026-03-22T23:00", 167),
        ("2026-W53", "Asia/Shanghai", "2026-12-27T16:00", 168),
    ],
)
def test_a_week_begins_on_monday_in_its_zone(name: str, zone: str, start: str, hours: int) -> None:
    week = Week.named(name, ZoneInfo(zone))
    assert week.window.start == datetime.fromisoformat(start).replace(tzinfo=UTC)
    assert week.window.end - week.window.start == hours * HOUR
    assert Week.of(week.window.start, week.zone) == week and week.name == name
    assert Week.of(week.window.start - MINUTE, week.zone) == week.before


@pytest.mark.parametrize("name", ["2025-W53", "2026-47", "2026-W00", "November"])
def test_a_week_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a week is wanted"):
        Week.named(name, ZoneInfo("UTC"))
