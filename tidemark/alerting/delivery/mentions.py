"""Names that notify people: chat services read ``@everyone`` or ``<!channel>`` as a call for all.

Strangers choose the names of groups, topics and clients, so no value of a notification may mention
a person. The text of a receiver's own template may, because an operator writes it.
"""

import re
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import structs

from tidemark.alerting.delivery.messages import Notification

_AT = re.compile(r"(?<!\w)@(?=\S)|@(?=everyone|here|channel|all|room|\*)", re.IGNORECASE)
"""``@name`` at the start of a word, and calls for all anywhere.

An ``@`` inside a word stays, because client ids and mail addresses contain one.
"""

_TAG = re.compile(r"<(?=[@!#&]|/?at\b|users/)", re.IGNORECASE)
"""``<@id>`` of Slack, Discord and WeCom, ``<!channel>`` of Slack and Mattermost, ``<#id>``,
``<at id=all>`` of Feishu and Lark, ``<users/all>`` of Google Chat.
"""


def without_mentions(notification: Notification) -> Notification:
    """Return a notification without mentions, whatever the names in it are.

    Signs of a mention become their full-width forms, which people read as the same.
    """
    incident = notification.incident
    texts = ("rule", "subject", "cluster", "acknowledged_by", "acknowledge_reason", "resolved_by",
             "resolve_reason", "labels")  # fmt: skip
    harmless = {name: _harmless(getattr(incident, name)) for name in texts}
    evidence = _harmless(msgspec.json.decode(incident.evidence))
    harmless["evidence"] = msgspec.json.encode(evidence).decode()
    return replace(notification, incident=structs.replace(incident, **harmless))


def _harmless(value: Any) -> Any:
    """Return a text, or all texts in a list or a mapping, without mentions."""
    if isinstance(value, str):
        return _TAG.sub("\uff1c", _AT.sub("\uff20", value))
    if isinstance(value, dict):
        return {name: _harmless(item) for name, item in value.items()}
    return [_harmless(item) for item in value] if isinstance(value, list) else value
