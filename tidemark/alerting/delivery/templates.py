"""Messages in the words of a receiver: the ready-made English and Chinese, or its own templates."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tidemark.alerting.delivery.messages import (
    Notification,
    Phrase,
    as_json,
    body,
    first_short_enough,
    in_english,
    incident_line,
    instant,
    observed,
    recovery,
    severity_order,
    summary_body,
    summary_title,
    text,
    title,
)
from tidemark.alerting.rules.kinds import KINDS
from tidemark.alerting.rules.routing import TEMPLATES
from tidemark.model.incidents import Severity, TransitionKind

LOG = logging.getLogger("tidemark.notifications")

CHINESE_FILE = Path(__file__).parent / "zh_alerts.yaml"
"""Translations of the texts of rule kinds (statement, hint, recovery), from English to Chinese."""

CHINESE_TITLE = """\
{% if late %}Tidemark:{{ incidents }} 个告警在通知之前已触发并恢复\
{% elif notifications|length == 1 %}{% set n = notifications[0] %}\
[{{ severities[n.severity] }}] {{ states[n.state] }} {{ n.rule }}:{{ n.subject }}\
{% if n.repeat %}(第 {{ n.repeat }} 次重复){% endif %}\
{% else %}{% set repeated = firing|selectattr("repeat")|list|length %}\
{% set new = firing|length - repeated %}\
Tidemark:{{ [
    new ~ " 个触发" if new else "",
    repeated ~ " 个重复" if repeated else "",
    resolved|length ~ " 个恢复" if resolved else "",
]|select|join(",") }}{% endif %}"""

CHINESE_BODY = """\
{% for n in notifications %}
[{{ severities[n.severity] }}] {{ states[n.state] }} {{ n.rule }}:{{ n.subject }}\
{% if n.repeat %}(第 {{ n.repeat }} 次重复){% endif %}

{% if not late %}
{% if n.state == "RESOLVED" %}
恢复原因:{{ n.recovery }}
触发时观测:{{ n.observed }}
{% else %}
观测:{{ n.observed }}
{% endif %}
开始时间:{{ n.opened }}{% if n.resolved %},恢复时间:{{ n.resolved }}{% endif %}

{% if n.next_step and n.state == "FIRING" %}
建议:{{ n.next_step }}
{% endif %}
{% if n.labels %}
标签:{% for name, value in n.labels.items() %}{{ name }}={{ value }} {% endfor %}

{% endif %}
{% if n.runbook %}
处理手册:{{ n.runbook }}
{% endif %}
{% if n.url %}
看板:{{ n.url }}
{% endif %}
详情:tidemark incidents show {{ n.incident_id }}

{% endif %}
{% endfor %}"""

_CHINESE = {
    "severities": {Severity.CRITICAL: "严重", Severity.WARNING: "警告", Severity.INFO: "提示"},
    "states": {
        TransitionKind.FIRING: "触发",
        TransitionKind.RESOLVED: "恢复",
        TransitionKind.ACKNOWLEDGED: "已确认",
    },
}


@dataclass(frozen=True)
class Words:
    """The language and templates of a receiver's messages.

    Attributes:
        language: of the ready-made texts: ``en`` | ``zh``.
        own_title: its own template of the title.
        own_body: its own template of the text.
    """

    language: str = "en"
    own_title: str | None = None
    own_body: str | None = None

    @property
    def phrase(self) -> Phrase:
        """Returns an English text in its language."""
        return in_chinese if self.language == "zh" else in_english

    def title(self, notifications: Sequence[Notification]) -> str:
        """Return the title of a message in one line."""
        template = self.own_title or (CHINESE_TITLE if self.language == "zh" else None)
        late = all(notification.late for notification in notifications)
        ready_made = summary_title(notifications) if late else title(notifications)
        return " ".join(self._rendered(template, notifications, ready_made).split())

    def body(self, notifications: Sequence[Notification], room: int | None = None) -> str:
        """Return the text of a message; where it is too long, that of the first ones that fit.

        A template that leaves nothing, such as one about firing incidents when all have resolved,
        is replaced: services refuse a message without a text, and it would be tried for ever.
        """
        template = self.own_body or (CHINESE_BODY if self.language == "zh" else None)
        late = all(notification.late for notification in notifications)
        ready_made = (summary_body if late else body)(notifications, room)
        if template is None:
            return ready_made
        ordered = sorted(
            notifications, key=lambda notification: severity_order(notification.incident.severity)
        )
        count = len(ordered)
        sizes = sorted({count, *(n for n in (20, 10, 5, 2, 1) if n < count)}, reverse=True)
        return first_short_enough(
            (
                (self._rendered(template, ordered[:size], ready_made) or ready_made)
                + (f"\n+{count - size}" if size < count else "")
                for size in sizes
            ),
            room,
        )

    def _rendered(
        self, template: str | None, notifications: Sequence[Notification], ready_made: str
    ) -> str:
        """Return a template with its values; the ready-made text where it cannot be rendered."""
        if template is None:
            return ready_made
        try:
            values = _values(notifications, ready_made, self.phrase)
            return TEMPLATES.from_string(template).render(values).strip()
        except Exception as error:  # whatever a template does, the notification has to go out
            LOG.warning("a template failed, the ready-made text is sent: %s", type(error).__name__)
            return ready_made


def _values(
    notifications: Sequence[Notification], ready_made: str, phrase: Phrase
) -> dict[str, Any]:
    rows = [_row(notification, phrase) for notification in notifications]
    return {
        "notifications": rows,
        "firing": [row for row in rows if row["state"] == TransitionKind.FIRING],
        "resolved": [row for row in rows if row["state"] == TransitionKind.RESOLVED],
        "incidents": len({row["incident_id"] for row in rows}),
        "late": all(notification.late for notification in notifications),
        "ready_made": ready_made,
        **_CHINESE,
    }


def _row(notification: Notification, phrase: Phrase) -> dict[str, Any]:
    """Return a notification as plain values, with its numbers in words of a language."""
    incident = notification.incident
    return as_json(notification) | {
        "text": text(notification),
        "line": incident_line(incident),
        "observed": observed(incident, phrase),
        "recovery": recovery(incident, phrase),
        "next_step": phrase(KINDS[incident.kind].hint),
        "opened": instant(incident.opened_at),
        "resolved": instant(incident.resolved_at) if incident.resolved_at else "",
        "row": {name: value for name, value in incident.row.items()},
    }


@cache
def _chinese_texts() -> Mapping[str, str]:
    return yaml.safe_load(CHINESE_FILE.read_text(encoding="utf-8"))


def in_chinese(text: str, **values: Any) -> str:
    """Return a text with its values in Chinese; one that is not in `CHINESE_FILE` stays English."""
    translated = _chinese_texts().get(text, text)
    return translated.format(**values) if values else translated
