"""Requests over HTTP: signed webhooks, Alertmanager's API v2, and the heartbeat of a service."""

import hashlib
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from tidemark.alerting.delivery.channels import (
    ADDRESS_FILTER,
    Channel,
    ChannelError,
    RequestError,
    response_to,
)
from tidemark.alerting.delivery.messages import Notification, observed, page_of
from tidemark.alerting.delivery.report_messages import report_document
from tidemark.alerting.incidents.incident import Incident, with_notifications
from tidemark.alerting.weekly_report import Report
from tidemark.lake.typed_rows import plain_rows
from tidemark.model.incidents import TransitionKind

TIMEOUT = 10.0
"""Seconds for one request."""

ALIVE = timedelta(minutes=10)
"""An alert in Alertmanager ends this long after it was last repeated, should Tidemark be dead."""

SILENCED = timedelta(days=365)
"""Time for which an acknowledged alert is silenced in Alertmanager, unless it resolves before.

An incident may be open for months. The silence names its id, so it mutes no other incident.
"""


def _request(method: str, url: str, *, with_body: bool = False, **options: Any) -> bytes:
    """Send one request; return the body where it is wanted.

    Raises:
        ChannelError: it failed or was refused; the line holds no part of the address.
    """
    try:
        response, body = response_to(
            method, url, TIMEOUT, with_body=with_body, allow_redirects=False, **options
        )
    except RequestError as error:
        raise ChannelError(str(error)) from None
    if not 200 <= response.status_code < 300:
        raise ChannelError(f"refused: HTTP {response.status_code}")
    return body


def _fingerprint(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:6]


def document(notification: Notification) -> dict[str, Any]:
    """Return an incident as ``GET /api/v1/incidents/{id}`` has it, and the transition."""
    (row,) = plain_rows([notification.incident])
    notifications = with_notifications(row, notification.records)
    notifications["transition"] = {
        "transition": str(notification.transition.transition),
        "state": notification.state,
        "at": notification.transition.at,
        "repeat": notification.repeat > 0,
        "repeat_number": notification.repeat,
        "late": notification.late,
    }
    return notifications


