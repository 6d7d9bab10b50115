"""The partitions of assets, and the window that a run computes."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from tidemark.host.state import State
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window, ceil_hour, floor_hour
from tidemark.lake.landing import first_landed_hour
from tidemark.lake.landing_places import Landing
from tidemark.lake.retention import observed_since, raw_since
from tidemark.planning import history
from tidemark.settings.sections import DEFAULT_HISTORY


def first_hour(days: int) -> datetime:
    """Return the first hour of a history of that many days."""
    return floor_hour(datetime.now(UTC) - timedelta(days=days))


STARTS_WITHIN = timedelta(minutes=5)
"""Time within which the first run of a deployment starts; it is of the hour of its request."""


def kept_since(state: State, days: int) -> datetime:
    """Return the first hour within history that has all its raw rows, observed or not.

    Args:
        state: of the deployment.
        days: of history.
    """
    removed = raw_since(state)
    return max(first_hour(days), ceil_hour(removed)) if removed else first_hour(days)


def computable_since(state: State, landing: Landing, days: int) -> datetime:
    """Return the first hour that can be computed: within history, observed, with all its raw rows.

    Landed history may be older than the days that raw rows are kept. It can be computed until
    retention has removed its rows. Before the first load, what has landed will be computed; a new
    deployment has nothing, so its first hour is the present one.

    Args:
        state: of the deployment.
        landing: where snapshots land.
        days: of history.
    """
    first = observed_since(state) or first_landed_hour(landing)
    observed = first or datetime.now(UTC) - STARTS_WITHIN
    return max(kept_since(state, days), floor_hour(observed))


def hourly(since: datetime) -> dg.HourlyPartitionsDefinition:
    """Return the partitions from an hour on; ticks write into the hour under way, so it is one."""
    return dg.HourlyPartitionsDefinition(start_date=since, end_offset=1, timezone="UTC")


HOURLY = hourly(first_hour(DEFAULT_HISTORY.days))
"""The partitions as assets declare them. Definitions put those that can be computed in place, with
the policy of backfills: as a keyword of an asset it is in beta, and Dagster warns at each."""

TABLES_POOL = "tidemark_tables"
"""Dagster's pool of steps that change tables. A limit of 1 with the granularity ``run`` lets runs
wait in the queue; without one they start, and wait for the lease of runs."""


def in_parts(hours: int) -> dg.BackfillPolicy:
    """Return the policy by which Dagster computes a range: one run for that many hours.

    A run for each hour would take longer, because each run plans its queries again. A run of any
    length would keep ticks, and so alerts, waiting until its end.
    """
    return dg.BackfillPolicy.multi_run(hours)


ON_TABLES: Mapping[str, Any] = {"pool": TABLES_POOL}
"""Keywords of every step that changes tables or computes."""

ON_WINDOWS: Mapping[str, Any] = {"partitions_def": HOURLY, **ON_TABLES}
"""Keywords of every step that writes the window of a run."""

PARTITION = "dagster/partition"
RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
"""Tags by which Dagster names the hours of a run."""

HIDDEN = ".dagster/tidemark-"
"""Prefix of tags that only programs read: Dagster keeps tags in this namespace out of its pages."""

PENDING_TAG = HIDDEN + "window"
PENDING = {PENDING_TAG: "pending"}
"""Tags of a run that computes all pending snapshots, whatever their hour."""


def is_tick(tags: Mapping[str, str]) -> bool:
    """Return whether the run with these tags computes pending snapshots."""
    return tags.get(PENDING_TAG) == PENDING[PENDING_TAG]


def partition_key(instant: datetime) -> str:
    """Return the key of the hour of an instant."""
    return floor_hour(instant).strftime(HOURLY.fmt)


def range_tags(window: Window) -> dict[str, str]:
    """Return tags by which one run computes all hours of a window."""
    hours = window.whole_hours()
    return {
        RANGE_START: partition_key(hours.start),
        RANGE_END: partition_key(hours.end - HOUR),
    }


def tick_since(days: int) -> datetime:
    """Return the instant from which on ticks compute loaded snapshots, that many days back."""
    return datetime.now(UTC) - timedelta(days=days + 1)


def run_window(tags: Mapping[str, str], lake: Lake, days: int) -> Window:
    """Return the window of a run; an empty one when nothing is pending.

    A tick computes the loaded snapshots that are not computed. Every other run computes the hours
    of its partitions.

    Args:
        tags: tags of the run.
        lake: the tables.
        days: how many days back a tick searches for loaded snapshots.
    """
    if is_tick(tags):
        now = datetime.now(UTC)
        return history.pending_window(lake, tick_since(days)) or Window(now, now)
    return _hours_of(tags)


def run_hours(tags: Mapping[str, str]) -> int:
    """Return how many hours a run computes by its tags; 0 for a tick, which learns it later."""
    window = chosen_hours(tags)
    return round((window.end - window.start) / HOUR) if window else 0


def chosen_hours(tags: Mapping[str, str]) -> Window | None:
    """Return the hours that a run was started for; None where it has no partition or is a tick."""
    if is_tick(tags) or not (RANGE_START in tags or PARTITION in tags):
        return None
    return _hours_of(tags)


def _hours_of(tags: Mapping[str, str]) -> Window:
    start = tags.get(RANGE_START) or tags[PARTITION]
    end = tags.get(RANGE_END) or start
    return Window(_hour(start), _hour(end) + HOUR)


def _hour(key: str) -> datetime:
    return datetime.strptime(key, HOURLY.fmt).replace(tzinfo=UTC)
