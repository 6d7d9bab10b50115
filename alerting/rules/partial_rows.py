"""SQL conditions on rows of which a part may be unknown, as a broker did not respond."""

SUMS = frozenset(
    (
        *("lag", "inflight", "available", "lost", "readable_lag", "lag_upper", "max_queue_lag"),
        *("queues", "queues_unknown", "queues_never_committed", "queues_flow_controlled"),
        "clients",
        *("delay_ms", "ready_delay_ms"),
        *("lag_span_ms", "inflight_span_ms", "available_span_ms"),
        *("produce_tps", "consume_tps", "pull_tps", "ack_tps"),
        *("filtered_lag", "filtered_lag_low", "filtered_lag_high", "retry_lag", "dlq_messages"),
    )
)
"""Columns of ``progress.groups`` that an unreachable broker could only raise: sums and maxima."""

MINIMA = frozenset({"loss_in_seconds"})
"""Columns that it could only lower."""


def known(condition: str, *, part_suffices: bool = True) -> str:
    """Return SQL of whether a condition is true of a row; NULL where that is unknown.

    The missing part of an incomplete row makes no condition untrue.

    Args:
        condition: SQL about numbers of the row.
        part_suffices: whether the condition is true of the whole row where it is true of the known
            part, because the unknown part can only add to a sum.
    """
    if not part_suffices:
        return f"(CASE WHEN complete THEN {condition} END)"
    return (
        f"(CASE WHEN {condition} THEN true WHEN complete AND ({condition}) IS NOT NULL "
        "THEN false END)"
    )
