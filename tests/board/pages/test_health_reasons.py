"""Reasons of health in Chinese; that every phrase of Spark has words is tested with health."""

import pytest

from board.pages.health_reasons import in_chinese

CASES = {
    "readable lag 90, was 100 over 10 observations (540 s)": (
        "可读堆积 90，之前 100（10 次观测，540 秒内）"
    ),
    "readable lag ≥ 90, was ≥ 100 over 10 observations (540 s)": (
        "可读堆积 ≥ 90，之前 ≥ 100（10 次观测，540 秒内）"
    ),
    "no client online and no commit advances: readable lag 80, most on broker-a/3 (60), "
    "over 10 observations (540 s)": (
        "没有客户端在线，提交位点不再前进：可读堆积 80，"
        "最多在 broker-a/3（60）（10 次观测，540 秒内）"
    ),
    "broker-a/0: commit stays at 50, 2030 unconsumed messages, 1004 in the cache of c@1, "
    "which pulls no more (1004 of 1000 messages); and 2 more": (
        "broker-a/0：提交位点停在 50，2030 条未消费消息，1004 在 c@1 的缓存中，"
        "它不再拉取（1004 条消息（上限 1000））；另有 2 个"
    ),
    "b/7 of 10.0.0.1@p: never committed, 9 unconsumed messages": (
        "b/7（10.0.0.1@p）：从未提交，9 条未消费消息"
    ),
}


@pytest.mark.parametrize("english", CASES)
def test_reasons(english: str) -> None:
    assert in_chinese(english) == CASES[english]


@pytest.mark.parametrize(
    "reason",
    ["", "a reason of a later version", "x y/0: commit stays at 5, 1 unconsumed messages"],
)
def test_what_no_phrase_has_stays(reason: str) -> None:
    assert in_chinese(reason) == reason
