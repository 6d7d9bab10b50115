"""Hours of objectives in October 2026, by hand."""

from datetime import timedelta

from tidemark.planning.objectives import month_of

OCTOBER = month_of("2026-10")


def hour(number, signs, **columns):
    """The row of an hour of October, whose minutes the signs spell."""
    at = OCTOBER.start + timedelta(hours=number)
    counts = {"good": signs.count("+"), "bad": signs.count("-"), "unknown": signs.count("?")}
    return {
        **{"hour": at, "observed_at": at + timedelta(minutes=len(signs) - 1), "minutes": signs},
        **{"consumer_group": "billing", "topic": "orders", "objective": "on-time"},
        **{"measure": "delay", "threshold": 30_000.0, "target": 0.99, **counts},
        **columns,
    }


def whole_month(**changed):
    """An hour of good minutes for each of the month, but for the changed ones."""
    return [
        hour(number, changed.get(f"h{number}", "+" * 60))
        for number in range(31 * 24)
        if changed.get(f"h{number}", "+") != ""
    ]
