"""A broker's clock, measured against ours (303).

A broker reports the age of a message as its present time minus the store time. For a group that
never consumed, it uses -1 as the store time (`AdminBrokerProcessor`), so the age is its present
time.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rocketmq.admin import requests as admin
from rocketmq.admin.deep_responses import TimeSpan
from rocketmq.wire.client import RemotingClient
from rocketmq.wire.errors import RemotingError

NEVER_CONSUMES = "TIDEMARK_NEVER_CONSUMES"
"""A group that does not exist, to read the clock. Nothing is stored under the name."""

EVERYWHERE = "SELF_TEST_TOPIC"
"""A topic of one queue and no messages that every broker has (`TopicConfigManager`)."""

MILLISECOND = timedelta(milliseconds=1)


@dataclass(slots=True, frozen=True)
class BrokerClock:
    """The skew by which a broker's clock is ahead of ours.

    Attributes:
        skew_ms: milliseconds; negative where it is behind.
        error_ms: milliseconds that this may be off: half of the round trip.
    """

    skew_ms: int
    error_ms: int


async def measured_clock(client: RemotingClient, address: str) -> BrokerClock | None:
    """Return the skew of a broker's clock; None where the broker does not report it.

    No other part of a snapshot depends on it, so a failure is no problem of the snapshot.
    """
    try:
        spans, at, half = await timed_spans(client, address, NEVER_CONSUMES, EVERYWHERE)
    except RemotingError:
        return None
    now = next((span.broker_now for span in spans.values() if span.broker_now), None)
    return None if now is None else BrokerClock((now - at) // MILLISECOND, -(-half // MILLISECOND))


async def timed_spans(
    client: RemotingClient, address: str, group: str, topic: str
) -> tuple[dict[int, TimeSpan], datetime, timedelta]:
    """Send request 303 and note its time.

    Returns:
        The response by queue id, the middle of the time it took, and half of that time.
    """
    sent = datetime.now(UTC)
    spans = await admin.time_spans(client, address, group, topic)
    half = (datetime.now(UTC) - sent) / 2
    return spans, sent + half, half
