"""Channels: the ways notices go out to people. The log, and whatever apprise can reach.

A channel's address holds secrets (tokens, passwords), so it comes from the environment or other
configuration only, and neither it nor a part of it is ever logged, raised or shown.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Lock
from typing import Protocol
from urllib.parse import unquote

import apprise

from alerting.digests import digest_body, digest_title
from alerting.fields import seconds
from alerting.messages import Notice, as_json, body, title, worst
from alerting.pagers import about, is_pager, opened
from alerting.robots import hear_refusals

URLS = "TIDEMARK_NOTIFY_URLS"
"""Environment variable: apprise addresses, separated by white space, ``json://HOST/PATH`` for a
plain webhook."""

DIGEST_URLS = "TIDEMARK_DIGEST_URLS"
"""Environment variable: addresses as well, each of which gets digests."""

DIGEST_EVERY = "TIDEMARK_DIGEST_EVERY"
"""Environment variable: how often, a duration."""

DAY = timedelta(days=1)
SHORTEST = timedelta(minutes=1)

_LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}
_TYPES = {
    "critical": apprise.NotifyType.FAILURE,
    "warning": apprise.NotifyType.WARNING,
    "info": apprise.NotifyType.INFO,
}
_LEAST_SECRET = 4
"""Parts of an address shorter than this are words, not secrets."""
_JOINED = 2
"""Bytes between title and text, where a service has but one of them."""


class ChannelError(RuntimeError):
    """A channel cannot be used or did not take a message; one line without secrets."""


class Channel(Protocol):
    """One way out.

    Attributes:
        name: what it is called in logs and in ``alerting.notifications``; holds no secret.
        every: how often it gets a digest of all that stands or is over; None = each at once.
        one_by_one: whether each notice is a message, for what it raises is closed one by one.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def every(self) -> timedelta | None: ...  # noqa: D102
    @property
    def one_by_one(self) -> bool: ...  # noqa: D102

    def send(self, notices: Sequence[Notice]) -> None:
        """Tells the notices, all or none.

        Raises:
            ChannelError: they were not taken.
        """
        ...


class LogChannel:
    """One line of JSON per notice, at the level of its severity; what is over is information.

    Attributes:
        name: ``log``.
        every: None.
        one_by_one: False, as a line each is no message each.
    """

    name = "log"
    every: timedelta | None = None
    one_by_one = False

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("tidemark.alerts")

    def send(self, notices: Sequence[Notice]) -> None:
        """Writes the lines; a log does not fail."""
        for notice in notices:
            severity = notice.incident.severity if notice.state == "FIRING" else "info"
            level = _LEVELS.get(severity, logging.WARNING)
            self._logger.log(level, json.dumps(as_json(notice)))


class AppriseChannel:
    """A service that apprise knows: a webhook, Slack, e-mail, DingTalk, ...

    All notices of a delivery are one message, which the service takes or does not. A service that
    keeps alerts by itself (`alerting.pagers`) gets one each, so that an end closes what it began.

    Attributes:
        name: scheme and a short fingerprint of the address, so that it stays the same when
            addresses are added or put in another order; ``digest-`` before it where it is one.
        every: how often it gets a digest; None = each notice at once.
        one_by_one: whether each notice is a message.
    """

    def __init__(self, url: str, every: timedelta | None = None) -> None:
        """Takes an apprise address.

        Raises:
            ChannelError: apprise cannot use it.
        """
        scheme = url.split("://", 1)[0] if "://" in url else "?"
        name = f"{scheme}-{hashlib.sha256(url.encode()).hexdigest()[:6]}"
        self.name = f"digest-{name}" if every else name
        self.every = every
        self._secrets = _parts(url)
        service = opened(url, keeps_alerts=not every)
        if service is None:
            raise ChannelError(f"apprise cannot use this {scheme}:// address")
        self._service = service
        self._apprise = apprise.Apprise(service)
        self.one_by_one = is_pager(service) and not every

    def send(self, notices: Sequence[Notice]) -> None:
        """Sends one message.

        Raises:
            ChannelError: the service was not reached or refused it.
        """
        severity = worst(notices)
        headline = digest_title(notices) if self.every else title(notices)
        room = self._service.body_maxlen - len(headline.encode()) - _JOINED
        with _HUSH.warnings() as reasons:
            if self.one_by_one:
                (notice,) = notices
                about(self._service, notice.incident.incident_id)
            taken = self._apprise.notify(
                body=digest_body(notices, room) if self.every else body(notices, room),
                title=headline,
                notify_type=_TYPES[severity] if severity else apprise.NotifyType.SUCCESS,
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


def open_channels(
    environment: Mapping[str, str] = os.environ,
) -> tuple[list[Channel], list[str]]:
    """The log, and a channel for each address in ``TIDEMARK_NOTIFY_URLS`` and ``.._DIGEST_URLS``.

    Returns:
        The channels, and a line for each setting that cannot be used: it silences no other. Of an
        address its position is told, not its text; digests with a wrong ``TIDEMARK_DIGEST_EVERY``
        go out once a day.
    """
    channels: list[Channel] = [LogChannel()]
    mistakes: list[str] = []
    every = DAY
    try:
        every = _every(environment.get(DIGEST_EVERY) or "1d")
    except ValueError as error:
        mistakes.append(f"{DIGEST_EVERY}: {error}; until then digests go out once a day")
    for variable, pause in ((URLS, None), (DIGEST_URLS, every)):
        urls = dict.fromkeys(environment.get(variable, "").split())
        for position, url in enumerate(urls, start=1):
            try:
                channels.append(AppriseChannel(url, pause))
            except ChannelError as error:
                mistakes.append(f"{variable}, address {position}: {error}")
    return channels, mistakes


def _every(text: str) -> timedelta:
    every = timedelta(seconds=seconds(text))
    if every < SHORTEST:
        raise ValueError(f"a duration of at least 1m is wanted, not {text!r}")
    return every


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


hear_refusals()

_HUSH = _Hush()
for _name in ("apprise", "urllib3.connectionpool"):
    logging.getLogger(_name).addFilter(_HUSH)
