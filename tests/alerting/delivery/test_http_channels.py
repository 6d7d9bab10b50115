"""Services with unusual responses delay no other channel, and no address is shown."""

import logging
from time import monotonic

import pytest
from apprise.plugins.pagerduty import PAGERDUTY_API_LOOKUP

from tests.support.notification_servers import responding, serve
from tests.support.notified_incidents import FIRING, clock, minute, notification
from tidemark.alerting.delivery import http_channels
from tidemark.alerting.delivery.channels import AppriseChannel, Channel, ChannelError
from tidemark.alerting.delivery.http_channels import AlertmanagerChannel, WebhookChannel, heartbeat
from tidemark.alerting.delivery.messages import Notification
from tidemark.alerting.delivery.outbox import deliver
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.incidents.life_cycle import acknowledged
from tidemark.alerting.incidents.repository import save

pytestmark = pytest.mark.slow

OK = b"HTTP/1.1 200 OK\r\n"
UNUSABLE = ("http://a..b/s3cret", "http://eve:\u5bc6\u7801s3cret@127.0.0.1/x")


class Broken(Channel):
    """A channel with a defect, which names what it was given."""

    name = "broken"

    def send(self, notifications: object) -> None:
        raise OSError("http://eve:s3cret@127.0.0.1")

    def refresh(self, incidents: object) -> None:
        raise OSError("http://eve:s3cret@127.0.0.1")


def test_a_channel_with_a_defect_delays_no_other(lake, caplog: pytest.LogCaptureFixture):
    save(lake, [], [FIRING])
    with serve() as hook:
        result = deliver(lake, [Broken(), AppriseChannel(hook.url)], clock=clock(1))
        assert len(hook.received) == 1
    assert result.failed == {"broken": "failed: OSError"}
    assert "s3cret" not in caplog.text


def taken_on() -> Notification:
    incident: Incident = acknowledged(FIRING, "eve", minute(1))
    assert incident.acknowledgement
    return Notification(incident=incident, transition=incident.acknowledgement)


@pytest.mark.parametrize("page", [b"<html>log in</html>", b"null", b'[{"id": 5}]'])
def test_a_page_in_place_of_silences_is_a_refusal(page: bytes):
    with responding(OK + b"\r\n" + page) as url, pytest.raises(ChannelError) as error:
        AlertmanagerChannel(url, "am").send([taken_on()])
    assert str(error.value) == "refused: its response is no list of silences"


def test_an_acknowledgement_without_a_connection_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidemark.alerting.delivery.pagers.PAUSE", 0)
    with serve() as hook:
        closed = hook.http
    monkeypatch.setitem(PAGERDUTY_API_LOOKUP, "us", closed)
    with pytest.raises(ChannelError, match="not acknowledged: ConnectionError"):
        AppriseChannel("pagerduty://routing-key@api-key").send([taken_on()])


@pytest.mark.parametrize("url", UNUSABLE)
def test_an_unusable_address_is_one_line_without_it(url: str):
    with pytest.raises(ChannelError) as error:
        WebhookChannel(url, None, "team").send([notification(FIRING)])
    reason = heartbeat(url, succeeded=False)
    assert reason
    for line in (str(error.value), reason):
        assert "no connection: " in line
        assert "s3cret" not in line
    assert heartbeat("http://[s3cret/x", succeeded=False) == (
        "TIDEMARK_HEARTBEAT_URL: it is no address"
    )


def test_a_malformed_header_shows_no_address(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with responding(OK + b"no header\r\nContent-Length: 0\r\n\r\n") as url:
        WebhookChannel(url, None, "team").send([notification(FIRING)])
        AppriseChannel(url.replace("http://", "json://")).send([notification(FIRING)])
        assert heartbeat(url, succeeded=True) is None
    assert "s3cret" not in caplog.text


def test_a_response_without_an_end_holds_up_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_channels, "TIMEOUT", 0.5)
    began = monotonic()
    with responding(OK + b"\r\n", endless=True) as url:
        WebhookChannel(url, None, "team").send([notification(FIRING)])
        assert heartbeat(url, succeeded=True) is None
        with pytest.raises(ChannelError, match="no connection: TimeoutError"):
            AlertmanagerChannel(url, "am").send([taken_on()])
    assert monotonic() - began < 5


def test_a_webhook_that_breaks_off_after_its_status_has_accepted():
    with responding(OK + b"Content-Length: 99\r\n\r\n{}") as url:
        WebhookChannel(url, None, "team").send([notification(FIRING)])


@pytest.mark.parametrize("body", [{}, {"endless": True}])
def test_an_acknowledgement_is_accepted_by_its_status(monkeypatch: pytest.MonkeyPatch, body):
    """One that broke off was sent again and again, one without an end held up every channel."""
    monkeypatch.setattr("tidemark.alerting.delivery.pagers.PAUSE", 0)
    with responding(OK + b"Content-Length: 99999999\r\n\r\n{}", **body) as url:
        monkeypatch.setitem(PAGERDUTY_API_LOOKUP, "us", url)
        AppriseChannel("pagerduty://routing-key@api-key").send([taken_on()])
