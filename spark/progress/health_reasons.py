"""Texts of ``health_reason`` in ``progress.groups``: the numbers and queues behind each state.

Each function returns a text column for the rows that `spark.progress.health` decides on: one per
snapshot, group and topic, with the columns of ``progress.groups``, ``known`` (the known
observations of the group, oldest first: ``observed_at, value, lost``), ``first`` and ``last`` of
them, ``observations`` (how many there are), ``since`` (instant of the oldest), ``losing``
(queues that lost messages) and ``held_back`` (queues that flow control holds back). A *queue* is a
struct of `spark.progress.queue_progress.queues_with`.
"""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from lake.bounds import Bound
from spark.columns import milliseconds

NAMED_QUEUES = 5
"""Queues that a reason names; it counts the others."""


def joined(*parts: Column) -> Column:
    """Join the known parts of a reason."""
    return F.concat_ws(", ", *parts)


def observed_for() -> Column:
    """State how many observations the reason is about, and how long they took."""
    seconds = milliseconds("since", "observed_at") / 1000
    return F.format_string("over %s observations (%.0f s)", F.col("observations"), seconds)


def unconsumed(number: Column) -> Column:
    """Return a number of unconsumed messages as text, with its mark where it is a lower bound."""
    is_bound = F.coalesce("lag_is_lower_bound", F.lit(False))
    return F.concat(F.when(is_bound, f"{Bound.LOWER.mark} ").otherwise(""), number.cast("string"))


def lag_change() -> Column:
    """State the readable lag now and at the first known observation."""
    now, first = unconsumed(F.col("last.value")), unconsumed(F.col("first.value"))
    text = F.format_string("readable lag %s, was %s", now, first)
    return F.concat_ws(" ", text, observed_for())


def initially_lost() -> Column:
    """Return the first known number of lost messages: it is unknown before the first commit."""
    return F.get(F.filter("known.lost", lambda lost: lost.isNotNull()), F.lit(0))


def losing() -> Column:
    """State how many messages expired, in all and on each queue."""
    text = F.format_string("expired messages %s, were %s", F.col("last.lost"), initially_lost())

    def expired(queue: Column) -> Column:
        return F.format_string("%s expired, were %s", queue["lost"], queue["lowest_lost"])

    queues = F.when(F.size("losing") > 0, named_queues(F.col("losing"), expired))
    return F.concat_ws(": ", F.concat_ws(" ", text, observed_for()), queues)


def unknown(value: Column) -> Column:
    """State why the lag is unknown now, or that too few observations are known."""
    incomplete = F.format_string(
        "%s of %s queues unknown", F.col("queues_unknown"), F.col("queues")
    )
    few = F.format_string(
        "only %s of %s observations known", F.size("known"), F.col("observations")
    )
    return (
        F.when(~F.col("complete"), incomplete)
        .when(value.isNull(), F.lit("no queue with a known lag"))
        .otherwise(few)
    )


def unsubscribed() -> Column:
    """State the lag that a group leaves on a topic it subscribes to no more."""
    lag = unconsumed(F.col("value"))
    text = F.format_string("no client subscribes to the topic: readable lag %s", lag)
    return F.concat_ws(" ", text, observed_for())


def stopped() -> Column:
    """State the lag of a group without clients, and its largest queue."""
    text = F.format_string(
        "no client online and no commit advances: readable lag %s, most on %s/%s (%s)",
        unconsumed(F.col("value")),
        F.col("worst_broker"),
        F.col("worst_queue_id"),
        unconsumed(F.col("max_queue_lag")),
    )
    return joined(text, observed_for())


def stalled(queue: Column) -> Column:
    """State where the commit of a queue stays or fell back to, and the unconsumed messages."""
    now, first = queue["consumer_offset"], queue["first_commit"]
    committed = F.when(now < first, F.format_string("commit at %s, was at %s", now, first)).when(
        now.isNotNull(), F.format_string("commit stays at %s", now)
    )
    return F.concat(
        F.coalesce(committed, F.lit("never committed")),
        F.format_string(", %s unconsumed messages", unconsumed(queue["lag_upper"])),
    )