class WebhookChannel(Channel):
    """An address that gets one JSON document per transition.

    ``Idempotency-Key`` is the incident's id, the transition and, for a repeat, its number. It is
    the same at every attempt, so a receiver can recognize a document that it already has.

    With a secret, ``X-Tidemark-Signature`` is ``sha256=`` and the HMAC-SHA256 of the body in
    hexadecimal.

    It opens no pages: a program receives it and decides. Its name is the receiver and a fingerprint
    of the address.
    """

    one_by_one = True
    acknowledges = True
    takes_reports = True

    def __init__(self, url: str, secret: str | None, receiver: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise ChannelError("a webhook's address starts with http:// or https://")
        self.name = f"{receiver}.webhook-{_fingerprint(url)}"
        self.receiver = receiver
        self._url = url
        self._secret = secret
        ADDRESS_FILTER.install()

    def send(self, notifications: Sequence[Notification]) -> None:
        """Post each notification.

        Raises:
            ChannelError: the service did not accept one.
        """
        for notification in notifications:
            body = msgspec.json.encode(document(notification))
            key = f"{notification.incident.incident_id}/{notification.transition.transition}"
            if notification.repeat:
                key += f"/{notification.repeat}"
            self._post(body, key)

    def report(self, report: Report) -> None:
        """Post a weekly report, which is below ``report``.

        Its ``Idempotency-Key`` is ``report``, the week and the team.

        Raises:
            ChannelError: the service did not accept it.
        """
        body = msgspec.json.encode({"report": report_document(report)})
        team = f"/{quote(report.team)}" if report.team else ""
        self._post(body, f"report/{report.week.name}{team}")

    def _post(self, body: bytes, key: str) -> None:
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        if self._secret:
            digest = hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()
            headers["X-Tidemark-Signature"] = f"sha256={digest}"
        _request("POST", self._url, data=body, headers=headers)


class _Status(msgspec.Struct, frozen=True):
    state: str


class _Silence(msgspec.Struct, frozen=True):
    """A silence as Alertmanager lists it."""

    id: str
    status: _Status
    matchers: tuple[dict[str, Any], ...]

    def is_about(self, incident: Incident) -> bool:
        """Return whether it is active or planned, and one matcher names the incident."""
        mine = {"name": "incident_id", "value": incident.incident_id}
        return self.status.state != "expired" and any(
            matcher.items() >= mine.items() for matcher in self.matchers
        )


class AlertmanagerChannel(Channel):
    """An Alertmanager, which routes, groups and silences by itself.

    It expects firing alerts to be repeated, which `refresh` does. An acknowledged incident is
    silenced there, because Alertmanager has no acknowledgement.

    It opens no pages, as its own routes decide. Its name is the receiver and a fingerprint of the
    address.
    """

    acknowledges = True

    def __init__(self, url: str, receiver: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise ChannelError("an Alertmanager's address starts with http:// or https://")
        self.name = f"{receiver}.alertmanager-{_fingerprint(url)}"
        self.receiver = receiver
        self._api = f"{url.rstrip('/')}/api/v2"
        ADDRESS_FILTER.install()

    def send(self, notifications: Sequence[Notification]) -> None:
        """Post the newest state of each incident.

        Raises:
            ChannelError: it did not accept them.
        """
        newest = {notification.incident.incident_id: notification for notification in notifications}
        self._post([notification.incident for notification in newest.values()])
        for notification in newest.values():
            if notification.state == TransitionKind.ACKNOWLEDGED:
                self._silence(notification.incident)
            elif (
                notification.transition.transition.number > 1
                or notification.state == TransitionKind.RESOLVED
            ):
                self._unsilence(notification.incident)

    def refresh(self, incidents: Sequence[Incident]) -> None:
        """Post firing alerts again, so that they do not end.

        Raises:
            ChannelError: it did not accept them.
        """
        if incidents:
            self._post(incidents)

    def _post(self, incidents: Sequence[Incident]) -> None:
        now = datetime.now(UTC)
        alerts = [
            _alert(incident, now, page_of(incident, self.board_url)) for incident in incidents
        ]
        _request("POST", f"{self._api}/alerts", json=alerts)

    def _silences(self, incident: Incident) -> list[str]:
        body = _request(
            "GET",
            f"{self._api}/silences",
            params={"filter": f'incident_id="{incident.incident_id}"'},
            with_body=True,
        )
        try:
            silences = msgspec.json.decode(body, type=list[_Silence])
        except msgspec.DecodeError:
            # A proxy in front of it may respond with a page of its own.
            raise ChannelError("refused: its response is no list of silences") from None
        return [silence.id for silence in silences if silence.is_about(incident)]

    def _silence(self, incident: Incident) -> None:
        if self._silences(incident):
            return
        now = datetime.now(UTC)
        why = f": {incident.acknowledge_reason}" if incident.acknowledge_reason else ""
        matcher = {"name": "incident_id", "value": incident.incident_id, "isRegex": False}
        silence = {
            "matchers": [matcher | {"isEqual": True}],
            "startsAt": now.isoformat(),
            "endsAt": (now + SILENCED).isoformat(),
            "createdBy": incident.acknowledged_by or "tidemark",
            "comment": f"acknowledged in Tidemark{why}",
        }
        _request("POST", f"{self._api}/silences", json=silence)

    def _unsilence(self, incident: Incident) -> None:
        for silence_id in self._silences(incident):
            _request("DELETE", f"{self._api}/silence/{silence_id}")


def _alert(incident: Incident, now: datetime, url: str) -> dict[str, Any]:
    """Return an incident as Alertmanager takes alerts, with its page where there is one."""
    labels = {_label(name): text for name, text in incident.match_labels.items()}
    ends_at = incident.resolved_at or now + ALIVE
    starts_at = incident.fired_at or incident.opened_at
    details = incident.details
    annotations = {
        "summary": f"{incident.rule}: {incident.subject}",
        "description": details.get("description") or "",
        "observed": observed(incident),
        "runbook_url": details.get("runbook") or "",
    }
    return {
        "labels": labels | {"alertname": incident.rule, "incident_id": incident.incident_id},
        "annotations": {name: text for name, text in annotations.items() if text},
        "startsAt": min(starts_at, ends_at).isoformat(),
        "endsAt": ends_at.isoformat(),
    } | ({"generatorURL": url} if url else {})


def _label(name: str) -> str:
    """Return a name as Prometheus allows it."""
    text = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
    return f"_{text}" if text[:1].isdigit() else text or "_"


HEARTBEAT_SECONDS = 5.0
"""Longest wait for an outside service that alerts when heartbeats stop, as healthchecks.io."""


def heartbeat(url: str, *, succeeded: bool) -> str | None:
    """Call the address of the service after a success, and its ``/fail`` after a failure.

    Args:
        url: the address; empty = no heartbeat.
        succeeded: whether the tick or the delivery succeeded.

    Returns:
        Why the call failed, in one line without the address; None when it did not.
    """
    if not url:
        return None
    ADDRESS_FILTER.install()
    try:
        address = url if succeeded else _address_of_failure(url)
        response, _ = response_to("GET", address, HEARTBEAT_SECONDS)
    except RequestError as error:
        return f"TIDEMARK_HEARTBEAT_URL: {error}"
    except ValueError:
        return "TIDEMARK_HEARTBEAT_URL: it is no address"
    return None if response.ok else f"TIDEMARK_HEARTBEAT_URL: HTTP {response.status_code}"


def _address_of_failure(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/fail"))
