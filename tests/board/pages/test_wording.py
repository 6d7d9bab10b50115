"""Values as people read them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tidemark.board.pages.wording import UNKNOWN, backticks, breaks, cell, duration, iso, number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, UNKNOWN),
        (0, "0"),
        (12_345, "12,345"),
        (0.42, "0.4"),
        (5.0, "5"),
        (12_345.6, "12,346"),
        (float("nan"), UNKNOWN),
        (float("inf"), UNKNOWN),
    ],
)
def test_a_number(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, UNKNOWN),
        (0, "0 s"),
        (0.85, "850 ms"),
        (12.34, "12.3 s"),
        (30, "30 s"),
        (250, "4 m 10 s"),
        (3600, "1 h"),
        (273_600, "3 d 4 h"),
        (float("nan"), UNKNOWN),
    ],
)
def test_a_duration(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("delay_ms", 90_000, "1 m 30 s"),
        ("drain_seconds", 60, "1 m"),
        ("disk_ratio", 0.756, "76%"),
        ("broker_id", 1000, "1000"),
        ("consume_tps", 0.125, "0.12"),
        ("lag", 1000, "1,000"),
        ("online", True, "yes"),
        ("topics", ["a", "b"], "a, b"),
        ("config", {"a": "1", "b": "2"}, "a=1, b=2"),
        ("lag", None, UNKNOWN),
    ],
)
def test_a_cell_has_the_unit_of_its_column(name, value, text):
    assert cell(name, {name: value}) == text


def test_an_instant_is_in_utc():
    at = datetime(2026, 11, 19, 16, tzinfo=timezone(timedelta(hours=8)))
    assert cell("observed_at", {"observed_at": at}) == "2026-11-19 08:00:00"
    assert iso(at) == "2026-11-19T08:00:00Z"
    assert iso(None) == ""
    assert at.astimezone(UTC).hour == 8


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lab_orders", "lab_<wbr>orders"),
        ("a/b-c@d", "a/<wbr>b-<wbr>c@<wbr>d"),
        ("%RETRY%billing", "%<wbr>RETRY%<wbr>billing"),
        ("<b>", "&lt;b&gt;"),
        ("x" * 30, "x" * 24 + "<wbr>" + "x" * 6),
        ("", ""),
    ],
)
def test_a_line_breaks_a_name_at_its_separators(name, text):
    assert str(breaks(name)) == text


def test_code_between_backticks_is_code_and_hostile_text_stays_text():
    assert backticks("run `tidemark plan`") == "run <code>tidemark plan</code>"
    assert backticks("`<script>`") == "<code>&lt;script&gt;</code>"
    assert backticks("one ` alone <") == "one ` alone &lt;"
