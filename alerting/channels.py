"""Channels: the ways alerts go out to people. The log, and whatever apprise can reach.

A channel's address holds secrets (tokens, passwords), so it comes from the environment or other
configuration only, and neither it nor a part of it is ever logged, raised or shown.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Protocol
from urllib.parse import unquote

import apprise

from alerting.messages import Alert, body, title

URLS = "TIDEMARK_NOTIFY_URLS"
"""Environment variable: apprise addresses, separated by white space, ``json://HOST/PATH`` for a
plain webhook."""

_LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}
_TYPES = {
    "critical": apprise.NotifyType.FAILURE,
    "warning": apprise.NotifyType.WARNING,
    "info": apprise.NotifyType.INFO,
}
_LEAST_SECRET = 4
"""Parts of an address shorter than this are words, not secrets."""


class ChannelError(RuntimeError):
    """A channel cannot be used or did not take a message; one line without secrets."""


class Channel(Protocol):
    """One way out.

    Attributes:
        name: what it is called in logs and cursors; holds no secret.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    def send(self, alerts: Sequence[Alert]) -> None:
        """Tells the alerts, all or none.

        Raises:
            ChannelError: they were not taken.
        """
        ...


class LogChannel:
    """One line of JSON per alert, at the level of its severity.

    Attributes:
        name: ``log``.
    """

    name = "log"

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("tidemark.alerts")

    def send(self, alerts: Sequence[Alert]) -> None:
        """Writes the lines; a log does not fail."""
        for alert in alerts:
            line = {
                "event": "alert",
                "observed_at": alert.observed_at.isoformat(),
                "rule": alert.rule,
                "severity": alert.severity,
                "subject": alert.subject,
                "value": alert.value,
                "threshold": alert.threshold,
                "since": alert.since.isoformat(),
                "snapshot_ids": list(alert.snapshot_ids),
                "description": alert.description,
                "runbook": alert.runbook,
            }
            self._logger.log(_LEVELS.get(alert.severity, logging.WARNING), json.dumps(line))


class AppriseChannel:
    """A service that apprise knows: a webhook, Slack, e-mail, DingTalk, ...

    All alerts of a delivery are one message, which the service takes or does not.

    Attributes:
        name: scheme and a short fingerprint of the address, so that it stays the same when
            addresses are added or put in another order.
    """

    def __init__(self, url: str) -> None:
        """Takes an apprise address.

        Raises:
            ChannelError: apprise cannot use it.
        """
        scheme = url.split("://", 1)[0] if "://" in url else "?"
        self.name = f"{scheme}-{hashlib.sha256(url.encode()).hexdigest()[:6]}"
        self._secrets = _parts(url)
        self._service = apprise.Apprise()
        if not self._service.add(url):
            raise ChannelError(f"apprise cannot use this {scheme}:// address")

    def send(self, alerts: Sequence[Alert]) -> None:
        """Sends one message.

        Raises:
            ChannelError: the service was not reached or refused it.
        """
        worst = min((alert.severity for alert in alerts), key=list(_TYPES).index)
        with _HUSH.warnings() as reasons:
            taken = self._service.notify(
                body=body(alerts),
                title=title(alerts),
                notify_type=_TYPES[worst],
                body_format=apprise.NotifyFormat.TEXT,
            )
        if not taken:
            raise ChannelError(self._without_secrets("; ".join(reasons) or "not delivered"))

    def _without_secrets(self, text: str) -> str:
        for part in self._secrets:
            text = text.replace(part, "***")
        return " ".join(text.split())


def _parts(url: str) -> list[str]:
    """Every part of an address that may be a secret, the longest first."""
    rest = url.partition("://")[2] or url
    parts = {
        part
        for text in (rest, unquote(rest))
        for separators in (r"[/:@?&=,]+", r"\W+")
        for part in re.split(separators, text)
    }
    return sorted((part for part in parts if len(part) >= _LEAST_SECRET), key=len, reverse=True)


def open_channels(environment: Mapping[str, str] = os.environ) -> list[Channel]:
    """The log, and a channel for each address in ``TIDEMARK_NOTIFY_URLS``.

    Raises:
        ChannelError: an address cannot be used; its position is told, not its text.
    """
    return [LogChannel(), *_apprise_channels(environment.get(URLS, "").split())]


def _apprise_channels(urls: Iterable[str]) -> Iterator[AppriseChannel]:
    for position, url in enumerate(dict.fromkeys(urls), start=1):
        try:
            yield AppriseChannel(url)
        except ChannelError as error:
            raise ChannelError(f"{URLS}, address {position}: {error}") from None


class _Hush(logging.Filter):
    """Keeps log lines that hold addresses from every handler, and collects apprise's warnings.

    apprise tells the reason of a failure nowhere but in its log, where it also writes the addresses
    it uses or cannot use; urllib3 writes their paths. apprise sends in threads of its own, so what
    is logged anywhere meanwhile counts as ours, and one message is sent at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sending = Lock()
        self._lines: list[str] | None = None

    @contextmanager
    def warnings(self) -> Iterator[list[str]]:
        """What apprise warns of meanwhile."""
        with self._sending:
            self._lines = lines = []
            try:
                yield lines
            finally:
                self._lines = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets only lines pass that are not about our sending."""
        ours = record.name == "apprise"
        lines = self._lines
        if ours and lines is not None and record.levelno >= logging.WARNING:
            lines.append(record.getMessage())
        return not ours and lines is None


_HUSH = _Hush()
for _name in ("apprise", "urllib3.connectionpool"):
    logging.getLogger(_name).addFilter(_HUSH)
