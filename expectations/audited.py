"""What is looked at once an hour: our own work, and whether sources agree with each other.

Raw rows are judged before anything is computed on them (`expectations.suites`). These rules find
mistakes of Tidemark's, and what shows over an hour only; no tick has to wait for them. All are of
severity ``warn``: what is wrong here is computed again once it is mended.
"""

from expectations.rules import Rule, at_least, between, one_of, ordered, structural
from lake.decisions import DROPPED, RELEASED, UNDONE
from lake.tables import TABLES

LAG_OF_QUEUES = "_lag_of_queues"
"""Annotation of ``progress.groups``: the lag summed over the group's rows of ``progress.queues`` in
the same snapshot; NULL where they were not given or none is known."""

ROWS = "_rows"
"""Annotation of ``raw.snapshots``: the rows of queues and of consumers that it holds."""

USUAL_ROWS = "_usual_rows"
"""Annotation of ``raw.snapshots``: the mean of `ROWS` of the cluster's snapshots in the hour before
it; NULL where there is none."""

FEW_ROWS = 20
"""So few rows come and go without meaning anything."""

DISAGREEING_QUEUES = "_disagreeing_queues"
"""Annotation of ``raw.snapshots`` that were read from a store: queues whose ``max_offset`` is not
between those of the live looks before and after; NULL where no queue has both."""

BULK = "_bulk"
"""Annotation of ``raw.consume_stats``: ``consumer_offset`` and ``max_offset`` of the same queue as
read in bulk, in the same look and in the next; NULL where there is none, or where the queue or the
progress on it fell meanwhile."""

_SLACK = "greatest(1, 0.2 * tps_observed)"
_COUNTED = "CASE stats_name WHEN 'TOPIC_PUT_NUMS' THEN {put} WHEN 'GROUP_GET_NUMS' THEN {got} END"

