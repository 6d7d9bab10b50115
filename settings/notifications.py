"""Settings of the channels of notifications besides the log."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class NotificationSettings:
    """The addresses of channels, which hold tokens and are never shown.

    Attributes:
        urls: apprise addresses that receive notifications, separated by white space.
        digest_urls: apprise addresses that receive digests.
        digest_every: the duration between two digests, as it was written. It is checked when the
            channels are opened, because a mistake in it must not delay other notifications.
        heartbeat_url: address that is called after every tick and every delivery.
    """

    urls: str = field(default="", repr=False)
    digest_urls: str = field(default="", repr=False)
    digest_every: str = "1d"
    heartbeat_url: str = field(default="", repr=False)
