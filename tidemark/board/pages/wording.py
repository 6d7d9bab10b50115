"""Words of pages: values as people read them, unknown as a dash, and reasons of health.

The English words of a reason are those of ``health_reason``, which `spark.progress.health_reasons`
makes from the same codes and facts. A row of an earlier or later version, whose code has no words
here, has that text.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from markupsafe import Markup, escape

from tidemark.alerting.delivery.messages import Phrase, amount
from tidemark.alerting.delivery.templates import CHINESE_FILE
from tidemark.lake.bounds import Bound, bound_of, marked
from tidemark.lake.tables import TABLES
from tidemark.model.health import CacheLimit, HealthReason
from tidemark.rocketmq.names import READ_PERMISSION, WRITE_PERMISSION
from tidemark.settings.times import in_words

FILES = [CHINESE_FILE, *sorted((Path(__file__).parent.parent / "templates").glob("zh*.yaml"))]

CHINESE: dict[str, str] = {
    text: words
    for file in FILES
    for text, words in yaml.safe_load(file.read_text(encoding="utf-8")).items()
}
"""English to Chinese; other texts stay in English."""


UNKNOWN = "–"

SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
"""Units of bytes, each 1,024 times the one before."""

PIECE = 24
"""Characters of a name without a separator that stand in one line at least."""

_PIECES = re.compile(r"[^/_@.:#%-]*[/_@.:#%-]+|[^/_@.:#%-]+")

NUMBERS = (
    frozenset(
        column.name
        for table in TABLES.values()
        for column in table.columns
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    )
    | {"groups", "brokers", "messages"}
) - {"perm"}
"""Columns of numbers, whose cells are aligned to the right; a permission is shown as words."""

WORDS = frozenset(
    column.name
    for table in TABLES.values()
    for column in table.columns
    if pa.types.is_boolean(column.type)
) | {
    "kind",
    "severity",
    "state",
    "status",
    "health",
    "condition",
    "delay_source",
    "moves",
    "likely_cause",
    "rewound_cause",
    "perm",
    "unreadable_reason",
}
"""Columns whose values are words of a language, and not names."""


NAMES = frozenset(
    ("client_id", "producer_group", "consumer_group", "topic", "broker", "subject",
     "actual_client_id", "expected_client_id", "expectation", "table",
     "differing_topic", "worst_broker", "address", "client_address")
)  # fmt: skip
"""Columns whose values are names, which a line may break at their separators."""

WHY_UNKNOWN = {
    "drain_seconds": "it does not drain at the present rates",
    "loss_in_seconds": "nothing waits, or no store time is known",
    "delay_ms": "the store time of the first unconsumed message is unknown",
    "consume_tps": "two observations are needed",
    "produce_tps": "two observations are needed",
    "clients": "a broker did not report who is online",
    "replica_behind_ms": "no earlier snapshot, or no response of its master",
    "replica_behind_bytes": "its master did not respond",
    "offsets_missing": "only deep snapshots request it",
    "offsets_late": "only deep snapshots request it",
    "offsets_behind": "only deep snapshots request it",
    "reported_at": "only deep snapshots request it",
    "thread_count": "only deep snapshots request it",
    "allocation_strategy": "only deep snapshots request it",
}
"""Why a column may be unknown where the row itself does not tell."""


def why_unknown(name: str, row: Mapping[str, Any]) -> str:
    """Return why a value of a row is unknown, in English; it is the title of its dash."""
    if row.get("complete") is False or row.get("queues_unknown"):
        return "some of its queues were not observed"
    if row.get("consumer_offset", 0) is None and name in ("lag", "delay_ms", "consumer_offset"):
        return "no offset was committed or observed"
    return WHY_UNKNOWN.get(name, "unknown")


def number(value: Any, digits: int = 0) -> str:
    """Return ``12,345`` or ``0.4``; a dash for unknown."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if isinstance(value, float) and value != int(value) and abs(value) < 1000:
        return f"{value:,.{max(1, digits)}f}"
    return f"{round(value):,}"


