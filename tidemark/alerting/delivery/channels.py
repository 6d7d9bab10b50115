"""Channels that deliver notifications: the log, and every service that apprise supports by HTTP.

A channel's address holds secrets (tokens, passwords), so it comes from the environment or other
configuration only, and neither it nor a part of it is ever logged, raised or shown.
"""

import hashlib
import json
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Lock
from time import monotonic
from typing import Any
from urllib.parse import unquote

import apprise
import requests
from apprise.plugins import dingtalk, feishu, lark, wecombot

from tidemark.alerting.delivery.messages import (
    Notification,
    as_json,
    digest_body,
    digest_title,
    without_mentions,
    worst,
)
from tidemark.alerting.delivery.pagers import about, acknowledge, is_pager, opened
from tidemark.alerting.delivery.report_messages import report_body, report_title
from tidemark.alerting.delivery.templates import Words
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.rules.routing import DEFAULT_RECEIVER
from tidemark.alerting.weekly_report import Report
from tidemark.model.incidents import Severity, TransitionKind
from tidemark.settings.yaml_documents import printable

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


PIECE = 65_536
"""Most bytes of a body that are taken at a time."""


class AddressFilter(logging.Filter):
    """Keeps log lines that hold addresses from every handler, and collects apprise's warnings.

    apprise reports the reason of a failure only in its log, which also holds addresses; several
    loggers of urllib3 name their paths. apprise sends in threads of its own. So every line logged
    during a send counts as part of it, and only one message is sent at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sending = Lock()
        self._lines: list[str] | None = None

    def install(self) -> None:
        """Filter the loggers that may name addresses; a second call changes nothing."""
        # A filter holds for its own logger alone, so each module's logger needs it.
        for name in tuple(logging.root.manager.loggerDict):
            if name.split(".")[0] in ("apprise", "urllib3"):
                logging.getLogger(name).addFilter(self)

    @contextmanager
    def warnings(self) -> Iterator[list[str]]:
        """Collect the warnings of apprise while the context is open."""
        with self._sending:
            self._lines = lines = []
            try:
                yield lines
            finally:
                self._lines = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line may pass, as it does not concern a send of ours."""
        ours = record.name == "apprise"
        lines = self._lines
        if ours and lines is not None and record.levelno >= logging.WARNING:
            lines.append(record.getMessage())
        return not ours and lines is None


ADDRESS_FILTER = AddressFilter()
"""The filter of this process."""


class RequestError(RuntimeError):
    """A request got no response; one line without the address."""


def response_to(
    method: str, url: str, seconds: float, *, with_body: bool = False, **options: Any
) -> tuple[requests.Response, bytes]:
    """Send one request.

    A status shows whether a request was accepted, so the body is read only where it is wanted: it
    may have no end, and its sender may break off.

    Args:
        method: of HTTP.
        url: the address.
        seconds: how long to wait for the response, and then again for its body.
        with_body: whether the body is wanted.
        options: of `requests.request`.

    Returns:
        (the response, its body, which is empty unless it is wanted).

    Raises:
        RequestError: there was no response in time.
    """
    with ADDRESS_FILTER.warnings():
        try:
            with requests.request(method, url, timeout=seconds, stream=True, **options) as response:
                return response, b"".join(_pieces(response, seconds)) if with_body else b""
        except Exception as error:
            # Not all are of `requests`: a name of a host, an account or a redirect that it cannot
            # use raises errors of others. Their texts hold the address.
            raise RequestError(f"no connection: {type(error).__name__}") from None


def _pieces(response: requests.Response, seconds: float) -> Iterator[bytes]:
    """Yield a body; the limit of a request concerns only the pause between two pieces of it.

    Raises:
        TimeoutError: it took too long.
    """
    until = monotonic() + seconds
    while piece := response.raw.read1(PIECE, decode_content=True):
        yield piece
        if monotonic() > until:
            raise TimeoutError


