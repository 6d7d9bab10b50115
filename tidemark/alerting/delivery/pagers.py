"""Pagers (PagerDuty, Opsgenie), which keep alerts of their own until a resolution closes them.

A resolution has to name its alert, or it would open a new one. apprise has no record of an earlier
process, so the id of each incident is the key of its alert.
"""

import json
from typing import Any
from urllib.parse import quote

import apprise
import requests
from apprise.common import NotifyType, OverflowMode
from apprise.plugins.base import NotifyBase
from apprise.plugins.opsgenie import (
    OPSGENIE_API_LOOKUP,
    NotifyOpsgenie,
    OpsgenieAlertAction,
)
from apprise.plugins.pagerduty import PAGERDUTY_API_LOOKUP, NotifyPagerDuty, PagerDutyAction

from tidemark.alerting.delivery.messages import Notification
from tidemark.model.incidents import Severity

PAUSE = 0.5
"""Seconds between two messages: PagerDuty accepts 120 a minute."""


class Opsgenie(NotifyOpsgenie):
    """Opsgenie, whose alerts are closed by their alias.

    apprise's own class closes an alert only by the request id of the object that opened it, and
    adds notes to alerts that do not exist. It reports success in both cases and sends nothing.
    """

    def send(
        self,
        body: str,
        title: str = "",
        notify_type: NotifyType = NotifyType.INFO,
        **others: Any,
    ) -> bool:
        """Open an alert, or close it."""
        actions: Any = self.mapping
        is_mapped = self.action == OpsgenieAlertAction.MAP
        if not (self.alias and is_mapped and actions[notify_type] == OpsgenieAlertAction.CLOSE):
            return super().send(body, title, notify_type, **others)
        alerts = OPSGENIE_API_LOOKUP[str(self.region_name)]
        alert = f"{alerts}/{quote(self.alias, safe='')}/close"
        user = {"user": self.user} if self.user else {}
        what = {"source": self.app_desc, "note": body} | user
        taken, _ = self._fetch(requests.post, alert, what, {"identifierType": "alias"})
        return taken


def opened(url: str, *, keeps_alerts: bool) -> NotifyBase | None:
    """Return the service at an apprise address; None when apprise cannot use it.

    A text that is too long is sent in parts, unless the address configures otherwise.

    Args:
        url: the address.
        keeps_alerts: whether a pager opens and closes alerts; otherwise each message is a new one.
    """
    service = apprise.Apprise.instantiate(url)
    if isinstance(service, NotifyOpsgenie):
        settings: Any = NotifyOpsgenie.parse_url(url)
        service = Opsgenie(**settings)
        service.mapping[NotifyType.INFO] = OpsgenieAlertAction.NEW
        if not keeps_alerts:
            service.mapping[NotifyType.SUCCESS] = OpsgenieAlertAction.NEW
        # One alias is one alert: responders of a later batch would not be notified.
        service.batch_size = service.default_batch_size
    elif isinstance(service, NotifyPagerDuty):
        service.action = PagerDutyAction.MAP if keeps_alerts else PagerDutyAction.TRIGGER
    if service is None:
        return None
    if service.overflow_mode == OverflowMode.UPSTREAM:
        service.overflow_mode = OverflowMode.TRUNCATE if is_pager(service) else OverflowMode.SPLIT
    if is_pager(service):
        service.request_rate_per_sec = PAUSE
    return service


def is_pager(service: NotifyBase) -> bool:
    """Return whether the service keeps alerts of its own."""
    return isinstance(service, NotifyPagerDuty | NotifyOpsgenie)


def no_page_for(notification: Notification) -> str | None:
    """Return why a notification opens no page, None where it does."""
    if notification.late:
        return "resolved before it was notified, which opens no page"
    is_info = notification.incident.severity == Severity.INFO
    return "info opens no page" if is_info else None


def acknowledge(service: NotifyBase, notification: Notification) -> bool:
    """Send an acknowledgement to a pager, which apprise does not support.

    Returns:
        Whether the pager accepted it.
    """
    incident = notification.incident
    if isinstance(service, NotifyPagerDuty):
        event = {
            "routing_key": service.integration_key,
            "event_action": "acknowledge",
            "dedup_key": incident.incident_id,
        }
        try:
            # The status suffices: a body may break off, or have no end.
            with requests.post(
                PAGERDUTY_API_LOOKUP[service.region_name],
                data=json.dumps(event),
                headers={"Content-Type": "application/json"},
                timeout=service.request_timeout,
                stream=True,
            ) as response:
                pass
        except requests.RequestException as error:
            service.logger.warning("not acknowledged: %s", type(error).__name__)
            return False
        if not response.ok:
            service.logger.warning("not acknowledged: error=%s", response.status_code)
        return response.ok
    assert isinstance(service, NotifyOpsgenie)
    alerts = OPSGENIE_API_LOOKUP[str(service.region_name)]
    alert = f"{alerts}/{quote(incident.incident_id, safe='')}/acknowledge"
    what = {"user": incident.acknowledged_by or "", "source": service.app_desc}
    what["note"] = incident.acknowledge_reason or ""
    taken, _ = service._fetch(requests.post, alert, what, {"identifierType": "alias"})
    return taken


def about(service: NotifyBase, incident_id: str) -> None:
    """Set the alert that the next message to a pager concerns."""
    if isinstance(service, NotifyPagerDuty):
        service.dedup = incident_id
    elif isinstance(service, NotifyOpsgenie):
        service.alias = incident_id