def duration(seconds: float | None) -> str:
    """Return a duration as `tidemark.settings.times` words it; a dash for unknown."""
    return UNKNOWN if seconds is None or not math.isfinite(seconds) else in_words(seconds)


def milliseconds(value: float | None) -> str:
    """Return a duration that is given in milliseconds."""
    return duration(None if value is None else value / 1000)


def share(value: float | None) -> str:
    """Return ``41%``; a dash for unknown."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.0%}"


def size(value: float | None) -> str:
    """Return a number of bytes as ``512 B`` or ``1.5 MiB``; a dash for unknown."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    unit = next((unit for unit in SIZES if abs(value) < 1024 ** (SIZES.index(unit) + 1)), SIZES[-1])
    scaled = value / 1024 ** SIZES.index(unit)
    return f"{scaled:.1f}".removesuffix(".0") + f" {unit}"


def instant(value: datetime | None) -> str:
    """Return ``2026-11-19 08:00:00``, in UTC."""
    return UNKNOWN if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(value: datetime | None) -> str:
    """Return an instant as an address holds it."""
    return "" if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def measured(name: str, row: Mapping[str, Any], unit: str, phrase: Phrase) -> str:
    """Return a number of an incident in the unit of its rule, with the mark of a bound."""
    value = row[name]
    return UNKNOWN if value is None else amount(value, unit, phrase, bound_of(name, row))


def breaks(text: Any) -> Markup:
    """Return a name that a line may break at its separators, and inside of a long piece only."""
    pieces = (piece[place : place + PIECE] for piece in _PIECES.findall(str(text))
              for place in range(0, len(piece), PIECE))  # fmt: skip
    return Markup("<wbr>").join(pieces)


def backticks(text: str) -> Markup:
    """Return a text whose parts between backticks are code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def permission(value: int) -> str:
    """Return the permission of a topic: ``read and write``, ``read``, ``write`` or ``closed``."""
    bits = ((READ_PERMISSION, "read"), (WRITE_PERMISSION, "write"))
    return " and ".join(word for bit, word in bits if value & bit) or "closed"


def cell(name: str, row: Mapping[str, Any]) -> str:
    """Return a value of a row, by the unit in its column's name, with the mark of a bound.

    Pages show the numbers of rows by this function only: it takes the row, so that no number is
    shown without its mark. Unknown, and a value that is no number, is a dash.
    """
    text = _plain(name, row[name])
    return text if text == UNKNOWN else marked(text, bound_of(name, row))


def _plain(name: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, int | float):
        if name == "perm":
            return permission(int(value))
        if name.endswith("_ms"):
            return milliseconds(value)
        if name.endswith("_seconds"):
            return duration(value)
        if name.endswith("_ratio"):
            return share(value)
        if name.endswith("_bytes"):
            return size(value)
        return str(value) if name.endswith("_id") else number(value, 2 if "tps" in name else 0)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return str(value)


LIMITS = {
    CacheLimit.CACHED_MESSAGES: "{now} of {most} messages",
    CacheLimit.CACHED_MIB: "{now} of {most} MiB",
    CacheLimit.CACHED_SPAN: "a span of {now} of {most} offsets",
}
"""Texts of the limits of a client's cache."""


def reason(row: Mapping[str, Any], phrase: Phrase) -> str:
    """Return why a group on a topic has its state of health; empty where it is unknown.

    Args:
        row: a row of ``progress.groups``, or the columns of one that an incident kept.
        phrase: returns a text in the language of the person.
    """
    words = _WORDS.get(row.get("health_reason_code") or "")
    if words is None or not row.get("health_facts"):
        return row.get("health_reason") or ""
    return words(_Reason(row, phrase))


