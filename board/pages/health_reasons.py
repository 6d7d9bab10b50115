"""Reasons of health in Chinese.

`spark.progress.health_reasons` writes ``health_reason`` in English, from phrases that this module
lists with their translation. A reason with any other text stays in English.
"""

import re

_QUEUE = r"(?P<queue>[^\s/]+/\d+)"
_COUNT = r"(?:≥ )?\d+"

_PHRASES = tuple(
    (re.compile(english), chinese)
    for english, chinese in (
        (rf"readable lag (?P<now>{_COUNT}), was (?P<was>{_COUNT})", "可读堆积 {now}，之前 {was}"),
        (r"expired messages (?P<now>\d+), were (?P<was>\d+)", "已过期消息 {now}，之前 {was}"),
        (r"(?P<now>\d+) expired, were (?P<was>\d+)", "已过期 {now}，之前 {was}"),
        (
            r"(?:,? )?over (?P<count>\d+) observations \((?P<seconds>\d+) s\)",
            "（{count} 次观测，{seconds} 秒内）",
        ),
        (r"(?P<part>\d+) of (?P<all>\d+) queues unknown", "{all} 个队列中 {part} 个未知"),
        (
            r"only (?P<part>\d+) of (?P<all>\d+) observations known",
            "{all} 次观测中只有 {part} 次已知",
        ),
        (r"no queue with a known lag", "没有堆积已知的队列"),
        (
            rf"no client subscribes to the topic: readable lag (?P<lag>{_COUNT})",
            "没有客户端订阅该主题：可读堆积 {lag}",
        ),
        (
            rf"no client online and no commit advances: readable lag (?P<lag>{_COUNT}), "
            rf"most on {_QUEUE} \((?P<most>{_COUNT})\)",
            "没有客户端在线，提交位点不再前进：可读堆积 {lag}，最多在 {queue}（{most}）",
        ),
        (r"standing, members unknown: ", "停滞，成员情况未知："),
        (r"standing, no member online: ", "停滞，没有成员在线："),
        (
            r"up to (?P<rate>[\d.]+) messages a second come back",
            "每秒最多有 {rate} 条消息返回重试",
        ),
        (r"acknowledgements unknown", "确认数未知"),
        (r"no acknowledgement counted", "没有任何确认"),
        (r"messages in flight unknown", "处理中的消息数未知"),
        (
            r"(?P<now>\d+) messages in flight, were (?P<was>\d+)",
            "{now} 条消息在处理中，之前 {was}",
        ),
        (r"commit at (?P<now>\d+), was at (?P<was>\d+)", "提交位点 {now}，之前 {was}"),
        (r"commit stays at (?P<now>\d+)", "提交位点停在 {now}"),
        (r"never committed", "从未提交"),
        (rf"(?P<count>{_COUNT}) unconsumed messages", "{count} 条未消费消息"),
        (
            r"pull offset advanced from (?P<was>\d+) to (?P<now>\d+)",
            "拉取位点从 {was} 前进到 {now}",
        ),
        (r"which pulls no more \(", "它不再拉取（"),
        (r"flow control holds back the pulls of ", "流控暂停拉取："),
        (r"(?P<now>\d+) of (?P<most>\d+) messages", "{now} 条消息（上限 {most}）"),
        (r"(?P<now>\d+) of (?P<most>\d+) MiB", "{now} MiB（上限 {most}）"),
        (r"a span of (?P<now>\d+) of (?P<most>\d+) offsets", "跨度 {now}（上限 {most}）"),
        (r"(?P<count>\d+ )?in the cache of (?P<client>[^\s,;]+)", "{count}在 {client} 的缓存中"),
        (r"up or level in (?P<part>\d+) of (?P<all>\d+) steps", "{all} 步中 {part} 步上升或持平"),
        (
            r"(?P<seconds>\d+) s of production are (?P<messages>\d+)",
            "{seconds} 秒的产量为 {messages}",
        ),
        (r"no lag, nothing written or consumed", "没有堆积，没有写入或消费"),
        (r"and (?P<count>\d+) more", "另有 {count} 个"),
        (rf"{_QUEUE} of (?P<client>\S+): ", "{queue}（{client}）："),
        (rf"{_QUEUE}: ", "{queue}："),
        (r", ", "，"),
        (r"; ", "；"),
        (r": ", "："),
        (r" ", " "),
        (r"\)", "）"),
    )
)
"""English phrases and separators, the longer of two that begin alike first."""


def in_chinese(reason: str) -> str:
    """Return a reason in Chinese, or unchanged where it has text that no phrase matches."""
    translated, place = [], 0
    while place < len(reason):
        for english, chinese in _PHRASES:
            found = english.match(reason, place)
            if found:
                translated.append(chinese.format(**found.groupdict("")))
                place = found.end()
                break
        else:
            return reason
    return "".join(translated)
