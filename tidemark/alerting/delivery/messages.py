"""Notifications as text for people, and as JSON for programs.

A message shows its notifications in full. A digest and a summary have one line an incident: a
digest of all incidents of a period, a summary of those that resolved before they were notified.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import structs
from msgspec.structs import asdict

from tidemark.alerting.incidents.incident import Incident, Transition
from tidemark.alerting.rules.kinds import KINDS
from tidemark.lake.bounds import Bound, bound_of, marked
from tidemark.model.health import Health
from tidemark.model.incidents import Severity, TransitionKind
from tidemark.settings.times import in_words
from tidemark.settings.yaml_documents import one_line

SEVERITIES = tuple(Severity)
"""Worst first."""

MOST_IN_FULL = 20
"""Notifications that a message shows in full at most; of the others it shows the number."""


NO_CAUSE = (Health.UNKNOWN, Health.OK, Health.IDLE)
"""States of health whose reason explains no trouble: too little is known, or nothing is wrong."""


Phrase = Callable[..., str]
"""Returns an English text in another language, with the values that it names in braces."""


@dataclass(frozen=True, kw_only=True)
class Notification:
    """A notification of one transition of one incident.

    Attributes:
        incident: as it is now.
        transition: the change of its state.
        repeat: the number of this repeat, which is due because the incident is open; 0 = it has
            not been delivered before.
        late: whether the incident had resolved, too long ago to act on it, before it could be
            notified.
        records: earlier records of the incident's notifications, on all channels.
        url: the incident's page of the board; empty where the board's address is not known.
    """

    incident: Incident
    transition: Transition
    repeat: int = 0
    late: bool = False
    records: Sequence[Mapping[str, Any]] = field(default=(), compare=False, repr=False)
    url: str = field(default="", compare=False)

    @property
    def state(self) -> TransitionKind:
        """The change of the incident."""
        return self.transition.kind

    @property
    def is_superseded(self) -> bool:
        """Whether the incident has a later transition."""
        return self.transition != self.incident.transitions[-1]

    @property
    def line(self) -> str:
        """The notification in one line."""
        return self.line_of(self.state)

    def line_of(self, state: str) -> str:
        """Return it in one line, with a state of the incident."""
        incident = self.incident
        line = f"[{incident.severity}] {state} {incident.rule}: {incident.subject}"
        return f"{line} (repeat {self.repeat})" if self.repeat else line


def title(notifications: Sequence[Notification]) -> str:
    """Return one line for a subject or heading: the notification, or how many of each kind."""
    if len(notifications) == 1:
        return notifications[0].line
    firing = [
        notification
        for notification in notifications
        if notification.state == TransitionKind.FIRING
    ]
    parts = by_severity(notification.incident for notification in firing if not notification.repeat)
    repeated = sum(notification.repeat > 0 for notification in firing)
    resolved = sum(notification.state == TransitionKind.RESOLVED for notification in notifications)
    parts += [f"{repeated} repeated"] if repeated else []
    parts += [f"{resolved} resolved"] if resolved else []
    return f"Tidemark: {', '.join(parts)}"


def by_severity(incidents: Iterable[Incident]) -> list[str]:
    """Return the number of incidents of each severity, worst first: ``2 critical``, ``1 info``."""
    counts = Counter(incident.severity for incident in incidents)
    return [f"{counts[severity]} {severity}" for severity in SEVERITIES if counts[severity]]


def worst(notifications: Sequence[Notification]) -> str | None:
    """Return the worst severity of the firing ones; None when all are resolved."""
    severities = [
        notification.incident.severity
        for notification in notifications
        if notification.state == TransitionKind.FIRING
    ]
    return min(severities, key=severity_order) if severities else None


def body(notifications: Sequence[Notification], room: int | None = None) -> str:
    """Return the text of a message: the most severe first, the resolved last.

    Args:
        notifications: the notifications of the message.
        room: bytes that the text may take. Where they are too few, the last notifications are
            shortened to a line, and then only counted.
    """
    ordered = sorted(
        notifications,
        key=lambda notification: (
            notification.state == TransitionKind.RESOLVED,
            severity_order(notification.incident.severity),
            notification.incident.subject,
        ),
    )[:MOST_IN_FULL]
    texts = [text(notification) for notification in ordered]

    def shortened(in_full: int, shown: int) -> str:
        parts = texts[:in_full]
        if shown > in_full:
            parts.append("\n".join(notification.line for notification in ordered[in_full:shown]))
        if len(notifications) > shown:
            parts.append(f"and {len(notifications) - shown} more: tidemark incidents list")
        return "\n\n".join(parts)

    shown = len(ordered)
    sizes = [(number, shown) for number in range(shown, 0, -1)]
    sizes += [(0, number) for number in range(shown, -1, -1)]
    return first_short_enough((shortened(*size) for size in sizes), room)


def first_short_enough(texts: Iterable[str], room: int | None) -> str:
    """Return the first text that takes at most `room` bytes, or else the last."""
    candidate = ""
    for candidate in texts:
        if room is None or len(candidate.encode()) <= room:
            break
    return candidate


def text(notification: Notification, *, present: str = "") -> str:
    """Return a notification in full: value, times, likely cause, next step, evidence, runbook.

    Args:
        notification: the notification.
        present: the present state of the incident, for who has it before them: it stands in place
            of the transition's, and no line states where the incident can be seen.
    """
    incident = notification.incident
    details = incident.details
    firing, hint = notification.state == TransitionKind.FIRING, KINDS[incident.kind].hint
    cause, is_over = _likely_cause(incident), notification.state == TransitionKind.RESOLVED
    lines = (
        notification.line_of(present or notification.state),
        "" if is_over else details.get("description"),
        f"{'Closed' if details.get('closed') else 'Recovered'}: {recovery(incident)}"
        if is_over
        else "",
        f"{'Observed while it fired' if is_over else 'Observed'}: {observed(incident)}",
        _times(notification),
        f"Peak: {_of_incident(incident, 'peak_value')}"
        if incident.peak_value != incident.last_value
        else "",
        f"Likely cause: {cause}" if cause and firing else "",
        f"Next step: {hint}" if hint and firing else "",
        f"Evidence: {', '.join(_shortened(incident.snapshot_ids))}"
        if incident.snapshot_ids
        else "",
        f"Labels: {', '.join(f'{name}={value}' for name, value in incident.labels.items())}"
        if incident.labels
        else "",
        "" if present else f"Details: tidemark incidents show {incident.incident_id}",
        f"Board: {notification.url}" if notification.url else "",
        f"Runbook: {details['runbook']}" if details.get("runbook") else "",
    )
    return "\n".join(one_line(line) for line in lines if line)


def in_english(text: str, **values: Any) -> str:
    """Return a text with its values, in the language in which it is written."""
    return text.format(**values) if values else text


def observed(incident: Incident, phrase: Phrase = in_english) -> str:
    """Return the numbers of the newest alert in words, without the unknown ones.

    Args:
        incident: the incident.
        phrase: returns a text in the language of the reader.
    """
    row, unit = incident.row, _unit(incident)
    kind, words = KINDS[incident.kind], _words(incident)
    parts = [phrase(words, value=_of_incident(incident, "last_value", phrase))]
    if "{value}" in words and incident.threshold:
        threshold = amount(incident.threshold, unit, phrase)
        parts[0] = phrase(
            "{observed} (threshold {threshold})", observed=parts[0], threshold=threshold
        )
    if row.get("status"):
        parts.append(phrase("the snapshot is {status}", status=phrase(row["status"])))
    if kind.about_backlog and row.get("worst_broker"):
        most = marked(f"{row['max_queue_lag']:,}", bound_of("max_queue_lag", row))
        where = {"broker": row["worst_broker"], "queue_id": row["worst_queue_id"]}
        parts.append(phrase("most on {broker} queue {queue_id}: {lag}", **where, lag=most))
    if kind.about_backlog and row.get("delay_ms") is not None and incident.kind != "delay":
        bound = bound_of("delay_ms", row)
        age = amount(row["delay_ms"] / 1000, "seconds", phrase, bound)
        parts.append(phrase("the oldest for {age}", age=age))
    if incident.kind == "unusual":
        parts.append(_usual(row, phrase))
    if incident.kind == "burn_rate" and row.get("missed_objectives"):
        names = ", ".join(row["missed_objectives"])
        parts.append(phrase("missed lately: {objectives}", objectives=names))
    if row.get("queues_unknown"):
        queues = {"unknown": row["queues_unknown"], "queues": row["queues"]}
        parts.append(phrase("{unknown} of {queues} queues unknown, so a lower bound", **queues))
    return phrase(", ").join(parts)


_DAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


def _usual(row: Mapping[str, Any], phrase: Phrase) -> str:
    """Return the usual delay and lag beside those of the row: ``Tuesdays 10:00 UTC: ...``."""
    day, hour = divmod(row["hour_of_week"], 24)
    delays = {
        name: amount(value / 1000, "seconds", phrase, bound)
        for name, value, bound in (
            ("low", row["usual_low_delay_ms"], None),
            ("high", row["usual_high_delay_ms"], None),
            ("now", row["delay_ms"], bound_of("delay_ms", row)),
        )
    }
    lags = {
        "low_lag": f"{row['usual_low_lag']:,.0f}",
        "high_lag": f"{row['usual_high_lag']:,.0f}",
        "lag": marked(f"{row['lag']:,}", bound_of("lag", row)),
    }
    return phrase(
        "{day} {hour}:00 UTC: {low} to {high}, now {now}; {low_lag} to {high_lag} messages, "
        "now {lag}",
        day=phrase(_DAYS[day]),
        hour=f"{hour:02}",
        **delays,
        **lags,
    )


def _words(incident: Incident) -> str:
    """Return the words of an observation, before its numbers are filled in.

    The evidence has those of the rule, which are the kind's own but for rules on a column.
    """
    kind, words = KINDS[incident.kind], incident.details.get("words")
    if words and words != kind.words:
        return words
    if incident.last_value is None:
        return kind.words_uncounted or kind.words
    return (incident.last_value == 1 and kind.words_one) or kind.words


def recovery(incident: Incident, phrase: Phrase = in_english) -> str:
    """Return why an incident resolved: the recovery, or the reason for which it was closed."""
    closed = incident.details.get("closed")
    return phrase(str(closed) if closed else KINDS[incident.kind].recovery)


def _likely_cause(incident: Incident) -> str:
    """Return the cause that the row names, empty without one."""
    kind, row = KINDS[incident.kind], incident.row
    shared = row.get("duplicate_client_ids")
    words = KINDS["duplicate_client_ids"].words
    causes = [words.format(value=shared)] if shared and kind.value != "duplicate_client_ids" else []
    if not (kind.about_backlog and row.get("health") in NO_CAUSE):
        cause = row.get("health_reason" if kind.about_backlog else kind.cause)
        causes += cause if isinstance(cause, list) else [cause] if cause else []
    return ", ".join(causes)


def amount(
    value: float | None, unit: str, phrase: Phrase = in_english, bound: Bound | None = None
) -> str:
    """Return a number with its unit and the mark of a bound, ``?`` for an unknown one."""
    return "?" if value is None else marked(_with_unit(value, unit, phrase), bound)


def _of_incident(incident: Incident, column: str, phrase: Phrase = in_english) -> str:
    """Return ``last_value`` or ``peak_value`` of an incident with its unit and mark."""
    bound = bound_of(column, asdict(incident))
    return amount(getattr(incident, column), _unit(incident), phrase, bound)


def _with_unit(value: float, unit: str, phrase: Phrase) -> str:
    if unit == "seconds":
        return in_words(value)
    if unit == "share":
        return f"{value:.0%}"
    number = f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"
    one = unit.removesuffix("s") if value == 1 else unit
    return phrase(f"{{number}} {one}", number=number) if unit else number


def _times(notification: Notification) -> str:
    incident = notification.incident
    opened = instant(incident.opened_at)
    if notification.state == TransitionKind.RESOLVED:
        return f"Resolved: {instant(notification.transition.at)}, opened {opened}"
    again = f", {reopened(incident)}" if incident.reopened else ""
    return f"Opened: {opened}, last observed {instant(incident.last_true_at)}{again}"


def reopened(incident: Incident) -> str:
    """Return how often an incident reopened: ``reopened once``, ``reopened 2 times``."""
    return "reopened once" if incident.reopened == 1 else f"reopened {incident.reopened} times"


def instant(at: datetime) -> str:
    """Return an instant as people read it."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def as_json(notification: Notification) -> dict[str, Any]:
    """Return a notification for programs."""
    incident = notification.incident
    return {
        "event": "alert",
        "state": str(notification.state),
        "incident_id": incident.incident_id,
        "transition": str(notification.transition.transition),
        "late": notification.late,
        "repeat": notification.repeat,
        "at": notification.transition.at.isoformat(),
        "rule": incident.rule,
        "severity": incident.severity,
        "subject": incident.subject,
        "value": incident.last_value,
        "value_bound": incident.last_value_bound,
        "peak_value": incident.peak_value,
        "peak_value_bound": incident.peak_value_bound,
        "threshold": incident.threshold,
        "since": incident.opened_at.isoformat(),
        "snapshot_ids": list(incident.snapshot_ids),
        "description": incident.details.get("description", ""),
        "runbook": incident.details.get("runbook"),
        "url": notification.url or None,
        "labels": dict(incident.labels),
    }