class _Reason:
    """The words of one row's reason."""

    def __init__(self, row: Mapping[str, Any], phrase: Phrase) -> None:
        self.row, self.facts, self.phrase = row, row["health_facts"], phrase

    def messages_expired(self) -> str:
        now, was = self.facts["lost"], self.facts["lost_before"]
        expired = self.phrase("expired messages {now}, were {was}", now=now, was=was) + self._over()
        if not self.facts["queues_named"]:
            return expired
        return expired + self.phrase(": ") + self._queues(self._expired_of_queue)

    def queues_unknown(self) -> str:
        part, whole = self.row["queues_unknown"], self.row["queues"]
        return self.phrase("{part} of {whole} queues unknown", part=part, whole=whole)

    def lag_unknown(self) -> str:
        return self.phrase("no queue with a known lag")

    def few_observations(self) -> str:
        part, whole = self.facts["known"], self.facts["observations"]
        return self.phrase(
            "too few observations to judge: {part} of {whole} known", part=part, whole=whole
        )

    def no_subscriber(self) -> str:
        lag = self._unconsumed(self.facts["lag"])
        text = "no client subscribes to the topic: readable lag {lag}"
        return self.phrase(text, lag=lag) + self._over()

    def no_member_online(self) -> str:
        queue = f"{self.row['worst_broker']}/{self.row['worst_queue_id']}"
        stopped = self.phrase(
            "no client online and no commit advances: readable lag {lag}, most on {queue} ({most})",
            lag=self._unconsumed(self.facts["lag"]),
            queue=queue,
            most=self._unconsumed(self.row["max_queue_lag"]),
        )
        return stopped + self._over(", over {count} observations ({seconds} s)")

    def messages_unfinished(self) -> str:
        return self._standing(self._unfinished)

    def popped_unfinished(self) -> str:
        now, was = self.facts["in_flight"], self.facts["in_flight_before"]
        in_flight = self.phrase("{now} messages in flight, were {was}", now=now, was=was)
        return self._joined(in_flight + self._over(), self._acknowledgements())

    def commits_stand(self) -> str:
        return self._standing(self._commit_stands)

    def lag_rises(self) -> str:
        rises = self.phrase(
            "up or level in {part} of {whole} steps; {seconds} s of production are {messages}",
            part=self.facts["rising_steps"],
            whole=self.facts["steps"],
            seconds=_rounded(self.facts["rise_seconds"]),
            messages=_rounded(self.facts["rise_messages"]),
        )
        return self._joined(self._lag_change(), rises, self._flow_controlled())

    def in_flight_unknown(self) -> str:
        unknown = self.phrase("messages in flight unknown")
        return self._joined(unknown, self._acknowledgements(), self._lag_change())

    def no_traffic(self) -> str:
        idle = self.phrase("no lag, nothing written or consumed")
        return idle + self._over(", over {count} observations ({seconds} s)")

    def lag(self) -> str:
        rate = self.facts["redelivered_tps"] or 0
        text = "up to {rate} messages a second come back"
        redelivered = self.phrase(text, rate=f"{rate:.2f}") if rate > 0 else ""
        return self._joined(self._lag_change(), redelivered, self._flow_controlled())

    def _joined(self, *parts: str) -> str:
        return self.phrase(", ").join(part for part in parts if part)

    def _over(self, text: str = " over {count} observations ({seconds} s)") -> str:
        seconds = _rounded(self.facts["span_ms"] / 1000)
        return self.phrase(text, count=self.facts["observations"], seconds=seconds)

    def _unconsumed(self, number: int) -> str:
        mark = f"{Bound.LOWER.mark} " if self.row.get("lag_is_lower_bound") else ""
        return f"{mark}{number}"

    def _lag_change(self) -> str:
        now, was = (self._unconsumed(self.facts[name]) for name in ("lag", "lag_before"))
        return self.phrase("readable lag {now}, was {was}", now=now, was=was) + self._over()

    def _acknowledgements(self) -> str:
        is_counted = self.facts["acks_counted"]
        return self.phrase(
            "no acknowledgement counted" if is_counted else "acknowledgements unknown"
        )

    def _standing(self, of_queue: Callable[[Mapping[str, Any]], str]) -> str:
        online = self.row["online"]
        members = ""
        if not online:
            members = self.phrase(
                "standing, members unknown: " if online is None else "standing, no member online: "
            )
        is_uncounted = self.facts["acks_counted"] is False
        uncounted = self.phrase("acknowledgements unknown") if is_uncounted else ""
        return members + self._joined(self._queues(of_queue), uncounted)

    def _commit_stands(self, queue: Mapping[str, Any]) -> str:
        now, was = queue["committed"], queue["committed_before"]
        if now is None:
            committed = self.phrase("never committed")
        elif was is not None and now < was:
            committed = self.phrase("commit at {now}, was at {was}", now=now, was=was)
        else:
            committed = self.phrase("commit stays at {now}", now=now)
        count = self._unconsumed(queue["unconsumed"])
        return self._joined(committed, self.phrase("{count} unconsumed messages", count=count))

    def _unfinished(self, queue: Mapping[str, Any]) -> str:
        parts = [self._commit_stands(queue)]
        if queue["pulled"] is not None:
            was, now = queue["pulled_before"], queue["pulled"]
            parts.append(self.phrase("pull offset advanced from {was} to {now}", was=was, now=now))
        if queue["cached"] is not None:
            parts.append(self._in_cache(queue["cached"], queue))
        if queue["cache_limit"] is not None:
            limit = self._limit(queue)
            parts.append(self.phrase("which pulls no more ({limit})", limit=limit))
        return self._joined(*parts)

    def _in_cache(self, count: int | str, queue: Mapping[str, Any]) -> str:
        text = "{count} in the cache of {client}"
        return self.phrase(text, count=count, client=queue["cached_by"])

    def _limit(self, queue: Mapping[str, Any]) -> str:
        text = LIMITS[queue["cache_limit"]]
        return self.phrase(text, now=queue["cache_reached"], most=queue["cache_most"])

    def _flow_controlled(self) -> str:
        if not self.facts["queues_named"]:
            return ""
        queues = self._queues(lambda queue: self._in_cache(self._limit(queue), queue))
        return self.phrase("flow control holds back the pulls of {queues}", queues=queues)

    def _expired_of_queue(self, queue: Mapping[str, Any]) -> str:
        now, was = queue["lost"], queue["lost_before"]
        return self.phrase("{now} expired, were {was}", now=now, was=was)

    def _queues(self, of_queue: Callable[[Mapping[str, Any]], str]) -> str:
        """Return the named queues, with a text about every one, and how many others there are."""
        named = []
        for queue in self.facts["queues"]:
            name, client = f"{queue['broker']}/{queue['queue_id']}", queue["client_id"]
            text = "{queue}: {statement}" if client is None else "{queue} of {client}: {statement}"
            named.append(self.phrase(text, queue=name, client=client, statement=of_queue(queue)))
        more = self.facts["queues_named"] - len(named)
        if more > 0:
            named.append(self.phrase("and {count} more", count=more))
        return self.phrase("; ").join(named)


