"""Which alerts are news, and telling them.

An alert is news when its rule was not true for its subject at the observation before, the last one
at which that was known. So a standing alert is told once, and a snapshot that could not see (a
silent broker, a collector that stopped for a while) neither ends it nor tells it again.
"""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from alerting.channels import Channel, ChannelError
from alerting.messages import Alert
from lake.catalog import Lake
from lake.tables.alerting import ALERTS
from lake.tables.progress import SNAPSHOTS
from lake.window import Window

LOOK_BACK = timedelta(hours=1)
"""How old an evaluation may be and still be told; no evidence reaches further back either
(`spark.alerts.HISTORY`)."""

LOG = logging.getLogger("tidemark.notifications")


def alerts_of(rows: pa.Table) -> list[Alert]:
    """Rows of ``alerting.alerts`` as alerts, by time, rule and subject."""
    alerts = [Alert(**row) for row in rows.select(ALERTS.column_names).to_pylist()]
    return sorted(alerts, key=lambda alert: (alert.observed_at, alert.rule, alert.subject))


def new_alerts(alerts: Iterable[Alert], previous: Iterable[Alert]) -> list[Alert]:
    """The alerts that are news.

    Args:
        alerts: alerts of any number of evaluations.
        previous: alerts of the evaluations before them (`LOOK_BACK` is enough); those of
            `alerts` may be among them.
    """
    alerts = list(alerts)
    stood = {(each.rule, each.subject, each.observed_at) for each in (*alerts, *previous)}
    return [each for each in alerts if (each.rule, each.subject, each.previous_at) not in stood]


def pending(lake: Lake, cursor: str | None, now: datetime | None = None) -> tuple[list[Alert], str]:
    """The alerts that nobody has been told yet, and the cursor to give next time.

    The cursor holds the newest evaluation told of every cluster. What counts is newer than that,
    so a backfill of the past tells nothing. A cluster the cursor does not know, or last told more
    than `LOOK_BACK` ago, is met as it is now: all that stands at its newest evaluation is told,
    nothing of what came and went. Evaluations older than `LOOK_BACK` are history.

    Only snapshots in ``progress.snapshots`` count, which is written after their alerts. Reads the
    files of the last `LOOK_BACK` and, when nothing new was computed, of that table alone.

    Args:
        lake: the tables.
        cursor: what this function gave last time, None or empty at first; one that cannot be read
            is as good as none.
        now: the present, for tests.
    """
    now = now or datetime.now(UTC)
    told = _told(cursor, now - LOOK_BACK)
    newest = _newest(lake, Window(now - LOOK_BACK, datetime.max.replace(tzinfo=UTC)))
    fresh = {
        cluster: at for cluster, at in newest.items() if cluster not in told or at > told[cluster]
    }
    if not fresh:
        return [], _cursor(told)

    start = min(told.get(cluster, at) for cluster, at in fresh.items())
    window = Window(start - LOOK_BACK, max(fresh.values()) + timedelta(microseconds=1))
    alerts = alerts_of(lake.read(ALERTS, window))
    news = {id(each) for each in new_alerts(alerts, ())}
    pending = [
        each
        for each in alerts
        if each.cluster in fresh
        and (
            told[each.cluster] < each.observed_at <= fresh[each.cluster] and id(each) in news
            if each.cluster in told
            else each.observed_at == fresh[each.cluster]
        )
    ]
    return pending, _cursor(told | fresh)


@dataclass(frozen=True)
class Delivery:
    """How telling went.

    Attributes:
        delivered: names of the channels that took the message.
        failed: names of the others, each with the reason in one line.
    """

    delivered: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)


def deliver(alerts: Sequence[Alert], channels: Iterable[Channel]) -> Delivery:
    """Tells alerts on every channel; one that fails is logged and reported, never raised."""
    delivered: list[str] = []
    failed: dict[str, str] = {}
    for channel in channels if alerts else ():
        try:
            channel.send(alerts)
        except ChannelError as error:
            failed[channel.name] = str(error)
            LOG.warning("channel %s: %d alerts not told: %s", channel.name, len(alerts), error)
        else:
            delivered.append(channel.name)
    return Delivery(tuple(delivered), failed)


@dataclass(frozen=True)
class Told:
    """What `tell` did.

    Attributes:
        cursor: to be given next time.
        alerts: what was told to at least one channel.
        delivery: how it went.
    """

    cursor: str
    alerts: list[Alert]
    delivery: Delivery


def tell(
    lake: Lake, cursor: str | None, channels: Sequence[Channel], now: datetime | None = None
) -> Told:
    """Tells every channel what is pending for it.

    Each channel has a place of its own in the cursor, so one that failed is told again next time
    and the others are not.
    """
    places = _object(cursor)
    next_places: dict[str, str] = {}
    told: dict[Alert, None] = {}
    delivered: list[str] = []
    failed: dict[str, str] = {}
    looked: dict[str, tuple[list[Alert], str]] = {}
    for channel in channels:
        place = places.get(channel.name, "")
        if place not in looked:
            looked[place] = pending(lake, place, now)
        alerts, next_place = looked[place]
        delivery = deliver(alerts, [channel])
        failed |= delivery.failed
        delivered += delivery.delivered
        told |= dict.fromkeys(alerts if delivery.delivered else ())
        next_places[channel.name] = place if delivery.failed else next_place
    return Told(json.dumps(next_places), list(told), Delivery(tuple(delivered), failed))


def _newest(lake: Lake, window: Window) -> dict[str, datetime]:
    """The newest finished evaluation of every cluster that has one in the window."""
    rows = lake.read(SNAPSHOTS, window, columns=("cluster", "observed_at"))
    grouped = rows.group_by("cluster").aggregate([("observed_at", "max")]).to_pylist()
    return {row["cluster"]: row["observed_at_max"].astimezone(UTC) for row in grouped}


def _told(cursor: str | None, oldest: datetime) -> dict[str, datetime]:
    """The newest evaluation told of each cluster, those too old left out."""
    try:
        told = {name: datetime.fromisoformat(at) for name, at in _object(cursor).items()}
        return {name: at for name, at in told.items() if at >= oldest}
    except (TypeError, ValueError):
        LOG.warning("the cursor holds no instants: what stands now is told")
        return {}


def _cursor(told: Mapping[str, datetime]) -> str:
    return json.dumps({cluster: at.isoformat() for cluster, at in sorted(told.items())})


def _object(cursor: str | None) -> dict[str, str]:
    try:
        value = json.loads(cursor or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        LOG.warning("the cursor cannot be read: what stands now is told")
        return {}
    return value
