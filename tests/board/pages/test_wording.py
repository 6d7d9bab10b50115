"""Values and reasons of health as people read them.

That pages say in English what Spark does is tested with health.
"""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tidemark.board.pages.wording import (
    CHINESE,
    LIMITS,
    UNKNOWN,
    backticks,
    breaks,
    cell,
    duration,
    iso,
    number,
    reason,
)
from tidemark.lake.tables.progress import HEALTH_FACTS, HEALTH_QUEUE
from tidemark.model.health import FACTS, CacheLimit, HealthReason


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


OVER = {"observations": 10, "span_ms": 540_000}


def queue(**known: Any) -> dict[str, Any]:
    """Return a queue of a reason; what is not given is NULL."""
    return {field.name: None for field in HEALTH_QUEUE} | known


def row(code: HealthReason, facts: dict[str, Any], **columns: Any) -> dict[str, Any]:
    """Return a row of a group with a reason; facts that are not given are NULL."""
    every = {field.name: None for field in HEALTH_FACTS} | facts
    columns = {"lag_is_lower_bound": False, "online": True} | columns
    return columns | {"health_reason_code": code, "health_facts": every, "health_reason": "text"}


FULL = queue(
    broker="broker-a",
    queue_id=0,
    committed=50,
    committed_before=50,
    unconsumed=2030,
    cached=1004,
    cached_by="c@1",
    cache_limit=CacheLimit.CACHED_MESSAGES,
    cache_reached=1004,
    cache_most=1000,
)

CASES = {
    "可读堆积 90，之前 100（10 次观测，540 秒内）": row(
        HealthReason.CONSUMES, {"lag": 90, "lag_before": 100, **OVER}
    ),
    "可读堆积 ≥ 90，之前 ≥ 100（10 次观测，540 秒内）": row(
        HealthReason.CONSUMES, {"lag": 90, "lag_before": 100, **OVER}, lag_is_lower_bound=True
    ),
    "没有客户端在线，提交位点不再前进：可读堆积 80，"
    "最多在 broker-a/3（60）（10 次观测，540 秒内）": row(
        HealthReason.NO_MEMBER_ONLINE,
        {"lag": 80, **OVER},
        worst_broker="broker-a",
        worst_queue_id=3,
        max_queue_lag=60,
    ),
    "broker-a/0：提交位点停在 50，2030 条未消费消息，1004 在 c@1 的缓存中，"
    "它不再拉取（1004 条消息（上限 1000））；另有 2 个": row(
        HealthReason.MESSAGES_UNFINISHED, {"queues": [FULL], "queues_named": 3}
    ),
    "b/7（10.0.0.1@p）：从未提交，9 条未消费消息": row(
        HealthReason.COMMITS_STAND,
        {
            "queues": [queue(broker="b", queue_id=7, client_id="10.0.0.1@p", unconsumed=9)],
            "queues_named": 1,
        },
    ),
}


def chinese(text: str, **values: Any) -> str:
    return CHINESE[text].format(**values)


@pytest.mark.parametrize("words", CASES)
def test_reasons(words: str) -> None:
    assert reason(CASES[words], chinese) == words


@pytest.mark.parametrize(
    "columns",
    [
        {"health_reason": "commit stays at 5"},
        {"health_reason": "commit stays at 5", "health_reason_code": None, "health_facts": None},
        {
            "health_reason": "commit stays at 5",
            "health_reason_code": "OF_A_LATER_VERSION",
            "health_facts": {},
        },
    ],
    ids=["kept by an incident of 0.2", "computed by 0.2", "computed by a later version"],
)
def test_a_reason_without_a_known_code_stays_in_english(columns: dict[str, Any]) -> None:
    assert reason(columns, chinese) == "commit stays at 5"


def test_a_group_without_a_reason() -> None:
    assert reason({}, chinese) == ""


def test_facts_of_reasons_are_fields() -> None:
    assert set(FACTS) == set(HealthReason)
    assert {name for names in FACTS.values() for name in names} == {it.name for it in HEALTH_FACTS}


def test_every_limit_has_chinese_words() -> None:
    assert set(LIMITS) == set(CacheLimit)
    assert sorted(set(LIMITS.values()) - CHINESE.keys()) == []
