"""Reasons of health: the facts behind each state, and their English text.

`spark.progress.health` decides on a state and a `tidemark.model.health.HealthReason`. `facts`
returns the facts that this reason states, and `text` makes ``health_reason`` from them. Pages word
the same facts in other languages.

The rows are those of `spark.progress.health`: one per snapshot, group and topic, with the columns
of ``progress.groups`` and `Reason`.
"""

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from spark.columns import Added, column
from tidemark.lake.bounds import Bound
from tidemark.lake.schema import type_text
from tidemark.lake.tables.progress import HEALTH_FACTS, HEALTH_QUEUE
from tidemark.model.health import FACTS, CacheLimit, HealthReason

NAMED_QUEUES = 5
"""Queues that a reason names; it counts the others."""

LIMITS = {
    CacheLimit.CACHED_MESSAGES: "%s of %s messages",
    CacheLimit.CACHED_MIB: "%s of %s MiB",
    CacheLimit.CACHED_SPAN: "a span of %s of %s offsets",
}
"""Texts of the limits of a client's cache."""


class Reason(Added):
    """Why a row has its state."""

    reason = column("string", "the `HealthReason`")
    facts = column(type_text(HEALTH_FACTS), "the values that it states, as ``health_facts``")


def facts(values: Mapping[str, Column]) -> Column:
    """Return ``health_facts``: each value where the ``reason`` of the row states it, else NULL.

    Args:
        values: a value for each field of the struct, by name.
    """
    return _struct(
        HEALTH_FACTS, {name: F.when(_states(name), value) for name, value in values.items()}
    )


def queue_facts(queue: Column) -> Column:
    """Return the facts about a queue of `spark.progress.queue_progress.QUEUE`."""
    is_pulled = queue["pull_offset"] > queue["lowest_pull"]
    cache = queue["cache"]
    limit = cache["limit"]
    is_named = (cache["messages"] > 0) | limit.isNotNull()
    return _struct(
        HEALTH_QUEUE,
        {
            "broker": queue["broker"],
            "queue_id": queue["queue_id"],
            "client_id": queue["client_id"],
            "lost": queue["lost"],
            "lost_before": queue["lowest_lost"],
            "committed": queue["consumer_offset"],
            # It is negative where there was none.
            "committed_before": F.when(queue["first_commit"] >= 0, queue["first_commit"]),
            "unconsumed": queue["lag_upper"],
            "pulled": F.when(is_pulled, queue["pull_offset"]),
            "pulled_before": F.when(is_pulled, queue["lowest_pull"]),
            "cached": F.when(cache["messages"] > 0, cache["messages"]),
            "cached_by": F.when(is_named, cache["client_id"]),
            "cache_limit": limit["kind"],
            "cache_reached": limit["amount"],
            "cache_most": limit["limit"],
        },
    )


def _struct(kind: pa.StructType, values: Mapping[str, Column]) -> Column:
    return F.struct(
        *(values[field.name].cast(type_text(field.type)).alias(field.name) for field in kind)
    )


def _states(fact: str) -> Column:
    return Reason.reason.isin(*(reason for reason, names in FACTS.items() if fact in names))


def text() -> Column:
    """Return ``health_reason``: the facts of a row's ``reason`` in English."""
    worded: Mapping[HealthReason, Column] = {
        HealthReason.MESSAGES_EXPIRED: _messages_expired(),
        HealthReason.QUEUES_UNKNOWN: F.format_string(
            "%s of %s queues unknown", F.col("queues_unknown"), F.col("queues")
        ),
        HealthReason.LAG_UNKNOWN: F.lit("no queue with a known lag"),
        HealthReason.FEW_OBSERVATIONS: F.format_string(
            "too few observations to judge: %s of %s known", _fact("known"), _fact("observations")
        ),
        HealthReason.NO_SUBSCRIBER: F.concat_ws(
            " ",
            F.format_string(
                "no client subscribes to the topic: readable lag %s", _unconsumed(_fact("lag"))
            ),
            _over(),
        ),
        HealthReason.NO_MEMBER_ONLINE: _no_member_online(),
        HealthReason.MESSAGES_UNFINISHED: _standing(_unfinished),
        HealthReason.POPPED_UNFINISHED: _popped_unfinished(),
        HealthReason.COMMITS_STAND: _standing(_commit_stands),
        HealthReason.LAG_RISES: _lag_rises(),
        HealthReason.IN_FLIGHT_UNKNOWN: _joined(
            F.lit("messages in flight unknown"), _acknowledgements(), _lag_change()
        ),
        HealthReason.LAG_FALLS: _lag(),
        HealthReason.NO_TRAFFIC: _joined(F.lit("no lag, nothing written or consumed"), _over()),
        HealthReason.CONSUMES: _lag(),
    }
    chosen = F.lit(None).cast("string")
    for reason, words in worded.items():
        chosen = F.when(Reason.reason == reason, words).otherwise(chosen)
    return chosen


def _fact(name: str) -> Column:
    return Reason.facts[name]


def _joined(*parts: Column) -> Column:
    """Join the known parts of a reason."""
    return F.concat_ws(", ", *parts)


def _over() -> Column:
    """State how many observations the reason is about, and how long they took."""
    seconds = _fact("span_ms") / 1000
    return F.format_string("over %s observations (%.0f s)", _fact("observations"), seconds)


def _unconsumed(number: Column) -> Column:
    """Return a number of unconsumed messages as text, with its mark where it is a lower bound."""
    is_bound = F.coalesce("lag_is_lower_bound", F.lit(False))
    return F.concat(F.when(is_bound, f"{Bound.LOWER.mark} ").otherwise(""), number.cast("string"))


