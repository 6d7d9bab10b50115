"""Expectations of the hourly audit, by table: those of ticks and those that only the audit has.

The audit finds mistakes of Tidemark's own computations and disagreements between sources, some of
which show over an hour only. No tick waits for it. Its own expectations have severity ``warn``,
because a recomputation replaces wrong rows once the mistake is corrected.
"""

from expectations.declarations import (
    BULK,
    DISAGREEING_QUEUES,
    LAG_OF_OFFSETS,
    LAG_OF_QUEUES,
    ROWS,
    USUAL_ROWS,
    Expectation,
    at_least,
    between,
    one_of,
    ordered,
    structural,
)
from expectations.tick_suites import TICK_EXPECTATIONS
from tidemark.lake.tables import TABLES, progress
from tidemark.model.consumption import AssignmentState, ConsumeMode, EventKind, UnreadableReason
from tidemark.model.health import Health
from tidemark.model.incidents import IncidentState, NotificationStatus, Severity
from tidemark.model.snapshots import SnapshotSource, SnapshotStatus
from tidemark.planning.quarantine_decisions import DROPPED, RELEASED, UNDONE

FEW_ROWS = 20
"""Fewest rows of a cluster for a comparison, as a few rows are added or removed at any time."""

_SLACK = "greatest(1, 0.2 * tps_observed)"
_COUNTED = "CASE stats_name WHEN 'TOPIC_PUT_NUMS' THEN {put} WHEN 'GROUP_GET_NUMS' THEN {got} END"