_RULES = {
    "raw.snapshots": (
        Rule(
            "rows_as_many_as_usual",
            "warn",
            f"CASE WHEN source = 'remote' AND status = 'COMPLETE' AND {USUAL_ROWS} >= {FEW_ROWS} "
            f"THEN {ROWS} >= {USUAL_ROWS} / 2 END",
            "a complete snapshot has less than half of the rows of queues and consumers that those "
            "of the hour before it had",
            ("cluster", "status"),
        ),
        Rule(
            "store_agrees_with_live_looks",
            "warn",
            f"{DISAGREEING_QUEUES} = 0",
            "a max_offset read from files is not between those of the live looks before and after",
            ("cluster", "source"),
        ),
    ),
    "raw.consume_stats": (
        # It was asked after the bulk of its look, and before that of the next.
        Rule(
            "agrees_with_bulk",
            "warn",
            f"consumer_offset BETWEEN {BULK}.consumer_offset AND {BULK}.next_consumer_offset "
            f"AND max_offset BETWEEN {BULK}.max_offset AND {BULK}.next_max_offset",
            "208 tells other offsets of a group's queue than 43 and 202 did before and after",
            ("consumer_offset", "max_offset"),
        ),
    ),
    "progress.groups": (
        at_least("queues", 0),
        at_least("queues_unknown", 0),
        ordered("queues_unknown", "queues"),
        ordered("queues_never_committed", "queues"),
        Rule(
            "complete_without_unknown_queues",
            "warn",
            "complete = (queues_unknown = 0)",
            "complete disagrees with queues_unknown",
            ("complete", "queues_unknown"),
        ),
        *(at_least(name, 0) for name in ("lag", "lost", "readable_lag", "delay_ms", "clients")),
        ordered("readable_lag", "lag_upper"),
        ordered("filtered_lag_low", "filtered_lag"),
        ordered("filtered_lag", "filtered_lag_high"),
        between("match_ratio", 0, 1),
        # A broadcasting group's row is that of its worst client, not of all of them.
        Rule(
            "lag_is_the_sum_of_its_queues",
            "warn",
            f"CASE WHEN message_model <=> 'BROADCASTING' THEN NULL ELSE lag = {LAG_OF_QUEUES} END",
            "lag <> sum of the lag of its queues",
            ("lag", "queues", "queues_unknown", "message_model"),
        ),
        one_of(
            "health",
            *("LOSING", "UNKNOWN", "STOPPED", "BLOCKED", "STALLED", "FALLING_BEHIND"),
            *("CATCHING_UP", "IDLE", "OK"),
        ),
    ),
    "progress.assignments": (
        one_of("state", "OK", "UNOWNED", "CONTESTED", "MOVED", "UNKNOWN"),
        Rule(
            "contested_by_several",
            "warn",
            "(state = 'CONTESTED') = (size(owners) > 1)",
            "state disagrees with the number of owners",
            ("state", "owners"),
        ),
    ),
    "progress.idle_clients": (at_least("clients", 1), at_least("queues", 0)),
    "progress.subscriptions": (
        Rule(
            "consistent_without_differences",
            "warn",
            "consistent = (size(differences) = 0)",
            "consistent disagrees with differences",
            ("consistent", "differences"),
        ),
    ),
    "progress.snapshots": (),
    "progress.timeline": (
        at_least("max_offset", 0),
        Rule(
            "previous_at_before_observed_at",
            "warn",
            "previous_at < observed_at",
            "previous_at >= observed_at",
            ("previous_at",),
        ),
    ),
    "progress.throughput": (
        at_least("tps", 0),
        at_least("sum", 0),
        at_least("tps_observed", 0),
        between("served_by_replicas", 0, 1),
        Rule(
            "tps_is_master_and_replicas",
            "warn",
            "abs(tps - coalesce(tps_master, 0) - coalesce(tps_replicas, 0)) <= 0.01",
            "tps <> tps_master + tps_replicas",
            ("tps", "tps_master", "tps_replicas"),
        ),
        # Both tell of the same hour, but not to the second. A group with a filter is given less
        # than its offsets advance; more than they advance was given twice.
        Rule(
            "tps_agrees_with_offsets",
            "warn",
            "CASE WHEN stats_window = 'hour' THEN "
            + _COUNTED.format(
                put=f"abs(tps - tps_observed) <= {_SLACK}", got=f"tps - tps_observed <= {_SLACK}"
            )
            + " END",
            "brokers counted messages of an hour that offsets do not tell of",
            ("tps", "tps_observed"),
        ),
    ),
    "progress.capacity": (
        at_least("threads", 0),
        at_least("consume_tps", 0),
        at_least("capacity_tps", 0),
        ordered("clients_told", "clients"),
    ),
    "progress.events": (
        at_least("messages", 0),
        one_of(
            "kind",
            *("REWOUND", "SKIPPED", "LOST", "RECREATED", "AHEAD_OF_BROKER", "DISAPPEARED"),
            *("FIRST_COMMIT", "BROKER_DOWN"),
        ),
    ),
    "quality.results": (
        ordered("unexpected", "elements"),
        Rule(
            "success_within_tolerance",
            "warn",
            "success = (unexpected = 0 OR try_divide(elements - unexpected, elements) >= mostly)",
            "success disagrees with unexpected and mostly",
            ("success", "unexpected", "elements", "mostly"),
        ),
    ),
    "quality.quarantine": (),
    "quality.decisions": (one_of("decision", RELEASED, DROPPED, UNDONE),),
    "alerting.alerts": (one_of("severity", "critical", "warning", "info"),),
    "alerting.incidents": (
        one_of("state", "PENDING", "FIRING", "ACKNOWLEDGED", "RESOLVED"),
        ordered("opened_at", "fired_at"),
        ordered("fired_at", "resolved_at"),
        Rule(
            "firing_since_an_instant",
            "warn",
            "CASE WHEN state IN ('FIRING', 'ACKNOWLEDGED') THEN fired_at IS NOT NULL END",
            "fired_at is NULL and state = FIRING or ACKNOWLEDGED",
            ("state", "fired_at"),
        ),
    ),
    "alerting.notifications": (
        at_least("attempts", 0),
        Rule(
            "delivered_at_an_instant",
            "warn",
            "(status = 'DELIVERED') = (delivered_at IS NOT NULL)",
            "status disagrees with delivered_at",
            ("status", "delivered_at", "last_error"),
        ),
    ),
}

AUDITED: dict[str, tuple[Rule, ...]] = {
    name: rules if name.startswith("raw.") else (*structural(TABLES[name], "warn"), *rules)
    for name, rules in _RULES.items()
}
"""Raw tables are held to their structure by every tick."""
