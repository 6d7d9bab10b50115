"""Patches of apprise: chat services that refuse a message with HTTP 200 count as failed.

WeCom, DingTalk, Feishu and Lark respond with status 200 even to a refused message, such as the
twenty-first of a minute. The result is a code in the body, 0 for an accepted message. apprise reads
only the status, so it would count a refused message as delivered. The patch gives the plugins a
response that has the code as its status.
"""

import logging
from typing import Any

import apprise
import requests
from apprise.plugins import dingtalk, feishu, lark, wecombot

TESTED_VERSION = "2.2.0"
"""Version of apprise that the patch was tested with. A test fails when another is installed."""

PLUGINS = (dingtalk, feishu, lark, wecombot)
"""Plugin modules that send by their global name ``requests``."""

CODES = ("errcode", "code", "StatusCode")
"""Fields of the code: WeCom and DingTalk; Feishu and Lark, now and formerly."""

TEXTS = ("errmsg", "msg", "StatusMessage")
"""Fields of the reason."""

_log = logging.getLogger("apprise")  # apprise's warnings become the reason of a failure


class _Requests:
    """The module `requests`, except that a refusal has its code as status."""

    def __getattr__(self, name: str) -> Any:
        return getattr(requests, name)

    @staticmethod
    def post(*args: Any, **options: Any) -> requests.Response:
        """Post a request; a refusal in the response becomes its status."""
        response = requests.post(*args, **options)
        try:
            content = response.json()
        except ValueError:
            return response
        if response.status_code == requests.codes.ok and isinstance(content, dict):
            code = next((content[name] for name in CODES if name in content), 0)
            if code != 0:
                reason = next((content[name] for name in TEXTS if name in content), "no reason")
                _log.warning("refused: %s", reason)
                response.status_code = code
        return response


def apply() -> None:
    """Patch the plugins; a second call changes nothing.

    An untested version of apprise is patched as well, since a refused message would be lost
    otherwise. A warning names it.
    """
    if all(isinstance(getattr(plugin, "requests", None), _Requests) for plugin in PLUGINS):
        return
    if apprise.__version__ != TESTED_VERSION:
        logging.getLogger("tidemark.notifications").warning(
            "apprise %s is not tested, %s is", apprise.__version__, TESTED_VERSION
        )
    for plugin in PLUGINS:
        setattr(plugin, "requests", _Requests())  # noqa: B010 - the checker knows it as a module