_LEVELS: Mapping[str, int] = {
    Severity.CRITICAL: logging.ERROR,
    Severity.WARNING: logging.WARNING,
    Severity.INFO: logging.INFO,
}
_TYPES: Mapping[str, apprise.NotifyType] = {
    Severity.CRITICAL: apprise.NotifyType.FAILURE,
    Severity.WARNING: apprise.NotifyType.WARNING,
    Severity.INFO: apprise.NotifyType.INFO,
}
_LEAST_SECRET = 4
"""Parts of an address shorter than this are words, not secrets."""
_JOINED = 2
"""Bytes between title and text, where a service has only one field."""


class ChannelError(RuntimeError):
    """A channel cannot be used or did not take a message; one line without secrets."""


class Channel(ABC):
    """A service that delivers notifications.

    Attributes:
        name: its name in logs and in ``alerting.notifications``; holds no secret.
        every: the period of its digests; None = each notification at once.
        one_by_one: whether each notification is a message of its own, which pagers need.
        pages: whether it opens pages, which wake people.
        receiver: the receiver that it belongs to; None where it gets everything, whatever the
            routes.
        acknowledges: whether it is notified that a person acknowledged an incident.
        board_url: address of the board that its messages link to; empty without one.
        takes_reports: whether it takes weekly reports; a pager and an Alertmanager take none.
    """

    name: str
    every: timedelta | None = None
    one_by_one: bool = False
    pages: bool = False
    receiver: str | None = None
    acknowledges: bool = False
    board_url: str = ""
    takes_reports: bool = False

    def report(self, report: Report) -> None:
        """Send a weekly report.

        Raises:
            ChannelError: the service did not accept it, or takes no reports.
        """
        raise ChannelError("it takes no reports")

    @abstractmethod
    def send(self, notifications: Sequence[Notification]) -> None:
        """Send the notifications, all or none.

        Raises:
            ChannelError: the service did not accept them.
        """

    def refresh(self, incidents: Sequence[Incident]) -> None:  # noqa: B027 - most need no repeats
        """Repeat firing incidents that the service has accepted, where it expects repeats.

        Raises:
            ChannelError: the service did not accept them.
        """


class LogChannel(Channel):
    """Logs one line of JSON per notification at the level of its severity; resolved ones as info.

    All lines of a delivery are one message.
    """

    name = "log"

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("tidemark.alerts")

    def send(self, notifications: Sequence[Notification]) -> None:
        """Write the lines; a log does not fail."""
        for notification in notifications:
            is_firing = notification.state == TransitionKind.FIRING
            severity = notification.incident.severity if is_firing else Severity.INFO
            level = _LEVELS.get(severity, logging.WARNING)
            self._logger.log(level, json.dumps(as_json(notification)))


