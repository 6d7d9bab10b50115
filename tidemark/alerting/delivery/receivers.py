"""Opens channels: the log, the addresses of the environment, and the receivers of rule files."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

from tidemark.alerting.delivery.channels import AppriseChannel, Channel, ChannelError, LogChannel
from tidemark.alerting.delivery.http_channels import AlertmanagerChannel, WebhookChannel
from tidemark.alerting.delivery.templates import Words
from tidemark.alerting.rules.routing import Receiver, WebhookTarget
from tidemark.settings.basics import expanded
from tidemark.settings.sections import NotificationSettings
from tidemark.settings.times import seconds

URLS, DIGEST_URLS, DIGEST_EVERY = (
    "TIDEMARK_NOTIFY_URLS",
    "TIDEMARK_DIGEST_URLS",
    "TIDEMARK_DIGEST_EVERY",
)
"""The variables of `NotificationSettings`, as mistakes name them."""

_BETWEEN = re.compile(r"\s(?=[\w.+-]+://)")
"""Separator of two addresses in one text. apprise takes the second for a path of the first."""

DAY = timedelta(days=1)
SHORTEST = timedelta(minutes=1)


def open_channels(
    settings: NotificationSettings,
    receivers: Sequence[Receiver] = (),
    environ: Mapping[str, str] | None = None,
) -> tuple[list[Channel], list[str]]:
    """Open the log, and a channel for each address of the environment and of the receivers.

    Args:
        settings: addresses of notifications and digests.
        receivers: receivers of the rule files.
        environ: the environment, whose variables addresses may name; None = of this process.

    Returns:
        The channels, and a line for each wrong setting, which stops no other channel. A line names
        an address by its position and not its text. Digests with a wrong ``TIDEMARK_DIGEST_EVERY``
        go out once a day.
    """
    channels: list[Channel] = [LogChannel()]
    mistakes: list[str] = []
    every = DAY
    try:
        every = _every(settings.digest_every)
    except ValueError as error:
        mistakes.append(f"{DIGEST_EVERY}: {error}; until then digests go out once a day")
    addresses = ((URLS, settings.urls, None), (DIGEST_URLS, settings.digest_urls, every))
    for variable, urls, pause in addresses:
        for position, url in enumerate(dict.fromkeys(urls.split()), start=1):
            try:
                channels.append(AppriseChannel(url, pause))
            except ChannelError as error:
                mistakes.append(f"{variable}, address {position}: {error}")
    for receiver in receivers:
        receiver_channels, wrong = _of_receiver(receiver, environ)
        channels += receiver_channels
        mistakes += wrong
    for channel in channels:
        channel.board_url = settings.board_url
    return channels, mistakes


def _of_receiver(
    receiver: Receiver, environ: Mapping[str, str] | None
) -> tuple[list[Channel], list[str]]:
    """Open the channels of a receiver; a line names an address by its position and not its text."""
    name = receiver.name
    words = Words(receiver.language, receiver.title, receiver.body)

    def alertmanager(url: str) -> Channel:
        return AlertmanagerChannel(expanded(url, environ), name)

    def webhook(target: WebhookTarget) -> Channel:
        secret = expanded(target.secret, environ) if target.secret else None
        return WebhookChannel(expanded(target.url, environ), secret, name)

    openers: list[tuple[str, Callable[[], Channel]]] = []
    mistakes: list[str] = []
    for at, text in enumerate(receiver.urls):
        try:
            urls = [part.strip() for part in _BETWEEN.split(expanded(text, environ).strip())]
        except ValueError as error:
            mistakes.append(f"receiver {name}, urls[{at}]: {error}")
        else:
            service = partial(AppriseChannel, receiver=name, words=words)
            openers += [(f"urls[{at}]", partial(service, url)) for url in urls]
    for at, url in enumerate(receiver.alertmanager):
        openers.append((f"alertmanager[{at}]", partial(alertmanager, url)))
    for at, target in enumerate(receiver.webhook):
        openers.append((f"webhook[{at}]", partial(webhook, target)))
    channels: dict[str, Channel] = {}
    for place, opener in openers:
        try:
            channel = opener()
        except (ChannelError, ValueError) as error:
            mistakes.append(f"receiver {name}, {place}: {error}")
        else:
            channels.setdefault(channel.name, channel)
    return list(channels.values()), mistakes


def _every(text: str) -> timedelta:
    every = timedelta(seconds=seconds(text))
    if every < SHORTEST:
        raise ValueError(f"a duration of at least 1m is wanted, not {text!r}")
    return every