def blocked(queue: Column) -> Column:
    """State as for a stalled queue, and which messages of it were handed out."""
    pulled = F.when(
        queue["pull_offset"] > queue["lowest_pull"],
        F.format_string(
            "pull offset advanced from %s to %s", queue["lowest_pull"], queue["pull_offset"]
        ),
    )
    cached = F.when(
        queue["cache"]["messages"] > 0,
        F.format_string(
            "%s in the cache of %s", queue["cache"]["messages"], queue["cache"]["client_id"]
        ),
    )
    limit = queue["cache"]["limit"]
    at_limit = F.when(limit.isNotNull(), F.format_string("which pulls no more (%s)", limit))
    return joined(stalled(queue), pulled, cached, at_limit)


def standing(queues: Column, text: Callable[[Column], Column]) -> Column:
    """Return the text about standing queues, with unknown facts about members and acknowledgements.

    Args:
        queues: the queues.
        text: the statement about each queue.
    """
    online, pops = F.col("online"), F.col("pops")
    members = (
        F.when(online.isNull(), F.lit("standing, members unknown: "))
        .when(~online, F.lit("standing, no member online: "))
        .otherwise("")
    )
    uncounted = F.when(pops & F.col("largest_ack_tps").isNull(), F.lit("acknowledgements unknown"))
    return F.concat(members, joined(named_queues(queues, text), uncounted))


def holds_popped() -> Column:
    """State how many messages were in flight at the first and the last known observation."""
    flying = F.col("in_flight")
    now, first = F.get(flying, F.size(flying) - 1), F.get(flying, F.lit(0))
    text = F.format_string("%s messages in flight, were %s", now, first)
    return joined(F.concat_ws(" ", text, observed_for()), _no_acknowledgement())


def may_hold_popped() -> Column:
    """State that messages may be in flight which nothing counts."""
    unknown = F.lit("messages in flight unknown")
    return joined(unknown, _no_acknowledgement(), lag_change())


def _no_acknowledgement() -> Column:
    counted = F.lit("no acknowledgement counted")
    return F.when(F.col("largest_ack_tps").isNotNull(), counted).otherwise(
        "acknowledgements unknown"
    )


def redelivered() -> Column:
    """State the rate at which messages of the group are redelivered; else NULL."""
    rate = F.col("redelivered")
    return F.when(rate > 0, F.format_string("up to %.2f messages a second come back", rate))


def flow_controlled() -> Column:
    """State the queues that clients do not pull because their caches are at a limit; else NULL."""

    def at_limit(queue: Column) -> Column:
        cache = queue["cache"]
        return F.format_string("%s in the cache of %s", cache["limit"], cache["client_id"])

    queues = named_queues(F.col("held_back"), at_limit)
    return F.when(
        F.size("held_back") > 0, F.concat(F.lit("flow control holds back the pulls of "), queues)
    )


def falling_behind(
    rising_steps: Column, steps: Column, seconds: Column, messages: Column
) -> Column:
    """State the rise of the lag and the amount of production it is compared with.

    Args:
        rising_steps: steps between observations in which the lag rose or stayed level.
        steps: all steps.
        seconds: the threshold in seconds of production.
        messages: the same in messages.
    """
    rises = F.format_string(
        "up or level in %s of %s steps; %.0f s of production are %.0f",
        rising_steps,
        steps,
        seconds.cast("double"),
        messages,
    )
    return joined(lag_change(), rises, flow_controlled())


def idle() -> Column:
    """State that nothing happened."""
    return joined(F.lit("no lag, nothing written or consumed"), observed_for())


def named_queues(queues: Column, text: Callable[[Column], Column]) -> Column:
    """Name the first queues of an array, each with its text, and count the others."""

    def named(queue: Column) -> Column:
        client = F.concat(F.lit(" of "), queue["client_id"])
        name = F.concat_ws("/", queue["broker"], queue["queue_id"].cast("string"))
        return F.concat(name, F.coalesce(client, F.lit("")), F.lit(": "), text(queue))

    more = F.size(queues) - NAMED_QUEUES
    return F.concat_ws(
        "; ",
        F.transform(F.slice(queues, 1, NAMED_QUEUES), named),
        F.when(more > 0, F.format_string("and %s more", more)),
    )
