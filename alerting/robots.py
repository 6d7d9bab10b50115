"""Chat robots that refuse a message with an HTTP answer that is a good one.

WeCom, DingTalk, Feishu and Lark answer 200 whatever became of it, also to the twenty-first message
of a minute; what they did is a number in the body, 0 for *taken*. apprise looks at the status only
and the message would count as told. So the answer that its plugins see has the number as status.
"""

import logging
from typing import Any

import requests
from apprise.plugins import dingtalk, feishu, lark, wecombot

CODES = ("errcode", "code", "StatusCode")
"""Where the number is: WeCom and DingTalk; Feishu and Lark, now and formerly."""

TEXTS = ("errmsg", "msg", "StatusMessage")
"""Where the reason is."""

_log = logging.getLogger("apprise")  # what apprise warns of is the reason of a failure


class _Requests:
    """`requests` as it is, but for answers that say no."""

    def __getattr__(self, name: str) -> Any:
        return getattr(requests, name)

    @staticmethod
    def post(*args: Any, **options: Any) -> requests.Response:
        """Posts; an answer that says no has what it says as its status."""
        answer = requests.post(*args, **options)
        try:
            said = answer.json()
        except ValueError:
            return answer
        if answer.status_code == requests.codes.ok and isinstance(said, dict):
            code = next((said[name] for name in CODES if name in said), 0)
            if code != 0:
                reason = next((said[name] for name in TEXTS if name in said), "no reason told")
                _log.warning("refused: %s", reason)
                answer.status_code = code
        return answer


def hear_refusals() -> None:
    """Lets the plugins of apprise hear what the robots answer."""
    for plugin in (dingtalk, feishu, lark, wecombot):
        setattr(plugin, "requests", _Requests())  # noqa: B010 - the checker knows it as a module
