"""Reasons of health in the language of a person, from their codes and facts.

The English words are those of ``health_reason``, which `spark.progress.health_reasons` makes from
the same facts. A row of an earlier or later version, whose code has no words here, has that text.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tidemark.alerting.delivery.messages import Phrase
from tidemark.lake.bounds import Bound
from tidemark.model.health import CacheLimit, HealthReason

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
