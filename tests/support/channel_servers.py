"""Channels that lead to a server of the test."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import pytest
import requests

PAGERDUTY = "pagerduty://routing-key@api-key"


@dataclass
class Web:
    """Requests that were posted, in order; from `refuses_from` on, all are refused.

    Opsgenie and PagerDuty report success with 202, chat services with 200.
    """

    posted: list[tuple[str, dict[str, Any], Any]] = field(default_factory=list)
    refuses_from: int = 1_000_000
    payload: bytes = b'{"requestId": "r"}'

    def post(self, url: str, *, data: Any, params: Any = None, **_: Any) -> requests.Response:
        response = requests.Response()
        success = 202 if "pagerduty" in url or "opsgenie" in url else 200
        response.status_code = success if len(self.posted) < self.refuses_from else 429
        response._content, response.raw = self.payload, BytesIO()
        if response.ok:
            self.posted.append((url, json.loads(data), params))
        return response


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    web = Web()
    monkeypatch.setattr(requests, "post", web.post)
    monkeypatch.setattr("tidemark.alerting.delivery.pagers.PAUSE", 0)
    yield web
