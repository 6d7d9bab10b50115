"""Services that keep alerts by themselves: an end has to name what it ends, or it is a new page.

apprise can send both, and knows nothing of what an earlier process sent: so each incident's id is
the name of its alert, by which PagerDuty and Opsgenie find it.
"""

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
from apprise.plugins.pagerduty import NotifyPagerDuty, PagerDutyAction

PAUSE = 0.5
"""Seconds between two messages: PagerDuty takes 120 a minute."""


class Opsgenie(NotifyOpsgenie):
    """Opsgenie, whose alerts are closed by their alias.

    apprise's own closes what the same object opened, by the id of the request, and notes what is
    mere information on an alert that is not there: both say that they did and send nothing.
    """

    def send(
        self,
        body: str,
        title: str = "",
        notify_type: NotifyType = NotifyType.INFO,
        **others: Any,
    ) -> bool:
        """Opens an alert, or closes it."""
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
    """The service at an apprise address, None when it cannot be used.

    What is too long for it is sent in parts and not refused, unless the address says otherwise.

    Args:
        url: the address.
        keeps_alerts: whether a pager is to open and close alerts; else all it gets is a new one.
    """
    service = apprise.Apprise.instantiate(url)
    if isinstance(service, NotifyOpsgenie):
        settings: Any = NotifyOpsgenie.parse_url(url)
        service = Opsgenie(**settings)
        service.mapping[NotifyType.INFO] = OpsgenieAlertAction.NEW
        if not keeps_alerts:
            service.mapping[NotifyType.SUCCESS] = OpsgenieAlertAction.NEW
        # An alert with one alias is one: who comes later would not be asked to look.
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
    """Whether it keeps alerts by itself."""
    return isinstance(service, NotifyPagerDuty | NotifyOpsgenie)


def about(service: NotifyBase, incident_id: str) -> None:
    """Names the alert that the next message to a pager is about."""
    if isinstance(service, NotifyPagerDuty):
        service.dedup = incident_id
    elif isinstance(service, NotifyOpsgenie):
        service.alias = incident_id
