"""``alerting.*``: what people are told."""

from lake.schema import DOUBLE, STRING, Column, Table
from lake.tables import raw

ALERTS = Table(
    "alerting.alerts",
    "One row per rule, subject and evaluation that is true.",
    (
        raw.OBSERVED_AT,
        Column("rule", STRING, "name of the rule"),
        Column("severity", STRING, "critical | warning | info"),
        Column("subject", STRING, "cluster/group/topic"),
        Column("value", DOUBLE, "what was found"),
        Column("threshold", DOUBLE, "what the rule allows"),
        Column("evidence", STRING, "the snapshots and rows that made it true, as JSON"),
    ),
    key=("observed_at", "rule", "subject"),
)

ALL = (ALERTS,)
