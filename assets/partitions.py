"""The one definition of partitions, and how an asset's run finds the window it works on."""

import warnings
from datetime import UTC, datetime, timedelta

import dagster as dg

from lake import history
from lake.catalog import Lake
from lake.settings import whole_number
from lake.window import HOUR, Window, floor_hour

HISTORY_DAYS = whole_number("TIDEMARK_HISTORY_DAYS", 30)
"""Landed history that can still be loaded and recomputed (``TIDEMARK_HISTORY_DAYS``)."""

FIRST_DAY = (datetime.now(UTC) - timedelta(days=HISTORY_DAYS + 1)).replace(
    hour=0, minute=0, second=0, microsecond=0
)

HOURLY = dg.HourlyPartitionsDefinition(
    # The hour under way is a partition too: ticks write into it.
    start_date=FIRST_DAY,
    end_offset=1,
    timezone="UTC",
)

# Backfill policies have been in beta for years; being told at every start helps nobody.
warnings.filterwarnings("ignore", category=dg.BetaWarning)

BACKFILL = dg.BackfillPolicy.single_run()
"""Any range of hours is computed by one run: starting Spark per hour would cost more than them."""

PENDING_TAG = "tidemark/window"
PENDING = {PENDING_TAG: "pending"}
"""Tags of a run that computes what is loaded and not computed yet, whatever its hour."""


Context = dg.AssetExecutionContext | dg.AssetCheckExecutionContext


def is_tick(context: Context) -> bool:
    """Whether the run computes what is pending."""
    return context.run.tags.get(PENDING_TAG) == PENDING[PENDING_TAG]


def partition_key(instant: datetime) -> str:
    """The key of the hour an instant lies in."""
    return floor_hour(instant).strftime(HOURLY.fmt)


def range_tags(window: Window) -> dict[str, str]:
    """Tags that make one run of all hours of a window."""
    hours = window.whole_hours()
    return {
        "dagster/asset_partition_range_start": partition_key(hours.start),
        "dagster/asset_partition_range_end": partition_key(hours.end - HOUR),
    }


def run_window(context: Context, lake: Lake) -> Window:
    """The window this run works on; an empty one when nothing is pending.

    A tick works on the loaded snapshots that are not computed yet, every other run on the hours
    it was asked for.
    """
    if is_tick(context):
        now = datetime.now(UTC)
        window = history.pending_window(lake, hours_back=(HISTORY_DAYS + 1) * 24)
        return window or Window(now, now)
    tags = context.run.tags
    start = tags.get("dagster/asset_partition_range_start") or tags["dagster/partition"]
    end = tags.get("dagster/asset_partition_range_end") or start
    return Window(_hour(start), _hour(end) + HOUR)


def _hour(key: str) -> datetime:
    return datetime.strptime(key, HOURLY.fmt).replace(tzinfo=UTC)
