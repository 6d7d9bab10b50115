"""The sensor that tells people."""

import os

import dagster as dg

from alerting.channels import open_channels
from alerting.notifications import tell
from assets.resources import LakeResource


@dg.sensor(
    minimum_interval_seconds=15,
    default_status=(
        dg.DefaultSensorStatus.RUNNING
        if os.environ.get("TIDEMARK_SCHEDULE") == "on"
        else dg.DefaultSensorStatus.STOPPED
    ),
)
def notify(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SkipReason:
    """Turns new alerts into notifications, on every channel.

    A channel that fails is told again at the next evaluation; what was delivered is not repeated.
    """
    told = tell(lake.lake, context.cursor, open_channels())
    context.update_cursor(told.cursor)
    for alert in told.alerts:
        context.log.info(f"{alert.severity} {alert.rule}: {alert.subject}")
    failed = "; ".join(f"{name}: {why}" for name, why in told.delivery.failed.items())
    return dg.SkipReason(
        f"told {len(told.alerts)} alerts" + (f"; failed: {failed}" if failed else "")
    )