class AppriseChannel(Channel):
    """A service that apprise supports: a webhook, Slack, e-mail, DingTalk, ...

    All notifications of a delivery are one message, which the service accepts or refuses. A pager
    (`tidemark.alerting.delivery.pagers`) gets one message each, so that a resolution closes its
    alert.

    Attributes:
        name: scheme and a short fingerprint of the address, so that it stays the same when
            addresses are added or put in another order; ``digest-`` before it where it is one.
        every: the period of its digests; None = each notification at once.
        one_by_one: whether each notification is a message of its own.
        pages: the same, as pagers open pages; a digest to one is a message for all.
        receiver: see `Channel`.
        acknowledges: the same as `pages`.
        takes_reports: whether it is neither a pager nor a digest.
    """

    def __init__(
        self,
        url: str,
        every: timedelta | None = None,
        receiver: str = DEFAULT_RECEIVER,
        words: Words = Words(),  # noqa: B008 - it is frozen
    ) -> None:
        """Open an apprise address.

        Args:
            url: the address.
            every: the period of its digests; None = each notification at once.
            receiver: the receiver that it belongs to; a digest belongs to none.
            words: how its messages are written.

        Raises:
            ChannelError: apprise cannot use it.
        """
        scheme = url.split("://", 1)[0] if "://" in url else "?"
        name = f"{scheme}-{hashlib.sha256(url.encode()).hexdigest()[:6]}"
        name = name if receiver == DEFAULT_RECEIVER else f"{receiver}.{name}"
        self.name = f"digest-{name}" if every else name
        self.receiver = None if every else receiver
        self.every = every
        self._words = words
        self._secrets = _parts(url)
        apply()
        ADDRESS_FILTER.install()
        service = opened(url, keeps_alerts=not every)
        if service is None:
            raise ChannelError(f"apprise cannot use this {scheme}:// address")
        self._service = service
        self._apprise = apprise.Apprise(service)
        self.one_by_one = self.pages = self.acknowledges = is_pager(service) and not every
        self.takes_reports = not (every or is_pager(service))

    def send(self, notifications: Sequence[Notification]) -> None:
        """Send one message.

        Raises:
            ChannelError: the service was unreachable or refused it.
        """
        notifications = [without_mentions(notification) for notification in notifications]
        headline, write = self._written(notifications)
        room = self._service.body_maxlen - len(headline.encode()) - _JOINED
        with ADDRESS_FILTER.warnings() as reasons:
            if self.one_by_one:
                (notification,) = notifications
                about(self._service, notification.incident.incident_id)
                if notification.state == TransitionKind.ACKNOWLEDGED:
                    taken = acknowledge(self._service, notification)
                    if not taken:
                        raise ChannelError(self._without_secrets("; ".join(reasons)))
                    return
            taken = self._apprise.notify(
                body=_shown(write(notifications, room)),
                title=_shown(headline),
                notify_type=_type_of(notifications),
                body_format=apprise.NotifyFormat.TEXT,
            )
        if not taken:
            raise ChannelError(self._without_secrets("; ".join(reasons) or "not delivered"))

    def report(self, report: Report) -> None:
        """Send a weekly report as one message.

        Raises:
            ChannelError: the service was unreachable or refused it.
        """
        headline = report_title(report, self._words.phrase)
        room = self._service.body_maxlen - len(headline.encode()) - _JOINED
        with ADDRESS_FILTER.warnings() as reasons:
            taken = self._apprise.notify(
                body=_shown(report_body(report, self._words.phrase, room)),
                title=_shown(headline),
                notify_type=apprise.NotifyType.INFO,
                body_format=apprise.NotifyFormat.TEXT,
            )
        if not taken:
            raise ChannelError(self._without_secrets("; ".join(reasons) or "not delivered"))

    def _written(
        self, notifications: Sequence[Notification]
    ) -> tuple[str, Callable[[Sequence[Notification], int], str]]:
        """Return the title of a message, and a function that writes its text."""
        if self.every:
            return digest_title(notifications), digest_body
        return self._words.title(notifications), self._words.body

    def _without_secrets(self, text: str) -> str:
        for part in self._secrets:
            text = text.replace(part, "***")
        return " ".join(text.split())


def _shown(text: str) -> str:
    """Return lines with everything escaped that a reader's program obeys instead of showing."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _is_summary(notifications: Sequence[Notification]) -> bool:
    return all(notification.late for notification in notifications)


def _type_of(notifications: Sequence[Notification]) -> apprise.NotifyType:
    """Return apprise's type of a message: failure, success, or information about the past."""
    if _is_summary(notifications):
        return apprise.NotifyType.INFO
    severity = worst(notifications)
    return _TYPES[severity] if severity else apprise.NotifyType.SUCCESS


def _parts(url: str) -> list[str]:
    """Return every part of an address that may be a secret, the longest first."""
    rest = url.partition("://")[2] or url
    parts = {
        part
        for text in (rest, unquote(rest))
        for separators in (r"[/:@?&=,]+", r"\W+")
        for part in re.split(separators, text)
    }
    return sorted((part for part in parts if len(part) >= _LEAST_SECRET), key=len, reverse=True)