_WORDS: Mapping[str, Callable[[_Reason], str]] = {
    HealthReason.MESSAGES_EXPIRED: _Reason.messages_expired,
    HealthReason.QUEUES_UNKNOWN: _Reason.queues_unknown,
    HealthReason.LAG_UNKNOWN: _Reason.lag_unknown,
    HealthReason.FEW_OBSERVATIONS: _Reason.few_observations,
    HealthReason.NO_SUBSCRIBER: _Reason.no_subscriber,
    HealthReason.NO_MEMBER_ONLINE: _Reason.no_member_online,
    HealthReason.MESSAGES_UNFINISHED: _Reason.messages_unfinished,
    HealthReason.POPPED_UNFINISHED: _Reason.popped_unfinished,
    HealthReason.COMMITS_STAND: _Reason.commits_stand,
    HealthReason.LAG_RISES: _Reason.lag_rises,
    HealthReason.IN_FLIGHT_UNKNOWN: _Reason.in_flight_unknown,
    HealthReason.LAG_FALLS: _Reason.lag,
    HealthReason.NO_TRAFFIC: _Reason.no_traffic,
    HealthReason.CONSUMES: _Reason.lag,
}


def _rounded(number: float) -> int:
    """Return a number without fraction, halves up, as Spark's texts have it."""
    return int(number + 0.5)