_OWN = {
    "raw.snapshots": (
        Expectation(
            name="rows_as_many_as_usual",
            severity="warn",
            condition=f"CASE WHEN source = '{SnapshotSource.REMOTE}' "
            f"AND status = '{SnapshotStatus.COMPLETE}' "
            f"AND {USUAL_ROWS} >= {FEW_ROWS} THEN {ROWS} >= {USUAL_ROWS} / 2 END",
            violation="a complete snapshot has less than half of the queue and consumer offset "
            "rows of an average snapshot of the hour before",
            columns=("cluster", "status"),
        ),
        Expectation(
            name="store_agrees_with_live_looks",
            severity="warn",
            condition=f"{DISAGREEING_QUEUES} = 0",
            violation="a max_offset read from files is outside those of the live snapshots "
            "before and after",
            columns=("cluster", "source"),
        ),
    ),
    "raw.consume_stats": (
        # It was read after the bulk of its snapshot and before the bulk of the next.
        Expectation(
            name="agrees_with_bulk",
            severity="warn",
            condition=f"consumer_offset BETWEEN {BULK}.consumer_offset AND "
            f"{BULK}.next_consumer_offset "
            f"AND max_offset BETWEEN {BULK}.max_offset AND {BULK}.next_max_offset",
            violation="request 208 reports offsets outside those of requests 43 and 202 before "
            "and after it",
            columns=("consumer_offset", "max_offset"),
        ),
    ),
    "raw.broker_metrics": (
        # Offsets give a lower bound for POP, and the endpoint an estimate for filtered groups.
        Expectation(
            name="lag_agrees_with_offsets",
            severity="warn",
            condition=f"CASE WHEN {LAG_OF_OFFSETS}.consume_mode <=> '{ConsumeMode.POP}' "
            f"THEN lag >= {LAG_OF_OFFSETS}.least "
            f"WHEN {LAG_OF_OFFSETS}.match_method = 'none' "
            f"THEN lag BETWEEN {LAG_OF_OFFSETS}.least AND {LAG_OF_OFFSETS}.most END",
            violation="the broker's metrics endpoint reports a lag outside that of the offsets "
            "before and after it",
            columns=("lag", "inflight", "ready", LAG_OF_OFFSETS),
        ),
    ),
    "progress.groups": (
        at_least("queues", 0),
        at_least("queues_unknown", 0),
        ordered("queues_unknown", "queues"),
        ordered("queues_never_committed", "queues"),
        Expectation(
            name="complete_without_unknown_queues",
            severity="warn",
            condition="complete = (queues_unknown = 0)",
            violation="complete disagrees with queues_unknown",
            columns=("complete", "queues_unknown"),
        ),
        *(at_least(name, 0) for name in ("lag", "lost", "readable_lag", "delay_ms", "clients")),
        at_least("unreachable_messages", 0),
        ordered("readable_lag", "lag_upper"),
        ordered("filtered_lag_low", "filtered_lag"),
        ordered("filtered_lag", "filtered_lag_high"),
        between("match_ratio", 0, 1),
        # A broadcasting group's row is that of its worst client, not of all of them.
        Expectation(
            name="lag_is_the_sum_of_its_queues",
            severity="warn",
            condition="CASE WHEN message_model <=> 'BROADCASTING' THEN NULL ELSE lag = "
            f"{LAG_OF_QUEUES} END",
            violation="lag <> the sum of the lag of its queues",
            columns=("lag", "queues", "queues_unknown", "message_model"),
        ),
        one_of("health", *Health),
    ),
    "progress.topics": (
        *(at_least(name, 0) for name in ("queues", "messages", "unreadable_messages")),
        *(at_least(name, 0) for name in ("added_last_hour", "timing_messages", "produce_tps")),
        ordered("unreadable_messages", "messages"),
        one_of("unreadable_reason", *UnreadableReason),
        Expectation(
            name="unreadable_for_a_reason",
            severity="warn",
            condition="(unreadable_messages > 0) = (unreadable_reason IS NOT NULL)",
            violation="unreadable_messages disagrees with unreadable_reason",
            columns=("unreadable_messages", "unreadable_reason", "read_queues", "perm"),
        ),
    ),
    "progress.assignments": (
        one_of("state", *AssignmentState),
        Expectation(
            name="contested_by_several",
            severity="warn",
            condition=f"(state = '{AssignmentState.CONTESTED}') = (size(owners) > 1)",
            violation="state disagrees with the number of owners",
            columns=("state", "owners"),
        ),
    ),
    "progress.idle_clients": (at_least("clients", 1), at_least("queues", 0)),
    "progress.subscriptions": (
        Expectation(
            name="consistent_without_differences",
            severity="warn",
            condition="consistent = (size(differences) = 0)",
            violation="consistent disagrees with differences",
            columns=("consistent", "differences"),
        ),
    ),
    "progress.snapshots": (),
    "progress.timeline": (
        at_least("max_offset", 0),
        ordered("previous_at", "observed_at", name="previous_at_before_observed_at", strictly=True),
    ),
    "progress.peaks": (at_least("peak_tps", 0), between("hour_of_week", 0, 167)),
    "progress.baselines": (
        between("hour_of_week", 0, 167),
        between("weeks", 1, 4),
        *(
            ordered(f"{measure}_low", f"{measure}_high", name=f"{measure}_low_to_high")
            for measure in progress.BASELINE_MEASURES
        ),
    ),
    "progress.objectives": (
        *(between(name, 0, 60) for name in ("good", "bad", "unknown")),
        at_least("bad_before", 0),
        at_least("unknown_before", 0),
        at_least("burn_rate_1h", 0),
        at_least("burn_rate_6h", 0),
        Expectation(
            name="minutes_of_an_hour",
            severity="warn",
            condition="good + bad + unknown <= 60",
            violation="good + bad + unknown > 60",
            columns=("good", "bad", "unknown"),
        ),
    ),
    "progress.throughput": (
        at_least("tps", 0),
        at_least("sum", 0),
        at_least("tps_observed", 0),
        between("served_by_replicas", 0, 1),
        Expectation(
            name="tps_is_master_and_replicas",
            severity="warn",
            condition="abs(tps - coalesce(tps_master, 0) - coalesce(tps_replicas, 0)) <= 0.01",
            violation="tps <> tps_master + tps_replicas",
            columns=("tps", "tps_master", "tps_replicas"),
        ),
        # Both cover the same hour, but not to the second. A group with a filter receives fewer
        # messages than its offsets advance by; a group that receives more received some twice.
        Expectation(
            name="tps_agrees_with_offsets",
            severity="warn",
            condition="CASE WHEN stats_window = 'hour' THEN "
            + _COUNTED.format(
                put=f"abs(tps - tps_observed) <= {_SLACK}", got=f"tps - tps_observed <= {_SLACK}"
            )
            + " END",
            violation="brokers counted other numbers of messages in an hour than offsets "
            "advanced by",
            columns=("tps", "tps_observed"),
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
        one_of("kind", *EventKind),
    ),
    "quality.results": (
        ordered("unexpected", "elements"),
        Expectation(
            name="success_within_tolerance",
            severity="warn",
            condition="success = (unexpected = 0 OR try_divide(elements - unexpected, elements) "
            ">= mostly)",
            violation="success disagrees with unexpected and mostly",
            columns=("success", "unexpected", "elements", "mostly"),
        ),
    ),
    "quality.quarantine": (),
    "quality.decisions": (one_of("decision", RELEASED, DROPPED, UNDONE),),
    "alerting.alerts": (one_of("severity", *Severity),),
    "alerting.incidents": (
        one_of("state", *IncidentState),
        ordered("opened_at", "fired_at"),
        ordered("fired_at", "resolved_at"),
        Expectation(
            name="firing_since_an_instant",
            severity="warn",
            condition=f"CASE WHEN state IN ('{IncidentState.FIRING}', "
            f"'{IncidentState.ACKNOWLEDGED}') THEN fired_at IS NOT NULL END",
            violation="fired_at is NULL and state = FIRING or ACKNOWLEDGED",
            columns=("state", "fired_at"),
        ),
    ),
    "alerting.notifications": (
        at_least("attempts", 0),
        Expectation(
            name="delivered_at_an_instant",
            severity="warn",
            condition=f"(status = '{NotificationStatus.DELIVERED}') = (delivered_at IS NOT NULL)",
            violation="status disagrees with delivered_at",
            columns=("status", "delivered_at", "last_error"),
        ),
    ),
}

AUDIT_ONLY: dict[str, tuple[Expectation, ...]] = {
    name: own if name.startswith("raw.") else (*structural(TABLES[name], "warn"), *own)
    for name, own in _OWN.items()
}
"""Expectations by full table name. Ticks already validate the structure of raw tables."""

AUDIT_EXPECTATIONS: dict[str, tuple[Expectation, ...]] = {
    name: (*TICK_EXPECTATIONS.get(name, ()), *AUDIT_ONLY.get(name, ()))
    for name in {**TICK_EXPECTATIONS, **AUDIT_ONLY}
}
"""All expectations by full table name."""
