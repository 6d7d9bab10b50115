"""Templates of receivers: ready-made Chinese, templates of their own, and nothing but text."""

from pathlib import Path

import pytest

from tests.support.notified_incidents import FIRING, RESOLVED, incident, notification
from tidemark.alerting.delivery.templates import Words
from tidemark.alerting.rules.files import read_rule_set

HOSTILE = "{{ 7*7 }}{% for x in y %}<script>"


def test_a_receiver_gets_messages_in_chinese():
    words = Words("zh")
    assert words.title([notification(FIRING)]) == "[严重] 触发 lag:lab/billing/orders"
    both = [notification(FIRING), notification(RESOLVED, 1)]
    assert words.title(both) == "Tidemark:1 个触发,1 个恢复"
    assert words.title([notification(FIRING)] * 2) == "Tidemark:2 个触发"
    assert words.title([notification(RESOLVED, 1)] * 3) == "Tidemark:3 个恢复"
    text = words.body(both)
    assert (
        "观测:堆积 1,500 条消息（阈值 1,000 条消息），堆积最多的是 broker-b 的队列 3："
        "≥ 1,490，最早的一条已等待 ≥ 1 m 1 s" in text
    )
    assert text.count("建议:生产快于消费") == 1, "not for what has resolved"
    delay = incident(("FIRING", 0), kind="delay", last_value=3723.0, threshold=300.0)
    assert "最早的消息已等待 1 h 2 m（阈值 5 m）" in words.body([notification(delay)])
    assert "恢复时间:2026-11-19 12:09:00 UTC" in text
    assert "处理手册:https://wiki/lag" in text
    many = [notification(incident(("FIRING", 0), group=f"g-{n}")) for n in range(30)]
    assert len(words.body(many, 900).encode()) <= 900


def test_a_receiver_has_templates_of_its_own():
    words = Words(
        "en", "{{ firing|length }} of {{ notifications[0].labels.team }}", "{{ ready_made }}!"
    )
    assert words.title([notification(FIRING)]) == "1 of billing"
    assert words.body([notification(FIRING)]).endswith("Runbook: https://wiki/lag!")


def test_names_from_brokers_are_text_and_no_template():
    hostile = incident(("FIRING", 0), group=HOSTILE)
    for words in (Words("zh"), Words("en", "{{ notifications[0].subject }}", "{{ ready_made }}")):
        assert HOSTILE in words.title([notification(hostile)])
        assert HOSTILE in words.body([notification(hostile)])


@pytest.mark.parametrize(
    "template",
    ["{{ ''.__class__.__mro__ }}", "{{ notifications.clear() }}", "{{ 1 / 0 }}", "{{ a.b.c }}"],
)
def test_a_template_that_fails_or_reaches_out_is_replaced(template: str):
    assert Words("en", None, template).body([notification(FIRING)]).startswith("[critical] FIRING")


def test_a_template_that_leaves_nothing_is_replaced():
    """Services refuse an empty message, so it would never be delivered."""
    words = Words("en", own_body="{% for n in firing %}{{ n.text }}{% endfor %}")
    assert words.body([notification(RESOLVED, 1)]).startswith("[critical] RESOLVED")


def test_a_broken_template_is_named_by_its_line(tmp_path: Path):
    file = tmp_path / "rules.yaml"
    file.write_text("receivers:\n- name: a\n  body: '{% if %}'\n")
    (mistake,) = read_rule_set(file).mistakes
    assert mistake.startswith(f"{file}:3: receivers[0].body: no template: ")