def _lag_change() -> Column:
    """State the readable lag now and at the first known observation."""
    now, before = _unconsumed(_fact("lag")), _unconsumed(_fact("lag_before"))
    return F.concat_ws(" ", F.format_string("readable lag %s, was %s", now, before), _over())


def _lag() -> Column:
    """State the lag, redelivered messages and queues that flow control holds back."""
    rate = _fact("redelivered_tps")
    redelivered = F.when(rate > 0, F.format_string("up to %.2f messages a second come back", rate))
    return _joined(_lag_change(), redelivered, _flow_controlled())


def _messages_expired() -> Column:
    """State how many messages expired, in all and on each queue."""
    expired = F.format_string("expired messages %s, were %s", _fact("lost"), _fact("lost_before"))

    def of_queue(queue: Column) -> Column:
        return F.format_string("%s expired, were %s", queue["lost"], queue["lost_before"])

    queues = F.when(_fact("queues_named") > 0, _named_queues(of_queue))
    return F.concat_ws(": ", F.concat_ws(" ", expired, _over()), queues)


def _no_member_online() -> Column:
    """State the lag of a group without members, and its largest queue."""
    stopped = F.format_string(
        "no client online and no commit advances: readable lag %s, most on %s/%s (%s)",
        _unconsumed(_fact("lag")),
        F.col("worst_broker"),
        F.col("worst_queue_id"),
        _unconsumed(F.col("max_queue_lag")),
    )
    return _joined(stopped, _over())


def _commit_stands(queue: Column) -> Column:
    """State where the commit of a queue stays or fell back to, and the unconsumed messages."""
    now, before = queue["committed"], queue["committed_before"]
    committed = F.when(now < before, F.format_string("commit at %s, was at %s", now, before)).when(
        now.isNotNull(), F.format_string("commit stays at %s", now)
    )
    return F.concat(
        F.coalesce(committed, F.lit("never committed")),
        F.format_string(", %s unconsumed messages", _unconsumed(queue["unconsumed"])),
    )


def _unfinished(queue: Column) -> Column:
    """State as for a standing queue, and which messages of it were handed out."""
    pulled = F.when(
        queue["pulled"].isNotNull(),
        F.format_string(
            "pull offset advanced from %s to %s", queue["pulled_before"], queue["pulled"]
        ),
    )
    cached = F.when(
        queue["cached"].isNotNull(),
        F.format_string("%s in the cache of %s", queue["cached"], queue["cached_by"]),
    )
    at_limit = F.when(
        queue["cache_limit"].isNotNull(),
        F.format_string("which pulls no more (%s)", _limit_of(queue)),
    )
    return _joined(_commit_stands(queue), pulled, cached, at_limit)


def _limit_of(queue: Column) -> Column:
    return limit_text(queue["cache_limit"], queue["cache_reached"], queue["cache_most"])


def limit_text(limit: Column, amount: Column, most: Column) -> Column:
    """Return the limit that a client's cache is above, with the amount; NULL without one.

    Args:
        limit: a `CacheLimit`.
        amount: the amount in the cache.
        most: the largest amount with which the client pulls.
    """
    texts = (
        F.when(limit == kind, F.format_string(words, amount, most))
        for kind, words in LIMITS.items()
    )
    return F.coalesce(*texts)


def _standing(of_queue: Callable[[Column], Column]) -> Column:
    """Return the text about standing queues, with unknown facts about members and acknowledgements.

    Args:
        of_queue: the statement about each queue.
    """
    online = F.col("online")
    members = (
        F.when(online.isNull(), F.lit("standing, members unknown: "))
        .when(~online, F.lit("standing, no member online: "))
        .otherwise("")
    )
    uncounted = F.when(~_fact("acks_counted"), F.lit("acknowledgements unknown"))
    return F.concat(members, _joined(_named_queues(of_queue), uncounted))


def _popped_unfinished() -> Column:
    """State how many messages were in flight at the first and the last known observation."""
    in_flight = F.format_string(
        "%s messages in flight, were %s", _fact("in_flight"), _fact("in_flight_before")
    )
    return _joined(F.concat_ws(" ", in_flight, _over()), _acknowledgements())


def _acknowledgements() -> Column:
    counted = F.lit("no acknowledgement counted")
    return F.when(_fact("acks_counted"), counted).otherwise("acknowledgements unknown")


def _lag_rises() -> Column:
    """State the rise of the lag and the amount of production it is compared with."""
    rises = F.format_string(
        "up or level in %s of %s steps; %.0f s of production are %.0f",
        *(_fact(name) for name in ("rising_steps", "steps", "rise_seconds", "rise_messages")),
    )
    return _joined(_lag_change(), rises, _flow_controlled())


def _flow_controlled() -> Column:
    """State the queues that clients do not pull because their caches are at a limit; else NULL."""

    def at_limit(queue: Column) -> Column:
        return F.format_string("%s in the cache of %s", _limit_of(queue), queue["cached_by"])

    queues = F.concat(F.lit("flow control holds back the pulls of "), _named_queues(at_limit))
    return F.when(_fact("queues_named") > 0, queues)


def _named_queues(of_queue: Callable[[Column], Column]) -> Column:
    """Name the queues of the facts, with a text about every one, and count the others."""

    def named(queue: Column) -> Column:
        client = F.concat(F.lit(" of "), queue["client_id"])
        name = F.concat_ws("/", queue["broker"], queue["queue_id"].cast("string"))
        return F.concat(name, F.coalesce(client, F.lit("")), F.lit(": "), of_queue(queue))

    more = _fact("queues_named") - NAMED_QUEUES
    return F.concat_ws(
        "; ",
        F.transform(_fact("queues"), named),
        F.when(more > 0, F.format_string("and %s more", more)),
    )