def page_of(incident: Incident, board_url: str) -> str:
    """Return the incident's page of a board, empty without the address of one."""
    return f"{board_url.rstrip('/')}/incident?id={incident.incident_id}" if board_url else ""


def severity_order(severity: str) -> int:
    """Return the sort key of a severity, the worst first."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else 0


def _unit(incident: Incident) -> str:
    return KINDS[incident.kind].unit


def _shortened(names: Sequence[str]) -> list[str]:
    """Return the first two names and the last one."""
    return list(names) if len(names) <= 3 else [*names[:2], "...", names[-1]]


OPENED, STILL_OPEN, OVER = "opened", "still open", "resolved"
"""Sections of a digest."""


def digest_title(notifications: Sequence[Notification]) -> str:
    """Return how many incidents opened, are still open and resolved."""
    sections = _sections(notifications).items()
    counts = [f"{len(incidents)} {name}" for name, incidents in sections if incidents]
    return f"Tidemark digest: {', '.join(counts)}"


def digest_body(notifications: Sequence[Notification], room: int | None = None) -> str:
    """Return the incidents by section, each in one line, and the commands that show more.

    Args:
        notifications: the notifications of the digest.
        room: bytes that the text may take; where they are too few, each section shows fewer
            incidents.
    """
    sections = _sections(notifications)

    def shortened(most: int) -> str:
        texts = [
            f"{name.capitalize()}: {len(incidents)} ({', '.join(by_severity(incidents))})\n"
            + "\n".join(_by_rule_and_worst(incidents, most, ""))
            for name, incidents in sections.items()
            if incidents
        ]
        texts.append(
            "Open incidents: tidemark incidents list\n"
            "All incidents: tidemark incidents list --all\n"
            "Details: tidemark incidents show ID"
        )
        return "\n\n".join(texts)

    return first_short_enough(map(shortened, range(MOST_IN_FULL, -1, -1)), room)


def summary_title(notifications: Sequence[Notification]) -> str:
    """Return how many incidents resolved without a notification."""
    count = len(_worst_first(notifications))
    noun = "incident" if count == 1 else "incidents"
    return f"Tidemark: {count} {noun} opened and resolved before anybody was notified"


def summary_body(notifications: Sequence[Notification], room: int | None = None) -> str:
    """Return how many incidents each rule had, and one line for each of the worst.

    Args:
        notifications: of incidents that resolved before they could be notified.
        room: bytes that the text may take; where they are too few, fewer lines are shown.
    """
    incidents = _worst_first(notifications)

    def shortened(most: int) -> str:
        return "\n".join(_by_rule_and_worst(incidents, most, ": tidemark incidents list --all"))

    return first_short_enough(map(shortened, range(MOST_IN_FULL, -1, -1)), room)


def _sections(notifications: Sequence[Notification]) -> dict[str, list[Incident]]:
    """Return the incidents by their last state: the worst first, then the oldest."""
    names = {
        one.incident.incident_id: OVER
        if one.state == TransitionKind.RESOLVED
        else STILL_OPEN
        if one.repeat
        else OPENED
        for one in notifications
    }
    sections: dict[str, list[Incident]] = {OPENED: [], STILL_OPEN: [], OVER: []}
    for incident in _worst_first(notifications):
        sections[names[incident.incident_id]].append(incident)
    return sections


def _worst_first(notifications: Sequence[Notification]) -> list[Incident]:
    """Return each incident once: the worst first, then the oldest."""
    incidents = {one.incident.incident_id: one.incident for one in notifications}.values()
    return sorted(incidents, key=lambda one: (severity_order(one.severity), one.opened_at))


def _by_rule_and_worst(incidents: Sequence[Incident], most: int, more: str) -> list[str]:
    """Return the number of incidents of each rule, a line for each of the first, and the rest."""
    rules = Counter(incident.rule for incident in incidents).most_common()
    by_rule = f"By rule: {', '.join(f'{count} {rule}' for rule, count in rules)}"
    rest = [f"and {len(incidents) - most} more{more}"] if len(incidents) > most else []
    return [by_rule, *map(incident_line, incidents[:most]), *rest]


def incident_line(incident: Incident) -> str:
    """Return an incident in one line: rule, subject, times, numbers, runbook and id."""
    resolved_at = incident.resolved_at
    runbook = incident.details.get("runbook")
    until = f" until {instant(resolved_at)}" if resolved_at else ""
    parts = (
        f"[{incident.severity}] {incident.rule}: {incident.subject}",
        f"since {instant(incident.opened_at)}{until}",
        reopened(incident) if incident.reopened else "",
        "" if resolved_at else observed(incident),
        f"acknowledged by {incident.acknowledged_by}" if incident.acknowledged_by else "",
        f"runbook: {runbook}" if runbook else "",
        f"id {incident.incident_id}",
    )
    return one_line("; ".join(part for part in parts if part))


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


def harmless(text: str) -> str:
    """Return a text without mentions; their signs become the full-width forms."""
    return _TAG.sub("\uff1c", _AT.sub("\uff20", text))


def _harmless(value: Any) -> Any:
    """Return a text, or all texts in a list or a mapping, without mentions."""
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, dict):
        return {name: _harmless(item) for name, item in value.items()}
    return [_harmless(item) for item in value] if isinstance(value, list) else value
